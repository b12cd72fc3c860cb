"""`benchsuite accept`: make a run's measurements the baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from benchsuite.cli.completing import complete_run
from benchsuite.cli.examples import examples

if TYPE_CHECKING:
    from benchsuite.metrics.metric import Scope
    from benchsuite.store.accept import Accepted


@click.command(
    "accept",
    epilog=examples(
        'benchsuite accept last --reason "first baseline of build b6000"',
        "benchsuite accept last --metric kv_mib --reason 'the cache is Q8_0 now'",
    ),
)
@click.argument("run", shell_complete=complete_run)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="SELECTOR",
    help='Take only this metric, e.g. \'cached_tokens{session="B",turn="2"}\'; may be repeated.',
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(["config", "numerics", "machine"]),
    help="Write only baselines of this scope: config holds on every machine; may be repeated.",
)
@click.option("--reason", required=True, metavar="TEXT", help="Why; kept in the baseline.")
@click.option(
    "--drop-missing",
    is_flag=True,
    help="Let go of values that the baseline has and this run could not measure.",
)
def command(
    run: str,
    metrics: tuple[str, ...],
    scopes: tuple[Scope, ...],
    reason: str,
    drop_missing: bool,
) -> None:
    """Make the measurements of RUN the baseline of its deployment and scenario.

    RUN is a run folder, a record.json, an archive of a run from another machine, the beginning
    of a run's id, or `last`. It is judged anew by the baselines that are written to. Of a folder or
    archive of several runs, as a pipeline keeps them, those that did not pass are accepted, the
    newest of each scenario and deployment.

    Refuses in CI, and refuses a run with failures that a baseline cannot mend or that are not
    being accepted. All files change as one; where somebody else is accepting, it waits for them
    and keeps what they took.
    """
    import os

    from benchsuite.errors import UsageError
    from benchsuite.metrics.select import parse_selector
    from benchsuite.pipeline.accept import chosen_runs, judge_for
    from benchsuite.report.layout import safe
    from benchsuite.scenario.workspace import load_workspace
    from benchsuite.store.accept import accept, refuse_ci
    from benchsuite.store.archives import opened_runs
    from benchsuite.store.baselines import SCOPES
    from benchsuite.store.records import find_run
    from benchsuite.store.vectors import read_run_vectors

    refuse_ci(os.environ)  # before anything else can be wrong
    workspace = load_workspace()
    try:
        selectors = [parse_selector(text) for text in metrics]
    except ValueError as error:
        raise UsageError(str(error)) from error
    with opened_runs(find_run(run, workspace.runs)) as paths:
        chosen, left = chosen_runs(paths)
        for words in left:
            click.echo(safe(words))
        for path, record in chosen:
            judging = judge_for(workspace, record)
            done = accept(
                record,
                workspace.baselines,
                reason=reason,
                environ=os.environ,
                metrics=selectors or None,
                scopes=scopes or SCOPES,
                drop_missing=drop_missing,
                vectors=read_run_vectors(path),
                judge=judging.judge,
            )
            for warning in judging.warnings:
                click.echo(f"warning: {safe(warning)}", err=True)
            _say(done, record.id, f"{record.scenario} on {record.fingerprint.deployment}")


def _say(done: Accepted, run: str, place: str) -> None:
    """What an `accept` wrote, a line each."""
    from benchsuite.report.layout import safe

    for warning in done.warnings:
        click.echo(f"warning: {safe(warning)}", err=True)
    for dropped in done.dropped:
        click.echo(f"dropped: {safe(dropped)}", err=True)
    for written in done.files:
        click.echo(f"wrote {written}")
    for removed in done.removed:
        click.echo(f"removed {removed}")
    kept = f", {done.kept} kept from before" if done.kept else ""
    told = "commit them" if done.files or done.removed else "the baseline has them already"
    click.echo(safe(f"run {run}: accepted {done.values} values of {place}{kept}; {told}"))
