"""Making a run's measurements the baseline: the only writer of baselines.

Knows gates only by their results; whether a run may be accepted is decided from those.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchsuite.errors import ConfigError, UsageError
from benchsuite.metrics.catalogue import CATALOGUE, Scope
from benchsuite.metrics.select import Selector, parse_selector
from benchsuite.model.record import RunRecord
from benchsuite.model.vectors import VectorLine
from benchsuite.store.baselines import (
    BASELINE_SCHEMA,
    SCOPES,
    AcceptedInfo,
    BaselineFile,
    Sample,
    SeriesValues,
    accepted_info,
    file_name,
    match_keys,
    read_baseline_file,
    samples_by_variant,
    scenario_folder,
)
from benchsuite.store.files import safe_name, write_atomic
from benchsuite.store.trees import FolderTree
from benchsuite.store.vectors import write_stored_vectors

_ACCEPTABLE = ("changed", "improved", "regressed", "new")
"""States of failing baseline gates that accepting remedies; `missing` needs `drop_missing`."""


class Accepted(msgspec.Struct, frozen=True):
    """What an `accept` wrote."""

    files: tuple[Path, ...]  # written, the texts included
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
) -> Accepted:
    """Make a record's measurements the baselines of its deployment and scenario.

    Args:
        record: A judged run, from this or another machine; its own keys decide the files.
        folder: The baseline folder to write to.
        reason: Why; kept in the baseline.
        environ: The environment, asked for `CI`.
        metrics: Take only what these select, and leave the rest of the baselines as they are.
            None takes everything.
        scopes: Write these baselines only; `config` alone is what may travel to other machines.
        drop_missing: Let go of values that the baseline has and the run could not measure.
        vectors: Of the run; stored with the numerics scope, unless single metrics are taken.

    Raises:
        UsageError: In CI, no reason, a selector that selects nothing, or a run whose failures
            would not be accepted with it.
        ConfigError: An existing baseline cannot be read or merged into.
        MachineError: The disk refuses.
    """
    _refuse_ci(environ)
    if not reason.strip():
        raise UsageError("a baseline needs a reason", hint="--reason 'what changed, and why'")
    _refuse_failures(record, drop_missing=drop_missing)
    record = _without_known_issues(record)
    _refuse_idle_selectors(record, metrics)
    merges = [_Merge(record, folder, scope, metrics, reason.strip()) for scope in scopes]
    warnings = _disagreements(record, metrics)
    for merge in merges:
        if merge.name is None and merge.taken:
            key = "numerics" if merge.scope == "numerics" else "machine"
            warnings.append(
                f"{len(merge.taken)} {merge.scope} values left out: the run does not know its {key}"
            )
    merges = [m for m in merges if m.name is not None and m.taken]
    for merge in merges:
        merge.prepare(drop_missing=drop_missing)  # every refusal comes before the first write
    files = [path for merge in merges for path in merge.write()]
    if metrics is None and "numerics" in scopes:
        files += write_stored_vectors(folder, record, vectors, reason.strip())
    return Accepted(
        files=tuple(files),
        values=sum(len(m.taken) for m in merges),
        kept=sum(m.kept for m in merges),
        dropped=tuple(d for m in merges for d in m.dropped),
        warnings=tuple(warnings),
    )


class _Merge:
    """One scope's file: what is in it, what the record brings, and what it will be."""

    def __init__(
        self,
        record: RunRecord,
        folder: Path,
        scope: Scope,
        metrics: Sequence[Selector] | None,
        reason: str,
    ) -> None:
        self.scope: Scope = scope
        self.name = file_name(scope, record.fingerprint)
        self.kept = 0
        self.dropped: list[str] = []
        self._record = record
        self._root = folder
        deployment = record.fingerprint.deployment
        self._relative = scenario_folder(deployment, record.scenario)
        keys = match_keys(scope, deployment, record.scenario, record.fingerprint)
        self._match = {k: v for k, v in keys.items() if v is not None}
        self._partial = metrics is not None
        self._info = accepted_info(record, reason)
        chosen = [m for m in record.measurements if _is_chosen(m.name, m.labels, metrics)]
        self._metrics: dict[str, SeriesValues] = samples_by_variant(chosen, scope)
        self.taken = [f"{v} {s}" for v, rows in self._metrics.items() for s in rows]
        self._digests = {v: d for v, d in record.digests.items() if v in self._metrics}
        self._earlier: dict[bytes, tuple[AcceptedInfo, dict[str, list[str]]]] = {}

    def prepare(self, *, drop_missing: bool) -> None:
        """Merge with the file that is there; raises rather than losing anything silently."""
        assert self.name is not None
        old = read_baseline_file(FolderTree(self._root), self._relative, self.name)
        if old is None:
            return
        if old.match != self._match:
            if self._partial:
                raise ConfigError(
                    "was accepted under other keys, so single metrics cannot be merged into it",
                    where=old.where,
                    hint="accept without --metric, which replaces the file",
                )
            self.dropped += [f"{v} {s}" for v, rows in old.metrics.items() for s in rows]
            return
        lost: list[str] = []
        for variant, rows in old.metrics.items():
            lost += self._merge_variant(old, variant, rows)
        if lost and not drop_missing:
            shown = ", ".join(lost[:3]) + (f" and {len(lost) - 3} more" if len(lost) > 3 else "")
            raise UsageError(
                f"the baseline has values that this run did not measure: {shown}",
                where=old.where,
                hint="find out why they are missing, or let them go with --drop-missing",
            )
        self.dropped += lost

    def _merge_variant(self, old: BaselineFile, variant: str, rows: SeriesValues) -> list[str]:
        """Merge one variant of the existing file; returns what would be lost from it."""
        stale = self._record.digests.get(variant, old.scenario_digest.get(variant))
        stale_digest = stale != old.scenario_digest.get(variant)
        fresh = self._metrics.get(variant)
        if stale_digest:
            if fresh is not None and self._partial:
                raise ConfigError(
                    f"variant '{variant}' was accepted for another state of the scenario, so "
                    "single metrics cannot be merged into it",
                    where=old.where,
                    hint="accept without --metric",
                )
            if not self._partial:
                gone = [s for s in rows if s not in (fresh or {})]
                self.dropped += [f"{variant} {s}" for s in gone]
                return []
        if fresh is not None and not self._partial:
            return [f"{variant} {series}" for series in rows if series not in fresh]
        for series, values in rows.items():
            if series in (fresh or {}):
                continue
            self._metrics.setdefault(variant, {})[series] = values
            self._remember(old.info_for(variant, series), variant, series)
            self.kept += 1
        if variant in old.scenario_digest:
            self._digests[variant] = old.scenario_digest[variant]
        return []

    def _remember(self, info: AcceptedInfo, variant: str, series: str) -> None:
        key = msgspec.json.encode(info, order="sorted")
        _, parts = self._earlier.setdefault(key, (info, {}))
        parts.setdefault(variant, []).append(series)

    def write(self) -> list[Path]:
        """Write the texts, then the file that names them; returns what was written."""
        assert self.name is not None
        place = self._root / self._relative
        texts: dict[str, bytes] = {}
        content = {
            "schema": BASELINE_SCHEMA,
            "match": self._match,
            "scenario_digest": self._digests,
            "info": _flat(self._info),
            "metrics": {
                variant: {s: self._values(variant, s, v, texts) for s, v in rows.items()}
                for variant, rows in self._metrics.items()
            },
        }
        if self._earlier:
            content["earlier"] = [
                {"info": _flat(info), "series": {v: sorted(s) for v, s in parts.items()}}
                for info, parts in self._earlier.values()
            ]
        written = []
        for name, data in texts.items():
            if not (place / name).exists() or (place / name).read_bytes() != data:
                write_atomic(place / name, data)
                written.append(place / name)
        encoded = msgspec.json.format(msgspec.json.encode(content, order="sorted"), indent=2)
        write_atomic(place / self.name, encoded + b"\n")
        self._remove_unused_texts(place, texts)
        return [*written, place / self.name]

    def _values(
        self, variant: str, series: str, values: Sequence[Sample], texts: dict[str, bytes]
    ) -> list[Any]:
        """The values of a series as they lie in the file; texts go into files of their own."""
        metric = CATALOGUE[parse_selector(series).name]
        if metric.assume == "quantised":
            return [{"value": s.value, "quantum": s.quantum, "terms": s.terms} for s in values]
        if metric.assume != "text":
            return [s.value for s in values]
        entries = []
        for sample in values:
            data = str(sample.value).encode("utf-8")
            name = self._text_name(variant, series, data, texts)
            texts[name] = data
            entries.append({"file": name, "sha256": hashlib.sha256(data).hexdigest()})
        return entries

    def _text_name(self, variant: str, series: str, data: bytes, texts: dict[str, bytes]) -> str:
        """A name for a text: `text/<numerics>/B.A.1.txt`; trials that agree share one."""
        selector = parse_selector(series)
        middle = [] if selector.name == "text" else [selector.name]
        parts = [variant, *middle, *(m.value for m in selector.matchers)]
        stem = safe_name(".".join(parts))
        taken = {other.casefold(): content for other, content in texts.items()}
        key = safe_name(str(self._match["numerics"]), fold_case=True)
        number = 1
        while True:
            suffix = "" if number == 1 else f"-{number}"
            name = f"text/{key}/{stem}{suffix}.txt"
            if taken.get(name.casefold(), data) == data:
                return name
            number += 1

    def _remove_unused_texts(self, place: Path, texts: dict[str, bytes]) -> None:
        if self.scope != "numerics":
            return
        own = place / "text" / safe_name(str(self._match["numerics"]), fold_case=True)
        if own.is_dir():
            for path in own.glob("*.txt"):
                if path.relative_to(place).as_posix() not in texts:
                    path.unlink()


def _flat(info: AcceptedInfo) -> dict[str, Any]:
    seen = {k: v for k, v in msgspec.to_builtins(info.seen).items() if v not in (None, "", {})}
    return {**seen, "date": info.date, "reason": info.reason, "run": info.run}


def _is_chosen(name: str, labels: dict[str, str], metrics: Sequence[Selector] | None) -> bool:
    return metrics is None or any(selector.accepts(name, labels) for selector in metrics)


def _refuse_ci(environ: Mapping[str, str]) -> None:
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


def _refuse_failures(record: RunRecord, *, drop_missing: bool) -> None:
    """Refuse a run with a failure that accepting would sweep under the carpet."""
    if record.interrupted:
        raise UsageError(f"run {record.id} was interrupted; accept a whole one")
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
        if not remedied:
            raise UsageError(
                f"run {record.id} fails a gate that a baseline cannot mend: variant "
                f"{gate.variant}, {gate.metric} ({gate.rule}): {gate.reason}",
                hint="mend that first"
                + (
                    "; or let the missing values go with --drop-missing"
                    if gate.state == "missing" and gate.against == "baseline"
                    else ""
                ),
            )


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
    chosen = [m for m in record.measurements if _is_chosen(m.name, m.labels, metrics)]
    warnings = []
    for variant, rows in samples_by_variant(chosen).items():
        for series, values in rows.items():
            assume = CATALOGUE[parse_selector(series).name].assume
            if assume in ("exact", "text") and len({s.value for s in values}) > 1:
                warnings.append(
                    f"{variant} {series}: the trials disagree, so gates on it stay inconclusive"
                )
    return warnings
