"""`benchsuite run`: drive scenarios against a server and judge what was measured."""

from __future__ import annotations

from typing import Any

import click

from benchsuite.cli.completing import complete_scenario
from benchsuite.cli.examples import examples
from benchsuite.cli.options import report_files, report_options, run_options


@click.command(
    epilog=examples(
        "benchsuite run scenarioB",
        "benchsuite run tag:m0 --server ./llama-server --trials 3",
        "benchsuite run scenarioB --url http://127.0.0.1:8080 --api-key-env KEY",
        "benchsuite run scenarioB --set cache-type-k=q8_0 --variant P --json -",
        "benchsuite run scenarioB --html report.html --junit report.xml",
    )
)
@click.argument(
    "scenarios",
    nargs=-1,
    required=True,
    metavar="SCENARIO...",
    shell_complete=complete_scenario,
)
@run_options
@click.option("--trials", type=click.IntRange(1), default=1, help="Fresh launches per variant.")
@click.option("--out", metavar="DIR", help="Folder of runs; default .benchsuite/runs.")
@click.option("--json", "json_to", metavar="FILE|-", help="Write the record as JSON.")
@report_options("html", "markdown", "junit")
@click.option("--allow-new", is_flag=True, help="Let metrics pass that the baseline lacks.")
@click.option("--require-all", is_flag=True, help="Count what is not applicable as a failure.")
@click.option("--bisect", is_flag=True, help="Exit as `git bisect run` expects.")
@click.option("--quiet", "-q", is_flag=True, help="No progress; results only.")
@click.option(
    "--verbose", "-v", is_flag=True, help="Say why each prompt was evaluated again, with evidence."
)
def command(scenarios: tuple[str, ...], json_to: str | None, bisect: bool, **given: Any) -> int:
    """Drive scenarios against a server and judge what was measured.

    A SCENARIO is the stem of a file (scenarioB), a path, or tag:NAME. Several run in order. Exit
    codes: 0 pass, 1 a gate failed, 2 usage, 3 inconclusive, 4 the server failed, 5 the machine
    failed, 130 interrupted.
    """
    from benchsuite.cli.main import report_error
    from benchsuite.errors import BenchsuiteError, FlagError
    from benchsuite.gate.verdict import bisect_code
    from benchsuite.pipeline.command import run_command

    reports = report_files(given)
    try:
        code, failures = run_command(scenarios, given, json_to=json_to, reports=reports)
    except BenchsuiteError as error:
        if not bisect:
            raise
        report_error(error)
        unknown = isinstance(error, FlagError) and error.unknown_to_build
        return bisect_code(int(error.exit_code), flag_unknown_to_build=unknown)
    return bisect_code(code, failures) if bisect else code
