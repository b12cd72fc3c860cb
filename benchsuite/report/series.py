"""Numbers of a report by series, all trials of one variant together; knows no format."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from benchsuite.metrics.select import format_series
from benchsuite.model.record import Measurement
from benchsuite.report.layout import safe
from benchsuite.report.report_input import Part, ReportInput

MOST_CHARACTERS = 300
"""Of a part of a name; longer ones are cut, and the run's id keeps no two names equal."""


class Series(msgspec.Struct, frozen=True):
    """One metric with its labels in one variant of one run."""

    part: Part
    metric: str  # in the catalogue
    labels: dict[str, str]
    variant: str
    unit: str
    values: tuple[float, ...]  # in the order of trials; never empty
    place: str  # `scenarioB on tiny`, of two sides with the side
    name: str  # `variant B: ttft_ms{session="A",turn="1"}`; with `place` unique in the report


def number_series(given: ReportInput) -> list[Series]:
    """Every series of numbers, in the order in which they were measured; texts are left out."""
    found: list[Series] = []
    seen: set[tuple[str, str]] = set()
    for part in given.parts:
        for one in _of_part(part):
            name = one.name
            if (one.place, name) in seen:  # a second run of one scenario
                name = f"{name} (run {part.run})"
            number = 2
            while (one.place, name) in seen:  # names that were cut
                name = f"{one.name} ({number})"
                number += 1
            seen.add((one.place, name))
            found.append(msgspec.structs.replace(one, name=name))
    return found


def _of_part(part: Part) -> Iterator[Series]:
    record = part.record
    place = f"{record.scenario} on {record.fingerprint.deployment}"
    if part.side:
        place = f"{place}, {part.side}"
    groups: dict[tuple[str, str], list[float]] = {}
    firsts: dict[tuple[str, str], Measurement] = {}
    for one in record.measurements:
        if isinstance(one.value, str) or not math.isfinite(one.value):
            continue
        key = (one.variant, format_series(one.name, one.labels))
        groups.setdefault(key, []).append(one.value)
        firsts.setdefault(key, one)
    for (variant, series), values in groups.items():
        first = firsts[variant, series]
        name = f"variant {_short(variant)}: {_short(series)}"
        yield Series(
            part, first.name, first.labels, variant, first.unit, tuple(values), _short(place), name
        )


def _short(text: str) -> str:
    cleaned = safe(text)
    return cleaned if len(cleaned) <= MOST_CHARACTERS else f"{cleaned[:MOST_CHARACTERS]}..."
