"""Launches of two sides that were not paired: the ratio of geometric means, by Welch; pure.

For a run against a stored baseline, whose launches were made at another time. Welch, "The
generalization of 'Student's' problem when several different population variances are involved",
Biometrika 34(1-2), 1947; degrees of freedom by Satterthwaite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchsuite.metrics.metric import Better
from benchsuite.stats.numbers import (
    NEEDED,
    TINY_SPREAD,
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

METHOD = "log ratio of launches that are not paired, Welch's t"


def compare_unpaired(
    baseline: Sequence[float],
    candidate: Sequence[float],
    *,
    tolerance_percent: float,
    better: Better,
    quantum: float = 0.0,
) -> Look:
    """Judge the launches of a run against those of a baseline, once.

    Args:
        baseline: One value a launch, in any order and of any count.
        candidate: Likewise.
        tolerance_percent: How much worse is accepted.
        better: The metric's direction.
        quantum: As of `benchsuite.stats.paired.look`.

    Returns:
        `undecided` with fewer than 5 usable values on a side. Values that are missing, not finite
        or not above 0 are left out with a warning, and with one of them nothing is `within`.
    """
    before = [v for v in baseline if positive(v)]
    after = [v for v in candidate if positive(v)]
    lost = len(baseline) - len(before) + len(candidate) - len(after)
    warnings = [left_out(lost, "value")] if lost else []
    warnings += [f"the {side} has no value" for side, v in _sides(before, after) if not v]
    value = low = high = None
    decision = decide(None, None, 0)
    if before and after:
        # ratios to one reference, so that a metric's direction is turned once
        left = [log_ratio(before[0], v, better) for v in before]
        right = [log_ratio(before[0], v, better) for v in after]
        value = _mean(right) - _mean(left)
        fewest = min(len(before), len(after))
        if fewest < NEEDED:
            warnings.append(too_few(fewest, "launch"))
        else:
            spread = math.sqrt(max(_variance(left), _variance(right)))
            step, warning = floor_step(quantum, [*before, *after], "launch", spread=spread)
            warnings += [warning] if warning else []
            error, degrees = _welch(left, right)
            error = max(error, step / min(median(before), median(after)))
            reach = t_quantile(CONFIDENCE, degrees) * error
            low, high = value - reach, value + reach
            decision = decide(low, high, limit(tolerance_percent, better))
    if decision == "within" and lost:
        decision = "undecided"
    return Look(
        decision,
        estimate_of(
            value,
            (low, high),
            better,
            counts=(len(before), len(after)),
            method=METHOD,
            warnings=warnings,
        ),
        final=True,
    )


def _sides(
    before: Sequence[float], after: Sequence[float]
) -> tuple[tuple[str, Sequence[float]], ...]:
    return (("baseline", before), ("candidate", after))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)


def _welch(left: Sequence[float], right: Sequence[float]) -> tuple[float, float]:
    """The standard error of the difference of means, and its degrees of freedom."""
    parts = [(_variance(side) / len(side), len(side) - 1) for side in (left, right)]
    total = parts[0][0] + parts[1][0]
    if total <= TINY_SPREAD**2:
        return 0.0, float(min(degrees for _, degrees in parts))
    degrees = total**2 / math.fsum(part**2 / degrees for part, degrees in parts)
    return math.sqrt(total), degrees
