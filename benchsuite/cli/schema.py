"""`benchsuite schema`: the JSON Schema of scenario files, for editors."""

from __future__ import annotations

import json

import click

from benchsuite.cli.examples import examples


@click.command(
    "schema",
    short_help="Print the JSON Schema of scenario files.",
    epilog=examples("benchsuite schema > scenario.schema.json"),
)
def command() -> None:
    """Print the JSON Schema of scenario files.

    An editor with a YAML language server completes and checks scenarios after
    `benchsuite schema > scenario.schema.json` and a first line
    `# yaml-language-server: $schema=scenario.schema.json` in the file.
    """
    from benchsuite.scenario.load import schema

    click.echo(json.dumps(schema(), indent=2))
