"""`benchsuite check`: scenario and suite files without running them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from benchsuite.cli.completing import complete_scenario
from benchsuite.cli.examples import examples
from benchsuite.errors import ConfigError, ExitCode, ScenarioError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from benchsuite.scenario.workspace import Workspace


@click.command(
    "check",
    short_help="Check scenario and suite files without running them.",
    epilog=examples("benchsuite check scenarios/mine.yaml", "benchsuite check"),
)
@click.argument("files", nargs=-1, metavar="[FILE]...", shell_complete=complete_scenario)
def command(files: tuple[str, ...]) -> int:
    """Check scenario and suite files without running them.

    FILE is a path or the name of a scenario or suite; without any, all that can be found are
    checked. Every problem is printed as FILE:LINE; exits 2 where there is one.
    """
    from benchsuite.report.layout import safe
    from benchsuite.scenario.suite import is_suite
    from benchsuite.scenario.workspace import load_workspace

    workspace = load_workspace()
    if files:
        paths = [_locate(workspace, word) for word in files]
    else:
        paths = [*workspace.scenario_files().values(), *workspace.suite_files().values()]
        if not paths:
            click.echo(f"no scenarios in {workspace.display(workspace.scenarios)}", err=True)
    bad = 0
    for path in paths:
        shown = workspace.display(path)
        try:
            counts = _suite_counts(workspace, path) if is_suite(path) else _counts(workspace, path)
        except ScenarioError as error:
            bad += 1
            for problem in error.problems:
                click.echo(safe(problem), err=True)
            continue
        click.echo(f"{safe(shown)}: fine ({counts})")
    return ExitCode.USAGE if bad or not paths else ExitCode.PASS


def _locate(workspace: Workspace, word: str) -> Path:
    """The file meant; a name is a scenario's before it is a suite's."""
    names = workspace.suite_files()
    if word in names and word not in workspace.scenario_files():
        return names[word]
    return workspace.locate(word)


def _counts(workspace: Workspace, path: Path) -> str:
    from benchsuite.scenario.datasets.take import with_samples
    from benchsuite.scenario.flags import parse_help
    from benchsuite.scenario.plan import overlays_of
    from benchsuite.scenario.reach import flags_outside
    from benchsuite.server.embedded_flags import help_text

    scenario = workspace.load(path)
    outside = list(flags_outside(scenario, workspace.reach(scenario.path), parse_help(help_text())))
    if outside:
        raise ScenarioError(outside)
    try:
        with_samples(workspace, scenario)
        for deployment in workspace.deployments.values():
            overlays_of(scenario, deployment)
    except (ConfigError, UsageError) as error:
        raise ScenarioError([str(error)]) from None
    return (
        f"{_count(len(scenario.steps), 'step')}, {_count(len(scenario.variants), 'variant')}, "
        f"{_count(len(scenario.gates), 'gate')}"
    )


def _suite_counts(workspace: Workspace, path: Path) -> str:
    import datetime as dt

    from benchsuite.pipeline.options import RunOptions
    from benchsuite.pipeline.suite_plan import plan_suite
    from benchsuite.report.formats import FORMATS

    suite = workspace.load_suite(path, dt.datetime.now(dt.UTC).date())
    jobs = plan_suite(workspace, suite, RunOptions(), FORMATS)
    blocking = sum(job.entry.policy == "block" for job in jobs)
    return (
        f"{_count(len(jobs), 'run')}, {blocking} of them blocking, "
        f"{_count(len(suite.outputs), 'output')}"
    )


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
