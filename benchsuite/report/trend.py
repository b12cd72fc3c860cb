"""The history of metrics: series of runs, where they changed or drift, and what differs there."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from benchsuite.gate.differs import differences
from benchsuite.gate.kinds.quantised import agree
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.metrics.metric import Assume, Better
from benchsuite.metrics.select import parse_selector
from benchsuite.report.json import document
from benchsuite.stats.change_points import Findings, exact_steps, find_changes
from benchsuite.store.baselines import Sample
from benchsuite.store.history import FailedVariant, Point, StoredRun
from benchsuite.units import format_number

TREND_SCHEMA = 1
"""Version of the JSON of a trend. 1: first."""

MIN_PERCENT = 1.0
"""Smaller changes of memory and latency are counted, not told, however sure they are."""

STATE_MARKS = {
    "fail": "failed",
    "inconclusive": "inconclusive",
    "server failed": "server failed",
    "machine failed": "machine failed",
    "interrupted": "interrupted",
    "not judged": "not judged",
    "in progress": "in progress",
    "cut": "cut off",
}
"""What is said of a run in any state but `pass`."""


class SeriesKey(msgspec.Struct, frozen=True, order=True):
    """What must be equal for values of different runs to form one series."""

    deployment: str
    scenario: str
    variant: str
    series: str
    seed: int
    digest: str  # of what the variant does
    numerics: str  # empty for metrics of config scope, or where not known
    machine: str  # empty for any but machine scope, or where not known


class Row(msgspec.Struct, frozen=True):
    """One run of a series."""

    run: StoredRun
    samples: tuple[Sample, ...] = ()  # one a launch that lived; empty where none did
    failure: str = ""  # kind of failure, where there are no samples
    unfit: bool = False  # the machine was not fit to measure this kind of metric

    @property
    def value(self) -> float | None:
        """The median over launches; None where one of them has no finite number."""
        numbers = sorted(
            s.value for s in self.samples if not isinstance(s.value, str) and math.isfinite(s.value)
        )
        if not numbers or len(numbers) < len(self.samples):
            return None
        low, high = numbers[(len(numbers) - 1) // 2], numbers[len(numbers) // 2]
        return low if low == high else (low + high) / 2

    @property
    def mark(self) -> str:
        """What is said of the run beside its value; empty for one that passed."""
        if self.failure:
            return f"no value, {self.failure}"
        marks = (STATE_MARKS.get(self.run.state, ""), "unfit machine" if self.unfit else "")
        return ", ".join(mark for mark in marks if mark)


class Change(msgspec.Struct, frozen=True):
    """The level changed between two runs, or crept from one to the other."""

    first: int  # row of the last run at the old level
    last: int  # row of the first run at the new level; of a drift where it stops
    before: float | str  # level; a text for texts and for launches that disagree
    after: float | str
    percent: float | None  # None where the level was 0, and for texts
    worse: bool | None  # None where the metric has no direction
    drift: bool = False
    slope: float | None = None  # of a drift, from one run to the next
    largest: float | None = None  # of a drift, between two runs in a row, in percent
    p_value: float | None = None  # None for exact metrics
    differs: tuple[str, ...] = ()  # in words, from the first run to the last


class Series(msgspec.Struct, frozen=True):
    """One series with what was found in it."""

    key: SeriesKey
    unit: str
    assume: Assume
    rows: tuple[Row, ...]  # oldest first
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()


def make_series(
    points: Sequence[Point], failed: Sequence[FailedVariant], *, last: int | None = None
) -> list[Series]:
    """Points put into series and looked through.

    Args:
        points: Oldest first.
        failed: Variants without values, shown in each series that they belong to.
        last: The newest runs of each series that are looked at; None is all.
    """
    rows: dict[SeriesKey, list[Row]] = {}
    for point in points:
        unfit = _assume(point.series) in point.run.unfit
        rows.setdefault(_key(point), []).append(Row(point.run, point.samples, unfit=unfit))
    found = []
    for key, own in sorted(rows.items()):
        own += [Row(one.run, failure=one.failure) for one in failed if _belongs(one, key)]
        own.sort(key=lambda row: (row.run.started_at, row.run.folder))
        found.append(_look_through(key, own if last is None else own[-last:]))
    return [one for one in found if any(row.samples for row in one.rows)]


def _key(point: Point) -> SeriesKey:
    selector = parse_selector(point.series)
    metric = CATALOGUE.get(selector.name)
    scope = "config" if metric is None else metric.scope_of(selector.label_names)
    run = point.run
    return SeriesKey(
        deployment=run.deployment,
        scenario=run.scenario,
        variant=point.variant,
        series=point.series,
        seed=run.seed,
        digest=point.digest,
        numerics=(run.numerics or "") if scope != "config" else "",
        machine=(run.machine or "") if scope == "machine" else "",
    )


def _assume(series: str) -> Assume:
    metric = CATALOGUE.get(parse_selector(series).name)
    return "exact" if metric is None else metric.assume


def _belongs(one: FailedVariant, key: SeriesKey) -> bool:
    """A server that did not start tells no devices, so unknown keys are no reason against it."""
    run = one.run
    return (
        (run.deployment, run.scenario, run.seed) == (key.deployment, key.scenario, key.seed)
        and one.variant == key.variant
        and one.digest == key.digest
        and (not key.machine or run.machine in (None, key.machine))
        and (not key.numerics or run.numerics in (None, key.numerics))
    )


def _look_through(key: SeriesKey, rows: Sequence[Row]) -> Series:
    metric = CATALOGUE.get(parse_selector(key.series).name)
    assume = _assume(key.series)
    unit = "" if metric is None else metric.unit
    better: Better = "equal" if metric is None else metric.better
    at = [i for i, row in enumerate(rows) if row.samples]
    if assume in ("memory", "latency"):
        levels = [rows[i].value for i in at]
        found = find_changes([math.nan if value is None else value for value in levels])
        changes, notes = _noisy(found, levels, rows, at, key.variant, better)
    else:
        changes = _exact([rows[i].samples for i in at], rows, at, key.variant, better)
        notes = []
    return Series(key, unit, assume, tuple(rows), tuple(changes), tuple(notes))


def _exact(
    levels: Sequence[tuple[Sample, ...]],
    rows: Sequence[Row],
    at: Sequence[int],
    variant: str,
    better: Better,
) -> list[Change]:
    changes = []
    for i in exact_steps(levels, same=_same):
        before, after = _level(levels[i - 1]), _level(levels[i])
        percent, worse = None, None
        if not isinstance(before, str) and not isinstance(after, str):
            percent, worse = _percent(before, after), _is_worse(before, after, better)
        changes.append(
            Change(
                first=at[i - 1],
                last=at[i],
                before=before,
                after=after,
                percent=percent,
                worse=worse,
                differs=_differs(rows[at[i - 1]].run, rows[at[i]].run, variant),
            )
        )
    return changes


def _same(a: tuple[Sample, ...], b: tuple[Sample, ...]) -> bool:
    """Whether the launches of two runs gave the same values, as far as print tells."""
    if any(isinstance(s.value, str) for s in (*a, *b)):
        return {s.value for s in a} == {s.value for s in b}
    return all(any(agree(x, y) for y in b) for x in a) and all(
        any(agree(x, y) for x in a) for y in b
    )


def _level(samples: tuple[Sample, ...]) -> float | str:
    """The one value of all launches, or all of them in words."""
    values = list(dict.fromkeys(s.value for s in samples))
    if len(values) == 1:
        return values[0]
    return " or ".join(v if isinstance(v, str) else format_number(v) for v in values)


def _noisy(
    found: Findings,
    levels: Sequence[float | None],
    rows: Sequence[Row],
    at: Sequence[int],
    variant: str,
    better: Better,
) -> tuple[list[Change], list[str]]:
    changes = [
        Change(
            first=at[step.index - 1],
            last=at[step.index],
            before=step.before,
            after=step.after,
            percent=step.percent,
            worse=_is_worse(step.before, step.after, better),
            p_value=step.p_value,
            differs=_differs(rows[at[step.index - 1]].run, rows[at[step.index]].run, variant),
        )
        for step in found.steps
    ]
    changes += [
        Change(
            first=at[drift.start],
            last=at[drift.end],
            before=drift.before,
            after=drift.after,
            percent=drift.percent,
            worse=_is_worse(drift.before, drift.after, better),
            drift=True,
            slope=drift.slope,
            largest=_largest(levels[drift.start : drift.end + 1]),
            p_value=drift.p_value,
            differs=_differs(rows[at[drift.start]].run, rows[at[drift.end]].run, variant),
        )
        for drift in found.drifts
    ]
    told = [c for c in changes if c.percent is None or abs(c.percent) >= MIN_PERCENT]
    notes = list(found.notes)
    if len(told) < len(changes):
        small = len(changes) - len(told)
        notes.append(f"{small} {'change' if small == 1 else 'changes'} below {MIN_PERCENT:g}%")
    return sorted(told, key=lambda c: c.first), notes


def _largest(levels: Sequence[float | None]) -> float | None:
    """The largest change from one run to the next, in percent."""
    known = [value for value in levels if value is not None]
    changes = [abs(p) for p in (_percent(a, b) for a, b in pairwise(known)) if p is not None]
    return max(changes, default=None)


def _percent(before: float, after: float) -> float | None:
    return None if before == 0 else (after - before) / abs(before) * 100


def _is_worse(before: float, after: float, better: Better) -> bool | None:
    if better == "equal" or before == after:
        return None
    return (after > before) if better == "lower" else (after < before)


def _differs(before: StoredRun, after: StoredRun, variant: str) -> tuple[str, ...]:
    """What differs between two runs, commit and kernel included."""
    words = list(differences(before.info, after.info, variant))
    for name, old, new in (
        ("commit", (before.info.commit or "")[:9], (after.info.commit or "")[:9]),
        ("kernel", before.info.kernel, after.info.kernel),
        ("image", before.info.image, after.info.image),
    ):
        if old and new and old != new:
            words.append(f"{name} {old} -> {new}")
    return tuple(words)


def render_trend_json(series: Sequence[Series]) -> bytes:
    """The series as a JSON document."""
    return document({"schema_version": TREND_SCHEMA, "series": [_plain(one) for one in series]})


def _plain(series: Series) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(series.key),
        "unit": series.unit,
        "points": [
            {
                "run": row.run.id,
                "started_at": row.run.started_at,
                "build": row.run.info.build,
                "commit": row.run.info.commit,
                "state": row.run.state,
                "failure": row.failure or None,
                "unfit": row.unfit,
                "value": row.value,
                "samples": [s.value for s in row.samples],
            }
            for row in series.rows
        ],
        "changes": [
            {
                **msgspec.structs.asdict(change),
                "first": series.rows[change.first].run.id,
                "last": series.rows[change.last].run.id,
            }
            for change in series.changes
        ],
        "notes": list(series.notes),
    }


_COLUMNS = (
    *("deployment", "scenario", "variant", "series", "unit", "seed", "machine"),
    *("run", "started_at", "build", "commit", "state", "failure"),
    *("value", "low", "high", "launches", "changed"),
)


def render_trend_csv(series: Sequence[Series]) -> str:
    """The series as one table with a head, a line for each run."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for one in series:
        key = one.key
        steps = {c.last for c in one.changes if not c.drift}
        for i, row in enumerate(one.rows):
            values = [s.value for s in row.samples]
            numbers = [v for v in values if not isinstance(v, str)]
            shown: Any = row.value if numbers else " or ".join(dict.fromkeys(map(str, values)))
            info = row.run.info
            writer.writerow(
                [
                    *(key.deployment, key.scenario, key.variant, key.series, one.unit, key.seed),
                    *(key.machine, row.run.id, row.run.started_at, info.build, info.commit),
                    *(row.run.state, row.failure, shown),
                    *(min(numbers, default=None), max(numbers, default=None), len(values)),
                    int(i in steps),
                ]
            )
    return text.getvalue()
