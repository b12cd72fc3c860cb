"""`benchsuite check`: scenario files without running them."""

from __future__ import annotations

import click

from benchsuite.cli.completing import complete_scenario
from benchsuite.cli.examples import examples
from benchsuite.errors import ExitCode, ScenarioError


@click.command(
    "check",
    short_help="Check scenario files without running them.",
    epilog=examples("benchsuite check scenarios/mine.yaml", "benchsuite check"),
)
@click.argument("files", nargs=-1, metavar="[FILE]...", shell_complete=complete_scenario)
def command(files: tuple[str, ...]) -> int:
    """Check scenario files without running them.

    FILE is a path or the name of a scenario; without any, every scenario that can be found is
    checked. Every problem is printed as FILE:LINE; exits 2 where there is one.
    """
    from benchsuite.scenario.workspace import load_workspace

    workspace = load_workspace()
    if files:
        paths = [workspace.locate(word) for word in files]
    else:
        paths = list(workspace.scenario_files().values())
        if not paths:
            click.echo(f"no scenarios in {workspace.display(workspace.scenarios)}", err=True)
    bad = 0
    for path in paths:
        shown = workspace.display(path)
        try:
            scenario = workspace.load(path)
        except ScenarioError as error:
            bad += 1
            for problem in error.problems:
                click.echo(problem, err=True)
            continue
        counts = (
            f"{_count(len(scenario.steps), 'step')}, {_count(len(scenario.variants), 'variant')}, "
            f"{_count(len(scenario.gates), 'gate')}"
        )
        click.echo(f"{shown}: fine ({counts})")
    return ExitCode.USAGE if bad or not paths else ExitCode.PASS


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
