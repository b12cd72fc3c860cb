"""A run's measurements and launches, arranged for gates to look things up by variant."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import msgspec

from benchsuite.metrics.catalogue import CATALOGUE, CHANGES
from benchsuite.metrics.select import Selector
from benchsuite.model.record import Failure, Launch, RunRecord, Unmeasured
from benchsuite.model.scenario import When
from benchsuite.store.baselines import Sample, series_of

_SEVERITY = ("not_applicable", "inconclusive", "missing")


class Series(msgspec.Struct, frozen=True):
    """The values of one series in one variant."""

    text: str  # as `format_series` gives it
    name: str
    labels: dict[str, str]
    samples: tuple[Sample, ...]  # one a trial that measured it
    source: str = ""  # of the last trial's value


class Fact(msgspec.Struct, frozen=True):
    """Whether a condition holds; None where it cannot be told."""

    holds: bool | None
    reason: str = ""  # where it does not hold or cannot be told


class Seen:
    """Look-ups in one record, without the judgement."""

    def __init__(self, record: RunRecord) -> None:
        self.record = record
        self._launches: dict[str, list[Launch]] = {}
        for launch in record.launches:
            self._launches.setdefault(launch.variant, []).append(launch)
        self._not_applicable = {n.variant: n.reason for n in record.not_applicable}
        self._series: dict[str, dict[str, Series]] = {}
        for m in sorted(record.measurements, key=lambda m: m.trial):
            rows = self._series.setdefault(m.variant, {})
            text = series_of(m)
            before = rows[text].samples if text in rows else ()
            sample = Sample(m.value, m.quantum, m.terms, m.interval)
            kept = usable(m.name, (sample,))
            rows[text] = Series(text, m.name, m.labels, (*before, *kept), m.source)

    def variants(self) -> set[str]:
        """The variants that the run was about, those that could not run included."""
        return {*self.record.digests, *self._not_applicable, *self._launches}

    def not_applicable(self, variant: str) -> str | None:
        """Why a variant could not run here; None where it could."""
        return self._not_applicable.get(variant)

    def launches(self, variant: str) -> Sequence[Launch]:
        """The launches of a variant, one a trial."""
        return self._launches.get(variant, [])

    def failure(self, variant: str) -> tuple[Launch, Failure] | None:
        """The first launch of a variant that failed; an interruption is none."""
        for launch in self.launches(variant):
            if launch.failure is not None and launch.failure.kind != "interrupted":
                return launch, launch.failure
        return None

    def select(self, variant: str, selector: Selector) -> list[Series]:
        """The series of a variant that a selector selects."""
        rows = self._series.get(variant, {}).values()
        return [s for s in rows if selector.accepts(s.name, s.labels)]

    def all(self, variant: str) -> list[Series]:
        """Every series of a variant, in the order measured."""
        return list(self._series.get(variant, {}).values())

    def label_sets(self, variant: str, name: str) -> list[str]:
        """With which labels a metric was measured in a variant, in words."""
        rows = self._series.get(variant, {}).values()
        return sorted({", ".join(sorted(s.labels)) or "no labels" for s in rows if s.name == name})

    def unmeasured(self, variant: str, selector: Selector) -> Unmeasured | None:
        """Why what a selector asks for was not measured: the gravest reason on record."""
        found = [
            u
            for u in self.record.unmeasured
            if u.variant == variant
            and u.name == selector.name
            and all(
                matcher.accepts(u.labels[matcher.label])
                for matcher in selector.matchers
                if matcher.label in u.labels
            )
        ]
        return max(found, key=lambda u: _SEVERITY.index(u.outcome)) if found else None

    def attached(self, variant: str) -> bool:
        """Whether a variant ran on someone else's server."""
        return any(launch.server.kind == "attached" for launch in self.launches(variant))

    def condition(self, variant: str, when: When) -> Fact:
        """Whether a gate's `when` holds for a variant; False beats what cannot be told."""
        facts = [
            *self._model_facts(variant, when),
            *self._analytic_facts(variant, when),
            *self._place_facts(variant, when),
        ]
        for fact in facts:
            if fact.holds is False:
                return fact
        return next((fact for fact in facts if fact.holds is None), Fact(True))

    def _model_facts(self, variant: str, when: When) -> list[Fact]:
        asked = (when.attention, when.sliding_window, when.recurrent)
        if all(part is None for part in asked):
            return []
        kinds = (launch.server.model.attention for launch in self.launches(variant))
        kind = next((k for k in kinds if k is not None), None)
        if kind is None:
            return [Fact(None, "the model's kind of attention cannot be seen")]
        is_words = f"this model's attention is {kind.replace('_', ' ')}"
        facts = []
        if when.attention is not None:
            words = when.attention.replace("_", " ")
            facts.append(Fact(kind == when.attention, f"holds for {words} attention; {is_words}"))
        if when.sliding_window is not None:
            words = "with" if when.sliding_window else "without"
            holds = (kind == "sliding_window") == when.sliding_window
            facts.append(Fact(holds, f"holds for models {words} a sliding window; {is_words}"))
        if when.recurrent is not None:
            words = "with" if when.recurrent else "without"
            holds = (kind in ("recurrent", "hybrid")) == when.recurrent
            facts.append(Fact(holds, f"holds for models {words} recurrent layers; {is_words}"))
        return facts

    def _analytic_facts(self, variant: str, when: When) -> list[Fact]:
        launches = self.launches(variant)
        if when.analytic is None or not launches:
            return []
        unknown = next((one.analytic_unknown for one in launches if one.analytic_unknown), "")
        if unknown:
            words = f"holds where the model file tells what memory must be; here not: {unknown}"
            return [Fact(not when.analytic, words)]
        if not all(one.analytic for one in launches):
            return [Fact(None, "what the model file makes of memory cannot be seen")]
        words = "holds where the model file does not tell what memory must be; here it does"
        return [Fact(when.analytic, words)]

    def _place_facts(self, variant: str, when: When) -> list[Fact]:
        facts = []
        if when.deployment is not None:
            ours = self.record.fingerprint.deployment
            words = f"holds for deployment '{when.deployment}'; this is '{ours}'"
            facts.append(Fact(when.deployment == ours, words))
        if when.backend is not None:
            devices = {d for launch in self.launches(variant) for d in launch.server.devices}
            if not devices:
                facts.append(Fact(None, "the devices in use cannot be seen"))
            else:
                names = sorted({backend_of(device) for device in devices})
                holds = when.backend.lower() in (n.lower() for n in names)
                words = f"holds for backend {when.backend}; in use: {', '.join(names)}"
                facts.append(Fact(holds, words))
        return facts


def usable(name: str, samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """The samples of a metric, those that no server can have given as not a number.

    A running server has memory above 0 (its growth may be below), and nothing takes less than no
    time: such a value was not read, and must neither keep a limit nor move a median.
    """
    metric = CATALOGUE.get(name)
    if metric is None or metric.assume not in ("memory", "latency") or name in CHANGES:
        return tuple(samples)
    floor = math.ulp(0.0) if metric.assume == "memory" else 0.0
    return tuple(
        msgspec.structs.replace(s, value=math.nan)
        if isinstance(s.value, str) or s.value < floor
        else s
        for s in samples
    )


def backend_of(device: str) -> str:
    """A device's backend: `CUDA` of `CUDA0`, `RPC` of `RPC0[127.0.0.1:50952]`."""
    match = re.match(r"[^\d\[(]+", device)
    return match[0] if match else device
