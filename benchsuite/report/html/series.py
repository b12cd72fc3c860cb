"""Figures for the plots of a run, from its record and journal; pure, without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.metrics.select import format_series
from benchsuite.model.record import Launch, RunRecord
from benchsuite.report.html.evidence import Evidence, MemoryPoint, Place, Span
from benchsuite.store.baselines import Baselines, SeriesValues, samples_by_variant

LATENCIES = ("ttft_ms", "tpot_ms", "e2e_ms", "decode_tokens_per_second")
"""The latencies whose distributions are shown, of turns and completes."""

_OF_REQUEST = ({"session", "turn"}, {"request"})


class Request(msgspec.Struct, frozen=True):
    """One request of a launch; None is what was not measured, or is no finite number."""

    name: str  # in words
    cached: int | None = None  # prompt tokens
    evaluated: int | None = None
    output: int | None = None
    slot: int | None = None
    prefill_ms: float | None = None  # by the server's clock
    decode_ms: float | None = None  # by the server's clock
    e2e_ms: float | None = None  # by the client's clock
    span: Span | None = None


class Dots(msgspec.Struct, frozen=True):
    """The values of one latency in one variant, of one side."""

    variant: str
    side: str  # `baseline` or `candidate`
    values: tuple[float, ...]  # one a request and launch


def request_words(labels: dict[str, str]) -> str:
    """A request in few characters: `A turn 2`."""
    if "session" in labels:
        return f"{labels['session']} turn {labels.get('turn', '?')}"
    if "step" in labels:
        return f"{labels['step']} {labels.get('request', '')}".strip()
    return labels.get("request", "request")


def requests_of(record: RunRecord, launch: Launch, evidence: Evidence) -> list[Request]:
    """The requests of a launch, in the order in which they were sent where that is known."""
    place = (launch.variant, launch.trial)
    spans = {_key(span.labels): span for span in evidence.spans.get(place, ())}
    found: dict[str, dict[str, object]] = {}
    labels_of: dict[str, dict[str, str]] = {key: span.labels for key, span in spans.items()}
    for m in record.measurements:
        if (m.variant, m.trial) != place or set(m.labels) not in _OF_REQUEST:
            continue
        key = _key(m.labels)
        labels_of.setdefault(key, m.labels)
        found.setdefault(key, {})[m.name] = m.value
    made = [
        _request(request_words(labels), found.get(key, {}), spans.get(key))
        for key, labels in labels_of.items()
    ]
    return sorted(made, key=lambda r: float("inf") if r.span is None else r.span.sent_s)


def _key(labels: dict[str, str]) -> str:
    return format_series("", labels)


def _request(name: str, seen: dict[str, object], span: Span | None) -> Request:
    slot = _whole(seen.get("slot"))
    return Request(
        name,
        _whole(seen.get("cached_tokens")),
        _whole(seen.get("evaluated_tokens")),
        _whole(seen.get("output_tokens")),
        slot if slot is not None or span is None else span.slot,
        _number(seen.get("server_prefill_ms")),
        _number(seen.get("server_decode_ms")),
        _number(seen.get("e2e_ms")),
        span,
    )


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def kv_mib(record: RunRecord, place: Place) -> float | None:
    """The total KV memory of a launch; None where it was not measured."""
    for m in record.measurements:
        here = (m.variant, m.trial) == place and m.name == "kv_mib" and not m.labels
        if here:
            return _number(m.value)
    return None


def thin(points: Sequence[MemoryPoint], most: int) -> list[MemoryPoint]:
    """At most so many samples: of each stretch of equally many, its lowest and its highest.

    Args:
        points: In the order of time.
        most: At least 4.
    """
    if len(points) <= most:
        return list(points)
    stretches = (most - 2) // 2
    inner = points[1:-1]
    kept: list[MemoryPoint] = [points[0]]
    for i in range(stretches):
        part = inner[i * len(inner) // stretches : (i + 1) * len(inner) // stretches]
        if part:
            low, high = min(part, key=_height), max(part, key=_height)
            kept += [low] if low is high else sorted((low, high), key=lambda p: p.at_s)
    return [*kept, points[-1]]


def _height(point: MemoryPoint) -> float:
    return point.anon_mib or point.rss_mib or 0.0


def against_run(record: RunRecord, other: RunRecord, name: str) -> list[Dots]:
    """The values of a latency by variant, those of another run as the baseline's before each.

    Args:
        record: The candidate.
        other: The baseline.
        name: Of the latency; see `LATENCIES`.
    """
    own, theirs = (samples_by_variant(r.measurements) for r in (record, other))
    found = []
    for variant in dict.fromkeys([*own, *theirs]):
        for side, values in (
            ("baseline", _values(theirs.get(variant, {}), name)),
            ("candidate", _values(own.get(variant, {}), name)),
        ):
            if values:
                found.append(Dots(variant, side, values))
    return found


def against_baselines(record: RunRecord, baselines: Baselines | None, name: str) -> list[Dots]:
    """The values of a latency by variant, the stored baseline's before the candidate's.

    Args:
        record: The candidate.
        baselines: None where there are none.
        name: Of the latency; see `LATENCIES`.
    """
    own = samples_by_variant(record.measurements)
    scope = CATALOGUE[name].scope
    file = baselines.of(scope).file if baselines is not None else None
    found = []
    for variant, series in own.items():
        values = _values(series, name)
        if not values:
            continue
        same = file is not None and file.scenario_digest.get(variant) == record.digests.get(variant)
        if file is not None and same:
            stored = _values(file.metrics.get(variant, {}), name)
            if stored:
                found.append(Dots(variant, "baseline", stored))
        found.append(Dots(variant, "candidate", values))
    return found


def _values(series: SeriesValues, name: str) -> tuple[float, ...]:
    return tuple(
        float(sample.value)
        for text, samples in series.items()
        if text.startswith(f"{name}{{") and "step=" not in text
        for sample in samples
        if not isinstance(sample.value, str) and math.isfinite(sample.value)
    )


def quantile(values: Sequence[float], share: float) -> float:
    """A quantile by linear interpolation between order statistics (Hyndman and Fan's type 7)."""
    ordered = sorted(values)
    at = (len(ordered) - 1) * share
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
