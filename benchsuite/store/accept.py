"""Making a run's measurements the baseline: the only writer of baselines.

Knows gates only by their results; whether a run may be accepted is decided from those. They must be
by the baselines that are written to, so the caller gives a function that judges by these.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from benchsuite.errors import UsageError
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.metrics.metric import Scope
from benchsuite.metrics.select import Selector, parse_selector
from benchsuite.model.record import RunRecord
from benchsuite.model.scenario import STORED
from benchsuite.model.vectors import VectorLine
from benchsuite.model.verdict import GateResult
from benchsuite.store.baselines import (
    SCOPES,
    is_baseline_path,
    samples_by_variant,
    scenario_folder,
    scope_of,
)
from benchsuite.store.commits import commit, finish
from benchsuite.store.locks import WAIT_S, locked
from benchsuite.store.merge import Merge, is_chosen
from benchsuite.store.trees import FolderTree, Tree
from benchsuite.store.vectors import stored_vectors

_ACCEPTABLE = ("changed", "improved", "regressed", "new")
"""States of failing baseline gates that accepting remedies; `missing` needs `drop_missing`."""


Judge = Callable[[RunRecord, Tree], RunRecord]
"""Gives a record the gates that it has by the baseline folder as it is at this moment."""


class Accepted(msgspec.Struct, frozen=True):
    """What an `accept` wrote."""

    files: tuple[Path, ...]  # written, the texts included; those that held it already are not
    removed: tuple[Path, ...]  # texts that nothing cites any more
    values: int  # series taken from the record
    kept: int  # series left from earlier baselines
    dropped: tuple[str, ...]  # `variant series` that are in no baseline any more
    warnings: tuple[str, ...]


def accept(
    record: RunRecord,
    folder: Path,
    *,
    reason: str,
    environ: Mapping[str, str],
    metrics: Sequence[Selector] | None = None,
    scopes: Sequence[Scope] = SCOPES,
    drop_missing: bool = False,
    vectors: Sequence[VectorLine] = (),
    judge: Judge | None = None,
    wait_s: float = WAIT_S,
) -> Accepted:
    """Make a record's measurements the baselines of its deployment and scenario.

    All files change as one, also when this process is killed; of several at a time, each waits
    for the one before and merges with what that one wrote.

    Args:
        record: A judged run, from this or another machine; its own keys decide the files.
        folder: The baseline folder to write to.
        reason: Why; kept in the baseline.
        environ: The environment, asked for `CI`.
        metrics: Take only what these select, and leave the rest of the baselines as they are.
            None takes everything.
        scopes: Write these baselines only; `config` alone is what may travel to other machines.
        drop_missing: Let go of values that the baseline has and the run could not measure.
        vectors: Of the run; stored with the numerics scope, and of single metrics with those
            that compare with stored ones.
        judge: Judges the record anew, while nobody else writes; None trusts the record's own gates,
            which then must be by this folder.
        wait_s: How long to wait for another writer, in seconds.

    Raises:
        UsageError: In CI, no reason, a selector that selects nothing, nothing to accept, or a run
            whose failures would not be accepted with it.
        ConfigError: An existing baseline cannot be read or merged into.
        MachineError: The disk refuses, or another writer does not end.
    """
    refuse_ci(environ)
    reason = reason.strip()
    if not reason:
        raise UsageError("a baseline needs a reason", hint="--reason 'what changed, and why'")
    stores = "numerics" in scopes and _takes_vectors(metrics) and bool(vectors)
    _refuse_unfinished(record)
    relative = scenario_folder(record.fingerprint.deployment, record.scenario)
    with locked(folder, wait_s=wait_s):
        finish(folder)
        tree = FolderTree(folder)
        moment = tree.snapshot(is_baseline_path, relative)
        if judge is not None:
            record = judge(record, moment)
        _refuse_failures(record, stores=stores, drop_missing=drop_missing)
        record = _without_known_issues(record)
        _refuse_idle_selectors(record, metrics)
        merges = {s: Merge(record, moment, s, metrics, reason) for s in SCOPES}
        _refuse_other_failures(record, merges, scopes=scopes, partial=metrics is not None)
        asked = [merges[scope] for scope in SCOPES if scope in scopes and merges[scope].taken]
        written = [merge for merge in asked if merge.name is not None]
        for merge in written:
            merge.prepare(drop_missing=drop_missing)
        changes: dict[str, bytes | None] = {}
        for merge in written:
            changes |= merge.changes()
        new = stored_vectors(record, vectors, reason) if stores else {}
        changes |= {path: data for path, data in new.items() if tree.read(path) != data}
        odd = [m for s, m in merges.items() if s in scopes]
        left_out = [*_left_out(asked), *(words for merge in odd for words in _odd_words(merge))]
        if not written and not new:
            raise UsageError(
                f"run {record.id} has nothing to accept{' here' if len(scopes) < 3 else ''}",
                hint="; ".join(left_out) or "look at it with `benchsuite diff`",
            )
        commit(folder, changes)
    return Accepted(
        files=tuple(folder / path for path, data in changes.items() if data is not None),
        removed=tuple(folder / path for path, data in changes.items() if data is None),
        values=sum(len(m.taken) for m in written),
        kept=sum(m.kept for m in written),
        dropped=tuple(d for m in written for d in m.dropped),
        warnings=(
            *_disagreements(record, metrics),
            *left_out,
            *_unfit(record, written),
            *(words for merge in written for words in merge.warnings),
        ),
    )


def _left_out(merges: Sequence[Merge]) -> list[str]:
    return [
        f"{len(merge.taken)} {merge.scope} values left out: the run does not know its {merge.scope}"
        for merge in merges
        if merge.name is None
    ]


def _odd_words(merge: Merge) -> list[str]:
    if not merge.odd:
        return []
    shown = ", ".join(merge.odd[:3])
    more = f" and {len(merge.odd) - 3} more" if len(merge.odd) > 3 else ""
    return [f"left out, since a launch gave no finite number: {shown}{more}"]


def _unfit(record: RunRecord, merges: Sequence[Merge]) -> list[str]:
    """Warnings for kinds of values that the machine was not fit to measure."""
    state = record.machine_state
    if state is None:
        return []
    series = [taken.partition(" ")[2] for merge in merges for taken in merge.taken]
    kinds = {CATALOGUE[parse_selector(text).name].assume for text in series}
    warnings = []
    for kind in sorted({kind for one in state.warnings for kind in one.strikes} & kinds):
        facts = ", ".join(f"{o.fact} {o.value}" for o in state.warnings if kind in o.strikes)
        warnings.append(
            f"the machine was not fit to measure {kind} ({facts}), so gates against these values "
            "may let through what is worse; accept a run of a quiet machine"
        )
    return warnings


def _takes_vectors(metrics: Sequence[Selector] | None) -> bool:
    """Whether the run's vectors go with what is taken: with everything, or with their cosines."""
    return metrics is None or any(
        m.label == "against" and m.value == STORED for s in metrics for m in s.matchers
    )


def refuse_ci(environ: Mapping[str, str]) -> None:
    """Refuse where the variable `CI` is set.

    Raises:
        UsageError: It is.
    """
    if environ.get("CI", "").lower() not in ("", "false", "0"):
        raise UsageError(
            "baselines are not accepted in CI (the variable CI is set)",
            hint="accept on your own machine, also the run folder that CI kept, and commit it",
        )


def _without_known_issues(record: RunRecord) -> RunRecord:
    """The record without what a known issue has spoilt, which is to be no one's reference."""
    spoilt = [
        (gate.variant, parse_selector(gate.metric))
        for gate in record.gates
        if gate.outcome == "xfail"
    ]
    kept = tuple(
        m
        for m in record.measurements
        if m.variant not in record.excused
        and not any(v == m.variant and s.accepts(m.name, m.labels) for v, s in spoilt)
    )
    return msgspec.structs.replace(record, measurements=kept)


def _refuse_unfinished(record: RunRecord) -> None:
    if record.interrupted:
        raise UsageError(f"run {record.id} was interrupted; accept a whole one")
    if record.verdict is None and all(one.failure is None for one in record.launches):
        raise UsageError(f"run {record.id} was not judged; accept a whole one")


def _refuse_failures(record: RunRecord, *, stores: bool, drop_missing: bool) -> None:
    """Refuse a run with a failure that accepting would sweep under the carpet.

    Args:
        record: The run.
        stores: Whether its vectors are stored, which mends gates on earlier ones.
        drop_missing: Whether values that were not measured are let go.
    """
    failed = [launch for launch in record.launches if launch.failure is not None]
    for launch in failed:
        if launch.variant in record.excused:
            continue
        assert launch.failure is not None
        raise UsageError(
            f"run {record.id} failed: variant {launch.variant}, trial {launch.trial}: "
            f"{launch.failure.message}",
            hint="accept a run whose server stayed healthy",
        )
    if record.verdict is None:
        raise UsageError(f"run {record.id} was not judged; accept a whole one")
    for gate in record.gates:
        if gate.level != "block" or gate.outcome not in ("fail", "error", "inconclusive", "xpass"):
            continue
        if gate.against == "analytic" and gate.outcome == "inconclusive":
            continue  # nothing is known to be wrong, and a baseline judges it instead
        remedied = gate.against == "baseline" and (
            gate.outcome == "inconclusive"
            or (gate.outcome == "fail" and gate.state in _ACCEPTABLE)
            or (gate.state == "missing" and drop_missing)
        )
        if gate.outcome in ("fail", "inconclusive") and _is_against_stored(gate.metric):
            remedied = remedied or stores
        if not remedied:
            raise UsageError(
                f"run {record.id} fails a gate that a baseline cannot mend: {_gate_words(gate)}",
                hint="mend that first"
                + (
                    "; or let the missing values go with --drop-missing"
                    if gate.state == "missing" and gate.against == "baseline"
                    else ""
                ),
            )


def _refuse_other_failures(
    record: RunRecord, merges: Mapping[Scope, Merge], *, scopes: Sequence[Scope], partial: bool
) -> None:
    """Refuse a run that fails on values which are not being accepted.

    A gate may select several series; those whose values are the baseline's are not what failed.
    """
    left: dict[str, GateResult] = {}  # by series; of each the first gate that fails on it
    for gate in record.gates:
        if gate.level != "block" or gate.outcome != "fail" or gate.against != "baseline":
            continue
        selector = parse_selector(gate.metric)
        found = [
            series
            for scope, merge in merges.items()
            for series in _not_taken(record, gate.variant, selector, merge, taken=scope in scopes)
        ]
        if gate.state == "missing" and not found:
            scope = scope_of(selector.name, selector.label_names)
            found = [gate.metric] if partial or scope not in scopes else []
        for series in found:
            left.setdefault(series, gate)
    for series, gate in left.items():
        more = f" (and {len(left) - 1} more)" if len(left) > 1 else ""
        raise UsageError(
            f"run {record.id} also fails on what is not being accepted: {series}{more}; "
            f"{_gate_words(gate)}",
            hint=_take_too(list(left), scopes=scopes, partial=partial),
        )


def _not_taken(
    record: RunRecord, variant: str, selector: Selector, merge: Merge, *, taken: bool
) -> list[str]:
    """The series behind a failing gate that differ from the baseline and stay out of it."""
    seen = [m for m in record.measurements if m.variant == variant]
    rows = samples_by_variant(selector.select(seen), merge.scope).get(variant, {})
    out = [s for s in rows if not (taken and merge.takes(variant, s))]
    if not out or merge.name is None:
        return []  # a value of an unknown key is compared with nothing
    old = merge.read_old()
    before = {} if old is None else old.metrics.get(variant, {})
    return [s for s in out if before.get(s) != rows[s]]


def _take_too(left: Sequence[str], *, scopes: Sequence[Scope], partial: bool) -> str:
    words = []
    if partial and len(left) <= _MANY:
        too = " ".join(f"--metric {shlex.quote(series)}" for series in left)
        words.append(f"if all of it is meant, add: {too}")
    elif partial:
        words.append("if all of it is meant, accept everything, without --metric")
    if len(scopes) < len(SCOPES):
        words.append("accept every scope, without --scope")
    return f"{'; '.join(words) or 'accept everything'}; or mend it first"


_MANY = 6  # so many metrics can be typed


def _gate_words(gate: GateResult) -> str:
    return f"variant {gate.variant}, {gate.metric} ({gate.rule}): {gate.reason}"


def _is_against_stored(metric: str) -> bool:
    """Whether a selector is about the vectors that `accept` stored."""
    matchers = parse_selector(metric).matchers
    return any(m.label == "against" and m.operator == "=" and m.value == STORED for m in matchers)


def _refuse_idle_selectors(record: RunRecord, metrics: Sequence[Selector] | None) -> None:
    for selector in metrics or ():
        if selector.select(record.measurements):
            continue
        wanted = [f"{m.label}{m.operator}{shlex.quote(m.value)}" for m in selector.matchers]
        raise UsageError(
            f"run {record.id} has no measurement for {selector.name}"
            + (f" with {', '.join(wanted)}" if wanted else " without labels"),
            hint=_known_series(record, selector.name),
        )


def _known_series(record: RunRecord, name: str) -> str:
    labels = sorted({",".join(sorted(m.labels)) for m in record.measurements if m.name == name})
    if labels:
        sets = " or ".join(f"{{{names}}}" if names else "none" for names in labels)
        return f"{name} was measured with these labels: {sets}"
    names = ", ".join(sorted({m.name for m in record.measurements}))
    return f"measured were: {names}" if names else "nothing was measured"


def _disagreements(record: RunRecord, metrics: Sequence[Selector] | None) -> list[str]:
    """Warnings for exact values whose own trials disagree: nothing can be compared with those."""
    chosen = [m for m in record.measurements if is_chosen(m.name, m.labels, metrics)]
    warnings = []
    for variant, rows in samples_by_variant(chosen).items():
        for series, values in rows.items():
            assume = CATALOGUE[parse_selector(series).name].assume
            if assume in ("exact", "text") and len({s.value for s in values}) > 1:
                warnings.append(
                    f"{variant} {series}: the trials disagree, so gates on it stay inconclusive"
                )
    return warnings
