"""`benchsuite inspect`: what a saved log or a running server says."""

from __future__ import annotations

import click


@click.group("inspect")
def command() -> None:
    """Read what a server says, or left behind."""


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


@command.command(
    "server",
    epilog="Examples:  benchsuite inspect server http://127.0.0.1:8080   |   "
    "benchsuite inspect server http://host:8080 --api-key-env KEY --json",
)
@click.argument("url", metavar="URL")
@click.option("--api-key-env", metavar="NAME", help="Variable that holds the server's key.")
@click.option(
    "--idle-limit",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds that a request may go without a byte.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def server(url: str, api_key_env: str | None, idle_limit: float, as_json: bool) -> int:
    """Show what a running llama-server says of itself over HTTP.

    Reads /health, /props, /slots and /metrics of builds of any era; nothing is generated and a
    sleeping server is not woken. KV memory is not told over HTTP: see 'inspect log'. Exits 4
    where something is unreadable, and says why.
    """
    import os
    import sys

    from benchsuite.errors import ExitCode
    from benchsuite.pipeline.inspect_server import inspect_server
    from benchsuite.report.inspect_server import render_server, render_server_json
    from benchsuite.report.layout import style_for

    found = inspect_server(url, api_key_env, os.environ, idle_limit)
    if as_json:
        click.echo(render_server_json(found), nl=False)
    else:
        click.echo(render_server(found, style_for(sys.stdout, os.environ)), nl=False)
    return int(ExitCode.SERVER_FAILED if found.unreadable else ExitCode.PASS)
