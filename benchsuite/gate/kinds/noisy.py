"""What memory and latency have in common: medians, limits, outliers that are named and kept.

The replicate is the server launch. With fewer than 5 there is no interval, and every result says
so; nothing is left out of a figure because it stands apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchsuite.gate.kinds.comparison import Limits, number_of, percent, plural
from benchsuite.model.record import Value
from benchsuite.model.verdict import Estimate
from benchsuite.stats.medians import median_interval
from benchsuite.stats.numbers import finite
from benchsuite.stats.numbers import median as middle_of
from benchsuite.stats.outliers import outliers
from benchsuite.store.baselines import Sample
from benchsuite.units import format_number, format_value

NO_NUMBER = "no number"
"""Printed for values that cannot be used."""


def median(samples: Sequence[Sample]) -> float:
    """The median of the trials whose value is a finite number; of none it is not a number."""
    kept = [v for v in numbers(samples) if finite(v)]
    return middle_of(kept) if kept else math.nan


def numbers(samples: Sequence[Sample]) -> list[float]:
    """The values of the trials."""
    return [number_of(s) for s in samples]


class NoisyKind:
    """What both kinds do with values of one side."""

    advises = True

    def equals(self, samples: Sequence[Sample], wanted: Value) -> bool:
        """The median equals it, and no trial is without a value."""
        return all(finite(v) for v in numbers(samples)) and median(samples) == wanted

    def limits(
        self, samples: Sequence[Sample], low: float | None, high: float | None, unit: str = ""
    ) -> Limits:
        """The median keeps them; with an interval, all of it must, or nothing is certain.

        The interval is that of the median over 5 or more launches, or the values' own.
        """
        estimate = _one_side(samples, unit)
        if estimate.value is None:
            return Limits("inconclusive", estimate, "no value is a number")
        first, last = estimate.value, estimate.value
        if estimate.low is not None and estimate.high is not None:
            first, last = estimate.low, estimate.high
        if (low is None or first >= low) and (high is None or last <= high):
            if estimate.candidate_n < len(samples):  # what could not be read is no pass
                return Limits("inconclusive", estimate, "not every launch gave a value to judge")
            return Limits("pass", estimate)
        if (low is not None and last < low) or (high is not None and first > high):
            return Limits("fail", estimate)
        sentence = f"its interval, {span_words(estimate)}, holds the limit"
        return Limits("inconclusive", estimate, sentence)

    def show(self, samples: Sequence[Sample], unit: str) -> str:
        """The median of what can be used."""
        return number_words(median(samples), unit)


def _one_side(samples: Sequence[Sample], unit: str) -> Estimate:
    """The median with an interval: over launches, or of values that bring their own."""
    flags = outlier_warnings((), samples)
    own = [s.interval for s in samples if s.interval is not None]
    if own and len(own) == len(samples):
        # the middle of the launches' intervals, end by end: never the best one's
        ends = [sorted(interval[i] for interval in own) for i in range(2)]
        low, high = (_middle(values) for values in ends)
        return Estimate(
            median(samples),
            unit,
            0,
            len(own),
            low,
            high,
            method="interval of the value itself",
            warnings=flags,
        )
    found = median_interval(numbers(samples), unit=unit)
    return msgspec.structs.replace(found, warnings=(*found.warnings, *flags))


def _middle(ordered: Sequence[float]) -> float:
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def with_outliers(
    estimate: Estimate, reference: Sequence[Sample], candidate: Sequence[Sample]
) -> Estimate:
    """An estimate with a warning for each value that stands apart from its side."""
    flags = outlier_warnings(reference, candidate)
    return msgspec.structs.replace(estimate, warnings=(*estimate.warnings, *flags))


def outlier_warnings(reference: Sequence[Sample], candidate: Sequence[Sample]) -> tuple[str, ...]:
    """`trial 4 stands apart (31.2), and is kept`, for each outlier of either side."""
    return tuple(
        f"{side}trial {index + 1} stands apart ({format_number(number_of(samples[index]))}), "
        "and is kept"
        for side, samples in (("baseline's ", reference), ("", candidate))
        for index in outliers(numbers(samples))
    )


def span_words(estimate: Estimate) -> str:
    """An interval in words: `-1.2 to 3.4%`; empty where there is none."""
    if estimate.low is None or estimate.high is None:
        return ""
    space = "" if estimate.unit in ("", "%") else " "
    return f"{format_number(estimate.low)} to {format_number(estimate.high)}{space}{estimate.unit}"


def change_words(reference: Sequence[Sample], candidate: Sequence[Sample], unit: str) -> str:
    """From which median to which: `100 to 120 ms (+20.0%)`."""
    before, after = median(reference), median(candidate)
    first = format_number(before) if finite(before) else NO_NUMBER
    return f"{first} to {number_words(after, unit)}{percent(before, after)}"


def number_words(value: float, unit: str) -> str:
    """A value with its unit; `no number` for what is none."""
    return format_value(value, unit) if finite(value) else NO_NUMBER


def launches(reference: int, candidate: int) -> str:
    """On how many launches a comparison stands."""
    if reference == candidate:
        return f"{plural(reference, 'launch')} a side"
    return f"{plural(candidate, 'launch')} against {reference}"
