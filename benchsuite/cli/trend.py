"""`benchsuite trend`: the history of a metric."""

from __future__ import annotations

from typing import Any

import click

from benchsuite.cli.completing import complete_scenario
from benchsuite.cli.examples import examples


@click.command(
    "trend",
    epilog=examples(
        "benchsuite trend kv_mib",
        'benchsuite trend \'ttft_ms{session="A",turn="2"}\' --scenario scenarioB',
    ),
)
@click.argument("selector")
@click.option(
    "--scenario",
    metavar="S",
    help="Only runs of this scenario.",
    shell_complete=complete_scenario,
)
@click.option("-d", "--deployment", metavar="NAME", help="Only runs on this deployment.")
@click.option("--variant", metavar="V", help="Only this variant.")
@click.option("--machine", metavar="NAME", help="Only runs on this machine.")
@click.option("--last", type=click.IntRange(1), metavar="N", help="The newest N runs of a series.")
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M"]),
    metavar="DATE",
    help="Runs from this day (UTC) on: 2026-11-30.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, a line for each run.")
@click.option("--html", metavar="FILE", help="Write plots and tables as one HTML file too.")
def command(
    selector: str, as_json: bool, as_csv: bool, since: Any, html: str | None, **given: Any
) -> None:
    """Show the history of a metric over all stored runs, and where it changed.

    SELECTOR is a metric with exactly its labels, as in gates. Steps and slow drift of memory and
    timings are told from noise from 10 runs on; of everything else each change is told.
    """
    from benchsuite.errors import UsageError
    from benchsuite.pipeline.trend import TrendOptions, trend
    from benchsuite.report.layout import safe
    from benchsuite.scenario.workspace import load_workspace

    if as_json and as_csv:
        raise UsageError("--json and --csv exclude each other")
    start = None if since is None else since.isoformat()
    options = TrendOptions(**given, since=start)
    form = "json" if as_json else "csv" if as_csv else "text"
    found = trend(selector, options, load_workspace().runs, form, html)  # type: ignore[arg-type]  # by form
    for warning in found.warnings:
        click.echo(safe(f"warning: {warning}"), err=True)
    click.echo(found.text, nl=False)
