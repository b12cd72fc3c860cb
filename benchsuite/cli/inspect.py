"""`benchsuite inspect`: what a saved log says."""

from __future__ import annotations

import click


@click.group("inspect")
def command() -> None:
    """Read what a server left behind."""


@command.command(
    "log",
    epilog="Examples:  benchsuite inspect log server.log   |   llama-server ... 2>&1 | "
    "benchsuite inspect log - --json",
)
@click.argument("file", metavar="FILE|-")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def log(file: str, as_json: bool) -> int:
    """Show KV memory, slots, crash and failure that a llama-server log tells of.

    Takes any saved log, of any era, backend and fork that is known; `-` reads standard input.
    Exits 4 where KV memory is unreadable, and says why.
    """
    import os
    import sys

    from benchsuite.errors import ExitCode
    from benchsuite.pipeline.inspect import inspect_log
    from benchsuite.report.inspect import render_inspection, render_inspection_json
    from benchsuite.report.layout import style_for

    found = inspect_log(file)
    if as_json:
        click.echo(render_inspection_json(found), nl=False)
    else:
        click.echo(render_inspection(found, style_for(sys.stdout, os.environ)), nl=False)
    return int(ExitCode.SERVER_FAILED if found.unreadable else ExitCode.PASS)
