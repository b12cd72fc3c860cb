"""Trends over a launch: how memory grows, and how decode speed changes, with their intervals.

A server that fills its caches grows and is then full; one that leaks still grows at the end. So
growth is told over all requests, and over the last half of them alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from benchsuite.collect.memory_growth import Growth, GrowthPoint
from benchsuite.collect.process_memory import STATUS
from benchsuite.collect.speed_trend import SpeedTrend, SpeedTrends
from benchsuite.metrics.catalogue import (
    CATALOGUE,
    DECODE_CHANGE,
    DECODE_HOURLY,
    LATE_HOURLY,
    LATE_SLOPE,
    SLOPE,
    SLOPE_REQUESTS,
)
from benchsuite.model.record import Measurement, Unmeasured
from benchsuite.stats.numbers import median
from benchsuite.stats.slopes import Slope, slope
from benchsuite.units import MIB

_NS_PER_HOUR = 3_600_000_000_000
_SECONDS_PER_HOUR = 3600.0
_FEWEST_SPANS = 8
"""Spans of time over which a change of speed is told."""


def measure_slopes(
    growth: Growth, variant: str, trial: int, *, observed: bool, steps: Sequence[str] = ()
) -> list[Measurement | Unmeasured]:
    """The slopes of each load step, and without labels those of the launch since its last restart.

    Args:
        growth: What was read.
        variant: Name of the variant.
        trial: From 1.
        observed: Whether the server's processes can be seen at all.
        steps: Load steps that were done; one of whose requests none was finished after its warm-up
            has no slope either.
    """
    found: list[Measurement | Unmeasured] = []
    named = dict.fromkeys((*(name for name in growth.counted if name), *steps))
    for step in (None, *named):
        labels = {} if step is None else {"step": step}
        requests = growth.of_process if step is None else growth.counted.get(step, 0)
        points = growth.points(step)
        late = last_half(points)
        made: list[tuple[str, int, Sequence[float], list[GrowthPoint]]] = [
            (SLOPE, requests, [p.finished for p in points], points),
            (LATE_SLOPE, requests // 2, [p.finished for p in late], late),
        ]
        if step is not None:
            hours = [(p.at_ns - late[0].at_ns) / _NS_PER_HOUR for p in late]
            made.append((LATE_HOURLY, requests // 2, hours, late))
        for name, count, places, read in made:
            fit, why, outcome = _fit(growth, count, places, read, observed)
            if fit is None or fit.value is None or fit.low is None or fit.high is None:
                found.append(Unmeasured(name, variant, why, outcome, trial=trial, labels=labels))
                continue
            found.append(
                Measurement(
                    name,
                    fit.value,
                    CATALOGUE[name].unit,
                    variant,
                    trial,
                    labels,
                    source=f"{STATUS}, slope of {fit.n} readings over {count} requests",
                    interval=(fit.low, fit.high),
                )
            )
    return found


def last_half(points: Sequence[GrowthPoint]) -> list[GrowthPoint]:
    """The readings after the middle between the first one's request and the last one's."""
    if not points:
        return []
    middle = (points[0].finished + points[-1].finished) / 2
    return [p for p in points if p.finished > middle]


def _fit(
    growth: Growth,
    requests: int,
    places: Sequence[float],
    points: Sequence[GrowthPoint],
    observed: bool,
) -> tuple[Slope | None, str, Literal["not_applicable", "inconclusive"]]:
    """The slope of the readings, or why there is none and what that makes of a gate."""
    if not observed:
        why = "the memory of an attached server cannot be seen over HTTP"
        return None, why, "not_applicable"
    if growth.readable is False:
        return None, "this system does not tell anonymous memory", "not_applicable"
    if requests < SLOPE_REQUESTS:
        why = f"{requests} requests after warm-up: a slope needs {SLOPE_REQUESTS}"
        return None, why, "inconclusive"
    fit = slope(places, [p.anon_bytes / MIB for p in points])
    return fit, f"no slope can be told: {'; '.join(fit.warnings)}", "inconclusive"


def measure_speeds(
    speeds: SpeedTrends, variant: str, trial: int, *, steps: Sequence[str] = ()
) -> list[Measurement | Unmeasured]:
    """How decode speed changed over each load step.

    Args:
        speeds: What replies told.
        variant: Name of the variant.
        trial: From 1.
        steps: Load steps that were done; one without a reply that told its speed has no trend.
    """
    found: list[Measurement | Unmeasured] = []
    for step in dict.fromkeys((*speeds.steps, *steps)):
        trend = speeds.steps.get(step) or SpeedTrend()
        labels = {"step": step}
        changes, why = _changes(trend)
        source = f"timings.predicted_per_second, slope of the medians of {trend.replies} replies"
        for name in (DECODE_CHANGE, DECODE_HOURLY):
            if name not in changes:
                missing = Unmeasured(name, variant, why, "inconclusive", trial=trial, labels=labels)
                found.append(missing)
                continue
            value, low, high = changes[name]
            unit = CATALOGUE[name].unit
            told = Measurement(
                name, value, unit, variant, trial, labels, source=source, interval=(low, high)
            )
            found.append(told)
    return found


def _changes(trend: SpeedTrend) -> tuple[dict[str, tuple[float, float, float]], str]:
    """Value and interval by metric, or why there are none."""
    if not trend.replies:
        return {}, "no reply after warm-up told its speed: too few requests for a trend"
    spans = trend.spans()
    if len(spans) < _FEWEST_SPANS:
        return {}, f"{len(spans)} spans of time with replies: a trend needs {_FEWEST_SPANS}"
    fit = slope([s.at_s for s in spans], [s.tokens_per_second for s in spans])
    if fit.value is None or fit.low is None or fit.high is None:
        return {}, f"no trend can be told: {'; '.join(fit.warnings)}"
    middle = median([s.tokens_per_second for s in spans])
    if middle <= 0:
        return {}, "half of the replies tell no speed"
    per_second = [v / middle * 100 for v in (fit.value, fit.low, fit.high)]
    seconds = spans[-1].at_s - spans[0].at_s
    return {
        name: (per_second[0] * by, per_second[1] * by, per_second[2] * by)
        for name, by in ((DECODE_CHANGE, seconds), (DECODE_HOURLY, _SECONDS_PER_HOUR))
    }, ""
