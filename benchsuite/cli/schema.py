"""`benchsuite schema`: the JSON Schema of scenario and suite files, for editors."""

from __future__ import annotations

import json

import click


@click.command("schema", short_help="Print the JSON Schema of scenario files.")
@click.option("--suite", is_flag=True, help="Of suite files instead.")
def command(suite: bool) -> None:
    """Print the JSON Schema of scenario files.

    An editor with a YAML language server completes and checks scenarios after
    `benchsuite schema > scenario.schema.json` and a first line
    `# yaml-language-server: $schema=scenario.schema.json` in the file.
    """
    from benchsuite.scenario import load
    from benchsuite.scenario import suite as suites

    click.echo(json.dumps(suites.schema() if suite else load.schema(), indent=2))
