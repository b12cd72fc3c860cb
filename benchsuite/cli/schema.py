"""`benchsuite schema`: the JSON Schema of scenario files, of suites, and of reports."""

from __future__ import annotations

import json

import click

from benchsuite.cli.examples import examples


@click.command(
    "schema",
    short_help="Print a JSON Schema: of scenarios, suites or reports.",
    epilog=examples("benchsuite schema > scenario.schema.json", "benchsuite schema report"),
)
@click.argument("what", type=click.Choice(["scenario", "suite", "report"]), default="scenario")
def command(what: str) -> None:
    """Print the JSON Schema of scenarios, suites, or of `benchsuite report --format json`.

    An editor with a YAML language server completes and checks scenarios after
    `benchsuite schema > scenario.schema.json` and a first line
    `# yaml-language-server: $schema=scenario.schema.json` in the file.
    """
    from benchsuite.report.json_schema import report_schema
    from benchsuite.scenario import load
    from benchsuite.scenario import suite as suites

    of = {"scenario": load.schema, "suite": suites.schema, "report": report_schema}
    click.echo(json.dumps(of[what](), indent=2))
