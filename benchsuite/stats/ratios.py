"""Log ratios against a tolerance in percent, whichever direction of a metric is worse; pure.

A log ratio here is above 0 where the candidate is worse: ln(candidate / baseline) for a metric of
which lower is better, ln(baseline / candidate) for one of which higher is better. A tolerance of
10% means 10% more of the former and 10% less of the latter, so its limit is ln 1.1 or -ln 0.9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from benchsuite.metrics.metric import Better
from benchsuite.model.verdict import Estimate

CONFIDENCE = 0.95
"""Of the interval of a log ratio that is looked at once."""

Decision = Literal["worse", "within", "undecided"]

_LARGEST = 700.0  # log ratio beyond which the percentage is no longer a finite number


class Look(msgspec.Struct, frozen=True):
    """What a comparison of log ratios with a tolerance says at one point."""

    decision: Decision  # worse: wholly beyond the tolerance; within: wholly inside it
    estimate: Estimate  # in percent of the baseline; above 0 is worse
    final: bool  # whether no further look follows


def log_ratio(baseline: float, candidate: float, better: Better) -> float:
    """How much worse a candidate is; both values finite and above 0.

    A metric whose better direction is not declared (`equal`) counts as worse where it is more.
    """
    ratio = math.log(candidate) - math.log(baseline)
    return -ratio if better == "higher" else ratio


def percent_worse(ratio: float, better: Better) -> float:
    """A log ratio as percent of the baseline: 0.0953 is 10% more, or 9.1% less."""
    bounded = max(-_LARGEST, min(_LARGEST, ratio))
    if better == "higher":
        return -math.expm1(-bounded) * 100
    return math.expm1(bounded) * 100


def estimate_of(
    value: float | None,
    interval: tuple[float | None, float | None],
    better: Better,
    *,
    counts: tuple[int, int],
    method: str,
    warnings: Sequence[str],
    confidence: float = CONFIDENCE,
) -> Estimate:
    """A log ratio and its interval as percent of the baseline.

    Args:
        value: None where nothing could be compared.
        interval: Its ends; None where values are too few.
        better: The metric's direction.
        counts: Usable values of the baseline and of the candidate.
        method: In words.
        warnings: Sentences.
        confidence: Of the interval.
    """
    percents = [None if v is None else percent_worse(v, better) for v in (value, *interval)]
    return Estimate(
        percents[0], "%", *counts, percents[1], percents[2], confidence, method, tuple(warnings)
    )


def limit(tolerance_percent: float, better: Better) -> float:
    """The log ratio of a tolerance; infinite where a value cannot fall by that much."""
    part = max(0.0, tolerance_percent) / 100
    if better == "higher":
        return -math.log1p(-part) if part < 1 else math.inf
    return math.log1p(part)


def decide(low: float | None, high: float | None, bound: float) -> Decision:
    """Where an interval of a log ratio lies with respect to a tolerance's log ratio."""
    if low is None or high is None:
        return "undecided"
    if low > bound:
        return "worse"
    return "within" if high < bound else "undecided"


def t_quantile(confidence: float, degrees: float) -> float:
    """The two-sided quantile of Student's t: 2.776 for 95% and 4 degrees of freedom."""
    from scipy.special import (
        stdtrit,
    )  # numpy and scipy take half a second, only noisy gates need it

    return float(stdtrit(degrees, 0.5 + confidence / 2))
