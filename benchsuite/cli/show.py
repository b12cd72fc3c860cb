"""`benchsuite show`: a scenario's plan in words, and the exact server command."""

from __future__ import annotations

from typing import Any

import click

from benchsuite.cli.completing import complete_scenario
from benchsuite.cli.examples import examples
from benchsuite.cli.options import run_options


@click.command(
    "show",
    epilog=examples(
        "benchsuite show scenarioB",
        "benchsuite show scenarioB --variant P --set cache-type-k=q8_0",
    ),
)
@click.argument("scenario", shell_complete=complete_scenario)
@run_options
def command(scenario: str, **given: Any) -> None:
    """Show a scenario's plan in words, and the exact command of each server.

    Nothing is started. Takes the options of `run` that choose server, variants and flags.
    """
    from benchsuite.pipeline.command import show_command

    click.echo(show_command(scenario, given), nl=False)
