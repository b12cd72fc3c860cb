"""Interleaved pairs of launches: the log ratio with a t interval, looked at twice.

The looks are fixed in advance: at 5 pairs with a 99% interval of the mean log ratio, at 10 with a
97% interval. They call a candidate worse at exactly the tolerance with 0.5% and 1.5%, together with
no more than one look with a 95% interval does (the bound of Bonferroni). A comparison of more pairs
is looked at once, with 95%. Looking after every pair was tried and rejected: with a 90% interval it
fails about 15% of candidates at exactly the tolerance (`docs/calibration.md`).

The interval is Student's: m +- t(1 - a/2, n-1) s / sqrt(n) of the n log ratios, 1 - a being its
confidence ("Student", "The probable error of a mean", Biometrika 6(1), 1908).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchsuite.metrics.metric import Better
from benchsuite.stats.numbers import (
    NEEDED,
    floor_step,
    left_out,
    median,
    positive,
    too_few,
)
from benchsuite.stats.ratios import (
    CONFIDENCE,
    Look,
    decide,
    estimate_of,
    limit,
    log_ratio,
    t_quantile,
)

__all__ = ["CONFIDENCES", "LOOKS", "METHOD", "Look", "confidence_at", "log_ratios", "look"]

LOOKS = (5, 10)
"""Pairs after which a verdict may be given; other counts below the last decide nothing."""

CONFIDENCES = (0.99, 0.97)
"""Of the interval at each look."""

METHOD = "paired log ratio, Student's t"


def look(
    baseline: Sequence[float],
    candidate: Sequence[float],
    *,
    tolerance_percent: float,
    better: Better,
    quantum: float = 0.0,
) -> Look:
    """Judge as many pairs as there are.

    Args:
        baseline: One value a launch, in the order of the pairs.
        candidate: Likewise; what one side has more of is left out, with a warning.
        tolerance_percent: How much worse is accepted.
        better: The metric's direction.
        quantum: The clock's or print's step, in the metric's unit; the standard error is never
            taken as smaller. Where there is no spread at all and no quantum is given, it is the
            step in which the values are written.

    Returns:
        `worse` or `within` only at one of `LOOKS` or beyond the last; there `final` is set. Pairs
        with a value that is missing, not finite or not above 0 are left out; with one of them, or
        unequal counts, nothing is `within`. Never raises for any values.
    """
    pairs = min(len(baseline), len(candidate))
    warnings = []
    if len(baseline) != len(candidate):
        warnings.append(
            f"{len(baseline)} launches against {len(candidate)}: only whole pairs count"
        )
    sides = [
        (before, after)
        for before, after in zip(baseline[:pairs], candidate[:pairs], strict=True)
        if positive(before) and positive(after)
    ]
    if len(sides) < pairs:
        warnings.append(left_out(pairs - len(sides), "pair"))
    final = pairs >= LOOKS[-1]
    if not sides:
        if pairs == 0:
            warnings.append("no pair was measured")
        nothing = estimate_of(
            None, (None, None), better, counts=(0, 0), method=METHOD, warnings=warnings
        )
        return Look("undecided", nothing, final)
    ratios = [log_ratio(before, after, better) for before, after in sides]
    mean = math.fsum(ratios) / len(ratios)
    confidence = confidence_at(pairs)
    low = high = None
    if len(ratios) >= NEEDED:
        error, warning = _standard_error(ratios, mean, sides, quantum)
        if warning:
            warnings.append(warning)
        reach = t_quantile(confidence, len(ratios) - 1) * error
        low, high = mean - reach, mean + reach
    else:
        warnings.append(too_few(len(ratios), "pair"))
    decision = decide(low, high, limit(tolerance_percent, better))
    if pairs not in LOOKS and not final:
        if pairs >= NEEDED:
            places = " and ".join(str(n) for n in LOOKS)
            warnings.append(f"{pairs} pairs: verdicts are given at {places} only")
        decision = "undecided"
    if decision == "within" and len(sides) < max(len(baseline), len(candidate)):
        decision = "undecided"
    counts = (len(sides), len(sides))
    estimate = estimate_of(
        mean,
        (low, high),
        better,
        counts=counts,
        method=METHOD,
        warnings=warnings,
        confidence=confidence,
    )
    return Look(decision, estimate, final)


def confidence_at(pairs: int) -> float:
    """The confidence of the interval after so many pairs; between the looks that of the next."""
    for count, confidence in zip(LOOKS, CONFIDENCES, strict=True):
        if pairs <= count:
            return confidence
    return CONFIDENCE


def log_ratios(
    baseline: Sequence[float], candidate: Sequence[float], better: Better = "lower"
) -> list[float]:
    """The log ratios of the whole pairs whose values are finite and above 0."""
    return [
        log_ratio(before, after, better)
        for before, after in zip(baseline, candidate, strict=False)
        if positive(before) and positive(after)
    ]


def _standard_error(
    ratios: Sequence[float],
    mean: float,
    sides: Sequence[tuple[float, float]],
    quantum: float,
) -> tuple[float, str]:
    """The standard error of the mean log ratio, floored at a quantum, with a warning if it was."""
    count = len(ratios)
    spread = math.sqrt(math.fsum((r - mean) ** 2 for r in ratios) / (count - 1))
    error = spread / math.sqrt(count)
    values = [value for pair in sides for value in pair]
    step, warning = floor_step(quantum, values, "pair", spread=spread)
    smaller = min(median([before for before, _ in sides]), median([after for _, after in sides]))
    return max(error, step / smaller), warning
