"""The difference of two medians with a distribution-free interval; pure.

Each median's standard error comes from two of its order statistics (Price and Bonett, "Estimating
the variance of the sample median", J. Statistical Computation and Simulation 68(3), 2001), the
interval of their difference from both (Bonett and Price, "Statistical inference for a linear
function of medians", Psychological Methods 7(3), 2002).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchsuite.metrics.metric import Better
from benchsuite.model.verdict import Estimate
from benchsuite.stats.numbers import NEEDED, finite, floor_step, median, too_few

METHOD = "difference of medians, Price and Bonett"
MEDIAN_METHOD = "median, Price and Bonett"
_CONFIDENCE = 0.95


def difference_of_medians(
    baseline: Sequence[float],
    candidate: Sequence[float],
    *,
    better: Better,
    unit: str = "",
    quantum: float = 0.0,
) -> Estimate:
    """How much worse the candidate's median is, in the metric's unit.

    Args:
        baseline: One value a launch, in any order and of any count.
        candidate: Likewise.
        better: The metric's direction; `equal` counts as worse where it is more.
        unit: The metric's, for printing.
        quantum: The step in which values are counted, in the metric's unit: the error of a median
            is never taken as smaller. Of a side without spread, where it is 0 the step in which
            the values are written stands in.

    Returns:
        Above 0 is worse. The interval is None with fewer than 5 values on a side. Values that are
        missing or not finite are left out with a warning; where a side has none left, the value
        is None.
    """
    before = [v for v in baseline if finite(v)]
    after = [v for v in candidate if finite(v)]
    warnings = []
    for side, given, kept in (
        ("baseline", baseline, before),
        ("candidate", candidate, after),
    ):
        if len(kept) < len(given):
            count = len(given) - len(kept)
            many = "" if count == 1 else "s"
            warnings.append(f"{count} {side} value{many} left out: missing or not finite")
        if not kept:
            warnings.append(f"the {side} has no value")
    value = low = high = None
    if before and after:
        sign = -1 if better == "higher" else 1
        value = sign * (median(after) - median(before))
        fewest = min(len(before), len(after))
        if fewest >= NEEDED:
            errors = []
            for side, values in (("baseline", before), ("candidate", after)):
                step, _ = floor_step(quantum, values, "launch", spread=max(values) - min(values))
                errors.append(max(standard_error(values), step))
                if max(values) == min(values):
                    words = f"no spread between launches of the {side}"
                    warnings.append(f"{words}: the error is taken as one step of {step:.3g}")
            reach = _normal_quantile() * math.hypot(*errors)
            low, high = value - reach, value + reach
        else:
            warnings.append(too_few(fewest, "launch"))
    return Estimate(
        value, unit, len(before), len(after), low, high, _CONFIDENCE, METHOD, tuple(warnings)
    )


def standard_error(values: Sequence[float]) -> float:
    """The standard error of the median of at least 2 finite values, by Price and Bonett."""
    from scipy.special import ndtri  # numpy and scipy take half a second

    ordered, count = sorted(values), len(values)
    rank = max(1, round((count + 1) / 2 - math.sqrt(count)))  # from 1
    tail = math.fsum(math.comb(count, i) * 0.5**count for i in range(rank))
    width = ordered[count - rank] - ordered[rank - 1]
    return width / (-2 * float(ndtri(tail)))


def median_interval(values: Sequence[float], *, unit: str = "") -> Estimate:
    """The median of one side with its interval, in `unit`; as `difference_of_medians` otherwise.

    `baseline_n` is 0, and the value is the median itself.
    """
    kept = [v for v in values if finite(v)]
    warnings = []
    if len(kept) < len(values):
        count = len(values) - len(kept)
        many = "" if count == 1 else "s"
        warnings.append(f"{count} value{many} left out: missing or not finite")
    value = median(kept) if kept else None
    low = high = None
    if value is not None and len(kept) >= NEEDED:
        reach = _normal_quantile() * standard_error(kept)
        low, high = value - reach, value + reach
    else:
        warnings.append(too_few(len(kept), "launch"))
    return Estimate(
        value, unit, 0, len(kept), low, high, _CONFIDENCE, MEDIAN_METHOD, tuple(warnings)
    )


def _normal_quantile() -> float:
    from scipy.special import ndtri

    return float(ndtri(0.5 + _CONFIDENCE / 2))
