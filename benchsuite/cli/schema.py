"""`benchsuite schema`: the JSON Schema of scenario files, and of reports."""

from __future__ import annotations

import json

import click


@click.command("schema", short_help="Print the JSON Schema of scenario files, or of reports.")
@click.argument("what", type=click.Choice(["scenario", "report"]), default="scenario")
def command(what: str) -> None:
    """Print the JSON Schema of scenario files, or of `benchsuite report --format json`.

    An editor with a YAML language server completes and checks scenarios after
    `benchsuite schema > scenario.schema.json` and a first line
    `# yaml-language-server: $schema=scenario.schema.json` in the file.
    """
    from benchsuite.report.json_schema import report_schema
    from benchsuite.scenario.load import schema

    click.echo(json.dumps(report_schema() if what == "report" else schema(), indent=2))
