"""One scope's baseline file as it will be after an `accept`: what was there, and what comes.

Only what is taken anew changes in the file, so that version control shows just that. Reads the
baselines through a tree and writes nothing; the changes go to `store.commits`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from benchsuite.errors import ConfigError, UsageError
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.metrics.metric import Scope
from benchsuite.metrics.select import Selector, parse_selector
from benchsuite.model.record import RunRecord
from benchsuite.store.baselines import (
    AcceptedInfo,
    BaselineFile,
    Sample,
    SeriesValues,
    accepted_info,
    file_name,
    former_name,
    match_keys,
    read_baseline_file,
    samples_by_variant,
    scenario_folder,
    series_of,
)
from benchsuite.store.files import safe_name
from benchsuite.store.floats import is_finite
from benchsuite.store.migrations import BASELINE
from benchsuite.store.trees import Tree

_ENOUGH = 5
"""Launches from which memory and latency have intervals."""


class Merge:
    """One scope's file: what is in it, what the record brings, and what it will be.

    Args:
        record: The run that is accepted.
        tree: The baseline folder at this moment.
        scope: Whose file.
        metrics: Take only what these select; None takes everything.
        reason: Why.
    """

    def __init__(
        self,
        record: RunRecord,
        tree: Tree,
        scope: Scope,
        metrics: Sequence[Selector] | None,
        reason: str,
    ) -> None:
        self.scope: Scope = scope
        self.name = file_name(scope, record.fingerprint)  # None: the run does not know its key
        self.kept = 0
        self.dropped: list[str] = []
        self.warnings: list[str] = []
        self.odd: list[str] = []  # series that no baseline can hold
        self._record = record
        self._tree = tree
        self._former = former_name(scope, record.fingerprint)
        deployment = record.fingerprint.deployment
        self._place = scenario_folder(deployment, record.scenario)
        keys = match_keys(scope, deployment, record.scenario, record.fingerprint)
        self._match = {k: v for k, v in keys.items() if v is not None}
        self._partial = metrics is not None
        self._info = accepted_info(record, reason)
        chosen = [m for m in record.measurements if is_chosen(m.name, m.labels, metrics)]
        self._fresh = self._without_odd(samples_by_variant(chosen, scope))
        self._metrics = {variant: dict(rows) for variant, rows in self._fresh.items()}
        self.taken = [f"{v} {s}" for v, rows in self._fresh.items() for s in rows]
        self._digests = {v: d for v, d in record.digests.items() if v in self._fresh}
        # latencies that could not be told this time, by no fault of the server: what was accepted
        # before stays
        self._untold = {
            (u.variant, series_of(u))
            for u in record.unmeasured
            if u.outcome == "inconclusive"
            and (metric := CATALOGUE.get(u.name)) is not None
            and metric.assume == "latency"
        }
        self._main = self._info
        self._kept_infos: dict[tuple[str, str], AcceptedInfo] = {}  # by variant and series

    def _without_odd(self, rows_by_variant: dict[str, SeriesValues]) -> dict[str, SeriesValues]:
        """The series whose values a baseline can hold: not-a-number and infinity are none."""
        kept: dict[str, SeriesValues] = {}
        for variant, rows in rows_by_variant.items():
            for series, values in rows.items():
                if all(isinstance(s.value, str) or is_finite(s.value) for s in values):
                    kept.setdefault(variant, {})[series] = values
                    continue
                self.odd.append(f"{variant} {series}")
        return kept

    def read_old(self) -> BaselineFile | None:
        """The file that is there; None where there is none, or the run does not know its key."""
        if self.name is None:
            return None
        return read_baseline_file(self._tree, self._place, self.name) or self._read_former()

    def _read_former(self) -> BaselineFile | None:
        """The file under its former name, if it has these very keys; it gets its new name."""
        if self._former is None:
            return None
        file = read_baseline_file(self._tree, self._place, self._former)
        return file if file is not None and file.match == self._match else None

    def takes(self, variant: str, series: str) -> bool:
        """Whether the record's value of a series goes into the file."""
        return self.name is not None and series in self._fresh.get(variant, {})

    def prepare(self, *, drop_missing: bool) -> None:
        """Merge with the file that is there; raises rather than losing anything silently."""
        old = self.read_old()
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
        self._warn_of_newer(old)
        self._warn_of_fewer(old)
        former = self._read_former()
        if former is not None and former.where != old.where and former.metrics != old.metrics:
            self.warnings.append(f"removes {former.where}, whose place {old.where} has taken")
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
        if old.info in self._kept_infos.values():
            self._main = old.info

    def _warn_of_newer(self, old: BaselineFile) -> None:
        """Say whose values are replaced where they are of a later run than this one."""
        newer: dict[str, AcceptedInfo] = {}
        for variant, rows in self._fresh.items():
            for series, values in rows.items():
                before = old.metrics.get(variant, {}).get(series)
                if before is not None and before != values:
                    info = old.info_for(variant, series)
                    if info.date > self._record.started_at:
                        newer[info.run] = info
        self.warnings += [
            f"replaces values of {self.scope} scope from run {info.run} of {info.date}, which is "
            f"newer than this run; it was accepted for: {info.reason}"
            for info in newer.values()
        ]

    def _warn_of_fewer(self, old: BaselineFile) -> None:
        """Say where too few launches to decide take the place of more."""
        if self.scope != "machine":
            return
        pairs = [
            (len(old.metrics.get(variant, {}).get(series, ())), len(values))
            for variant, rows in self._fresh.items()
            for series, values in rows.items()
        ]
        fewer = [(before, now) for before, now in pairs if now < min(before, _ENOUGH)]
        if fewer:
            before, now = max(fewer)
            self.warnings.append(
                f"replaces memory and latency of {before} launches by that of {now}: memory only "
                "advises with fewer than 3, and latency is not decided with fewer than "
                f"{_ENOUGH}; accept a run with --trials {_ENOUGH}"
            )

    def _merge_variant(self, old: BaselineFile, variant: str, rows: SeriesValues) -> list[str]:
        """Merge one variant of the existing file; returns what would be lost from it."""
        stale = self._record.digests.get(variant, old.scenario_digest.get(variant))
        stale_digest = stale != old.scenario_digest.get(variant)
        fresh = self._fresh.get(variant)
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
        lost: list[str] = []
        for series, values in rows.items():
            if series in (fresh or {}):
                continue
            if fresh is not None and not self._partial and (variant, series) not in self._untold:
                lost.append(f"{variant} {series}")
                continue
            self._metrics.setdefault(variant, {})[series] = values
            self._kept_infos[variant, series] = old.info_for(variant, series)
            self.kept += 1
        if variant in old.scenario_digest:
            self._digests[variant] = old.scenario_digest[variant]
        return lost

    def changes(self) -> dict[str, bytes | None]:
        """What to write below the baseline folder, and what to remove; the rest stays."""
        assert self.name is not None
        texts: dict[str, bytes] = {}
        main, refreshed = self._infos()
        content = {
            BASELINE.key: BASELINE.current,
            "match": self._match,
            "scenario_digest": self._digests,
            "info": _flat(main),
            "metrics": {
                # in order, so that the names of texts that look alike stay theirs
                variant: {s: self._values(variant, s, v, texts) for s, v in sorted(rows.items())}
                for variant, rows in sorted(self._metrics.items())
            },
        }
        if refreshed:
            content["refreshed"] = refreshed
        encoded = msgspec.json.format(msgspec.json.encode(content, order="sorted"), indent=2)
        wanted: dict[str, bytes | None] = {f"{self._place}/{self.name}": encoded + b"\n"}
        wanted |= {f"{self._place}/{name}": data for name, data in texts.items()}
        wanted |= dict.fromkeys(self._unused_texts(texts))
        if self._read_former() is not None:
            wanted[f"{self._place}/{self._former}"] = None
        return {path: data for path, data in wanted.items() if self._tree.read(path) != data}

    def _infos(self) -> tuple[AcceptedInfo, list[dict[str, Any]]]:
        """The info of most values, and those of the others as they lie in the file."""
        groups: dict[bytes, tuple[AcceptedInfo, dict[str, list[str]]]] = {}
        main_key = _key(self._main)
        groups[main_key] = (self._main, {})
        for variant, rows in self._metrics.items():
            for series in rows:
                info = self._kept_infos.get((variant, series), self._info)
                groups.setdefault(_key(info), (info, {}))
                first, parts = groups[_key(info)]
                parts.setdefault(variant, []).append(series)
                flags = {**first.seen.flags}
                if variant in info.seen.flags:
                    flags.setdefault(variant, info.seen.flags[variant])
                groups[_key(info)] = (_with_flags(first, flags), parts)
        main, _ = groups.pop(main_key)
        others = sorted(groups.items(), key=lambda item: (item[1][0].date, item[0]))
        return main, [
            {
                "info": _flat(
                    _with_flags(info, {v: f for v, f in info.seen.flags.items() if v in parts})
                ),
                "series": {v: sorted(series) for v, series in parts.items()},
            }
            for _, (info, parts) in others
        ]

    def _values(
        self, variant: str, series: str, values: Sequence[Sample], texts: dict[str, bytes]
    ) -> list[Any]:
        """The values of a series as they lie in the file; texts go into files of their own."""
        metric = CATALOGUE.get(parse_selector(series).name)
        assume = "" if metric is None else metric.assume
        entries: list[Any] = []
        for s in values:
            if assume == "text":
                data = str(s.value).encode("utf-8")
                name = self._text_name(variant, series, data, texts)
                texts[name] = data
                entries.append({"file": name, "sha256": hashlib.sha256(data).hexdigest()})
            elif s.interval is not None:
                entries.append({"value": s.value, "interval": s.interval})
            elif assume == "quantised" or s.quantum or s.terms != 1:
                entries.append({"value": s.value, "quantum": s.quantum, "terms": s.terms})
            else:
                entries.append(s.value)
        return entries

    def _text_name(self, variant: str, series: str, data: bytes, texts: dict[str, bytes]) -> str:
        """A name for a text: `text/<numerics>/B.A.1.txt`; trials that agree share one."""
        selector = parse_selector(series)
        middle = [] if selector.name == "text" else [selector.name]
        parts = [variant, *middle, *(m.value for m in selector.matchers)]
        stem = safe_name(".".join(parts))
        taken = {other.casefold(): content for other, content in texts.items()}
        number = 1
        while True:
            suffix = "" if number == 1 else f"-{number}"
            name = f"{self._text_folder}/{stem}{suffix}.txt"
            if taken.get(name.casefold(), data) == data:
                return name
            number += 1

    @property
    def _text_folder(self) -> str:
        return f"text/{safe_name(str(self._match['numerics']), fold_case=True)}"

    def _unused_texts(self, texts: dict[str, bytes]) -> list[str]:
        if self.scope != "numerics":
            return []
        names = self._tree.names(f"{self._place}/{self._text_folder}")
        own = [f"{self._text_folder}/{name}" for name in names if name.endswith(".txt")]
        return [f"{self._place}/{name}" for name in own if name not in texts]


def is_chosen(name: str, labels: dict[str, str], metrics: Sequence[Selector] | None) -> bool:
    """Whether a measurement is among those that are taken; None takes everything."""
    return metrics is None or any(selector.accepts(name, labels) for selector in metrics)


def _key(info: AcceptedInfo) -> bytes:
    """What tells infos apart; each entry keeps the flags of its own variants only."""
    return msgspec.json.encode(_with_flags(info, {}), order="sorted")


def _with_flags(info: AcceptedInfo, flags: dict[str, dict[str, str]]) -> AcceptedInfo:
    seen = msgspec.structs.replace(info.seen, flags=flags)
    return msgspec.structs.replace(info, seen=seen)


def _flat(info: AcceptedInfo) -> dict[str, Any]:
    seen = {k: v for k, v in msgspec.to_builtins(info.seen).items() if v not in (None, "", {})}
    return {**seen, "date": info.date, "reason": info.reason, "run": info.run}
