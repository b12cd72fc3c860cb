"""`benchsuite report`: write stored runs in a format of other tools."""

from __future__ import annotations

from typing import Any

import click

from benchsuite.cli.examples import examples
from benchsuite.cli.options import report_files, report_options


def _list_formats(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from benchsuite.report.formats import FORMATS

    rows = [(one.name, one.suffix, one.summary) for one in FORMATS.values()]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    for name, suffix, summary in rows:
        click.echo(f"{name:{widths[0]}}  {suffix:{widths[1]}}  {summary}")
    ctx.exit()


@click.command(
    "report",
    epilog=examples(
        "benchsuite report --to run.csv",
        "benchsuite report last --format markdown --base git:origin/main",
    ),
)
@click.argument("runs", nargs=-1, metavar="[RUN ...]")
@click.option("--format", "format_name", metavar="NAME", help="Of the report; see --list.")
@click.option("--to", "file", metavar="FILE", help="Where it goes; its end tells the format.")
@click.option(
    "--base",
    metavar="git:REV",
    help="Say at the top which baselines differ from those at this revision (markdown).",
)
@click.option(
    "--key",
    metavar="NAME",
    help="Tell this pull-request comment from others of the same repository (markdown).",
)
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_formats,
    help="List the formats, and the ends of file names that tell them.",
)
@report_options(
    "html",
    "markdown",
    "junit",
    "csv",
    "pytest-benchmark",
    "github-action-benchmark-smaller",
    "github-action-benchmark-bigger",
    "openmetrics",
)
def command(
    runs: tuple[str, ...],
    format_name: str | None,
    file: str | None,
    base: str | None,
    key: str | None,
    **given: Any,
) -> None:
    """Write stored runs in another format, to a file or to standard output.

    RUN is a run folder, a record.json, an archive of a run, the beginning of a run's id, or
    `last`, which is meant where none is named. A run that was killed is read from its journal.
    The exit code says whether the report was written, not what it says.
    """
    from benchsuite.pipeline.report import report_text, write_report
    from benchsuite.report.layout import safe
    from benchsuite.report.report_input import DEFAULT_KEY

    wanted: list[tuple[str | None, str | None]] = list(report_files(given).items())
    if format_name is not None or file is not None or not wanted:
        wanted.append((format_name, file))
    told: tuple[str, ...] = ()
    for name, target in wanted:
        text, told = report_text(
            runs, format_name=name, file=target, base=base, key=key or DEFAULT_KEY
        )
        if target is None:
            click.echo(text.encode(), nl=False)
        else:
            write_report(text, target)
            click.echo(f"wrote {safe(target)}", err=True)
    for words in told:
        click.echo(f"warning: {safe(words)}", err=True)
