"""`benchsuite diff`: compare two runs, baseline folders or git revisions."""

from __future__ import annotations

import click

from benchsuite.cli.completing import complete_run
from benchsuite.cli.examples import examples


@click.command(
    "diff",
    epilog=examples(
        "benchsuite diff git:main last",
        "benchsuite diff RUN_A RUN_B --markdown",
        "benchsuite diff last",
    ),
)
@click.argument("a", shell_complete=complete_run)
@click.argument("b", required=False, shell_complete=complete_run)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print a Markdown table.")
@click.option("--html", metavar="FILE", help="Write the diff as one HTML file too.")
def command(a: str, b: str | None, as_json: bool, as_markdown: bool, html: str | None) -> int:
    """Show what changed from A to B.

    Each is a run (a path, the beginning of its id, or `last`), a baseline folder, or git:REV,
    which is the baseline folder as it was at that revision. Without B, A is compared with the
    working tree's baselines. Exits 0 where nothing changed (noise aside), 1 where something did.
    """
    import os
    import sys
    from pathlib import Path

    from benchsuite.errors import ExitCode, UsageError
    from benchsuite.report.diff import diff
    from benchsuite.report.diff_text import render_diff, render_diff_json, render_diff_markdown
    from benchsuite.report.layout import safe_json, style_for
    from benchsuite.report.sources import read_sides
    from benchsuite.scenario.workspace import load_workspace
    from benchsuite.store.files import write_atomic

    if as_json and as_markdown:
        raise UsageError("--json and --markdown exclude each other")
    workspace = load_workspace()
    sides = read_sides(
        a,
        b,
        baselines_folder=workspace.baselines,
        runs_folder=workspace.runs,
    )
    found = diff(*sides)
    if html is not None:
        from benchsuite.report.html.diff_page import render_diff_html

        write_atomic(Path(html), render_diff_html(found).encode())
    if as_json:
        click.echo(safe_json(render_diff_json(found)), nl=False)
    elif as_markdown:
        click.echo(render_diff_markdown(found), nl=False)
    else:
        click.echo(render_diff(found, style_for(sys.stdout, os.environ)), nl=False)
    return int(ExitCode.PASS if found.is_same else ExitCode.GATE_FAILED)
