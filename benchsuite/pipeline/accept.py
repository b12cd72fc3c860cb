"""Which stored runs are accepted, and judging them by the baselines that they are accepted into.

The gates in a record are by whatever judged the run: the other side of an `ab`, what `--against`
named, another machine's checkout. What would fail here was hidden there, so all are judged anew.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchsuite.errors import UsageError
from benchsuite.gate.judge import judge
from benchsuite.gate.known_issues import settle
from benchsuite.metrics.select import Matcher, parse_selector
from benchsuite.model.record import RunRecord
from benchsuite.model.scenario import STORED, Scenario
from benchsuite.model.verdict import GateResult
from benchsuite.scenario.workspace import Workspace
from benchsuite.store.accept import Judge
from benchsuite.store.baselines import load_baselines
from benchsuite.store.git import GIT_PREFIX
from benchsuite.store.records import read_record
from benchsuite.store.trees import Tree

_ELSEWHERE = ("run ", GIT_PREFIX)
"""How `baseline` begins in a record older than `against`, where it was not the folder's own."""


class Judging(msgspec.Struct, frozen=True):
    """How a run is judged for `accept`."""

    judge: Judge | None  # None: the record's own gates are all there is, and by such a folder
    warnings: tuple[str, ...] = ()


def judge_for(workspace: Workspace, record: RunRecord) -> Judging:
    """How to judge a run by the workspace's baselines.

    Raises:
        UsageError: It was judged by something else, and its scenario is not here to judge it anew.
        ScenarioError: The scenario has problems.
    """
    path = workspace.scenario_files().get(record.scenario)
    if path is None:
        path = workspace.cwd / record.scenario_path
    if path.is_file():
        scenario = workspace.load(path)
        if scenario.name == record.scenario:
            return Judging(lambda run, tree: _judged(workspace, scenario, run, tree))
    if _is_elsewhere(record):
        raise UsageError(
            f"run {record.id} was judged by {_words(record)}, and its scenario "
            f"'{record.scenario}' is not here to judge it by the baselines that it would be "
            "accepted into",
            hint=f"{_again(record)}; or put the scenario into {workspace.scenarios}",
        )
    words = f"scenario '{record.scenario}' is not here, so the run's own gates are believed"
    return Judging(None, (words,))


def _judged(workspace: Workspace, scenario: Scenario, record: RunRecord, tree: Tree) -> RunRecord:
    """The record with the gates that it has by this baseline folder, as `run` would look it up."""
    key = record.fingerprint
    shipped = [f for f in workspace.baseline_folders if f != workspace.baselines]
    baselines = load_baselines([tree, *shipped], key.deployment, record.scenario, key)
    allowed = any(g.state == "new" and g.outcome == "pass" for g in record.gates)
    gates: Sequence[GateResult] = judge(scenario, record, baselines, allow_new=allowed)
    if _is_elsewhere(record):
        gates = [_without_stored(gate, record) for gate in gates]
    settled = settle(scenario, record, gates, today=dt.datetime.now(dt.UTC).date())
    return msgspec.structs.replace(record, gates=settled.gates, known_issues=settled.issues)


def _without_stored(gate: GateResult, record: RunRecord) -> GateResult:
    """A gate on likeness to stored vectors, which were of another place: not shown, so failed.

    Storing this run's own vectors mends it.
    """
    stored = any(m.label == "against" and m.value == STORED for m in _matchers(gate))
    if not stored or gate.outcome not in ("pass", "fail"):
        return gate
    reason = (
        f"was measured against {_words(record)} and not against the vectors here; {_again(record)}"
    )
    return msgspec.structs.replace(gate, outcome="fail", reason=reason)


def _matchers(gate: GateResult) -> Sequence[Matcher]:
    return parse_selector(gate.metric).matchers


def _is_elsewhere(record: RunRecord) -> bool:
    """Whether something else than its deployment's own baselines judged it, as far as it tells."""
    if record.baseline is None or record.against is not None:
        return True
    return record.baseline.startswith(_ELSEWHERE)


def _words(record: RunRecord) -> str:
    return "no stored baseline" if record.baseline is None else record.against or record.baseline


def _again(record: RunRecord) -> str:
    deployment = record.fingerprint.deployment
    return f"run it by its own baselines: benchsuite run {record.scenario} -d {deployment}"


def chosen_runs(paths: Sequence[Path]) -> tuple[list[tuple[Path, RunRecord]], list[str]]:
    """The runs to accept with their paths, and what is left alone, in words.

    A single run is always meant. Of several only those that did not pass, since a pipeline keeps
    all; of two of one scenario and deployment, as after a retry, the newer one.

    Raises:
        UsageError: All passed.
        ConfigError: A record cannot be read.
    """
    runs = [(path, read_record(path)) for path in paths]
    if len(runs) == 1:
        return runs, []
    newest: dict[tuple[str, str], tuple[Path, RunRecord]] = {}
    left: list[str] = []
    for path, record in sorted(runs, key=lambda run: run[1].started_at):
        key = (record.fingerprint.deployment, record.scenario)
        if key in newest:
            left.append(f"left {_run_words(newest[key][1])}: run {record.id} is newer")
        newest[key] = (path, record)
    chosen = []
    for path, record in newest.values():
        if record.verdict is not None and record.verdict.outcome == "pass":
            left.append(f"left {_run_words(record)}: it passed")
        else:
            chosen.append((path, record))
    if not chosen:
        raise UsageError(
            f"all {len(newest)} runs here passed, so none needs accepting",
            hint="to accept one all the same, name its folder",
        )
    return chosen, left


def _run_words(record: RunRecord) -> str:
    return f"run {record.id}, {record.scenario} on {record.fingerprint.deployment}"
