"""A robust slope with its interval, for growth that repeats with every request; pure.

Theil and Sen: the median of the slopes of all pairs of points, with Sen's interval by ranks (Sen,
"Estimates of the regression coefficient based on Kendall's tau", J. American Statistical
Association 63(324), 1968). Up to 29% of the points may lie anywhere without moving it far, so that
a cache which is filled and then stays so is no growth. Points at one x are first replaced by their
median: Sen's variance (2.6) allows for equal y or equal x, and both at once leave it below 0.

Sen takes points as independent; memory of one moment is much like that of the moment before. So the
variance is multiplied by how much neighbouring points repeat each other (`repetition`). On series
without growth whose neighbours correlate by 0 to 0.9, fewer than 5% have an interval above 0
(`tests/unit/stats/test_slopes.py`); for the independent points of Sen it was 2.5%, and with 0.9 it
would be a third. A random walk is growth to this as to any such rule: only a limit, never 0, tells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from benchsuite.stats.numbers import NEEDED, finite, median
from benchsuite.stats.outliers import outliers
from benchsuite.stats.ratios import t_quantile

METHOD = "Theil-Sen slope, Sen's interval"
_CONFIDENCE = 0.95
_MOST_SHARED = 0.98  # correlation of neighbours beyond which points tell nothing more


class Slope(msgspec.Struct, frozen=True):
    """Growth of y for each unit of x."""

    value: float | None  # None where no slope can be told
    n: int  # different x among the points
    low: float | None = None  # ends of the 95% interval; None where points are too few
    high: float | None = None
    warnings: tuple[str, ...] = ()


def slope(x: Sequence[float], y: Sequence[float]) -> Slope:
    """The slope of y over x.

    Args:
        x: Such as finished requests; equal values are allowed, but not all may be equal.
        y: One value for each x; what one has more of than the other is left out with a warning.
    """
    points = [(a, b) for a, b in zip(x, y, strict=False) if finite(a) and finite(b)]
    warnings = []
    if len(x) != len(y):
        warnings.append(f"{len(x)} points against {len(y)}: the rest is left out")
    lost = min(len(x), len(y)) - len(points)
    if lost:
        many = "" if lost == 1 else "s"
        warnings.append(f"{lost} point{many} left out: missing or not finite")
    places: dict[float, list[float]] = {}
    for a, b in points:
        places.setdefault(a, []).append(b)
    if len(places) < 2:
        warnings.append("a slope needs points at two places")
        return Slope(None, len(places), warnings=tuple(warnings))
    value, low, high = _theil_sen(sorted((a, median(b)) for a, b in places.items()))
    if not math.isfinite(value):
        warnings.append("the points are too far apart for a slope")
        return Slope(None, len(places), warnings=tuple(warnings))
    if len(places) < NEEDED or not (math.isfinite(low) and math.isfinite(high)):
        warnings.append(f"{len(places)} points: an interval needs {NEEDED}")
        return Slope(value, len(places), warnings=tuple(warnings))
    return Slope(value, len(places), low, high, tuple(warnings))


def _theil_sen(points: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Slope and interval of at least two points with different x, in ascending order of x."""
    import numpy as np  # 0.1 s that only slopes need

    x, y = (np.array(part, dtype=float) for part in zip(*points, strict=True))
    first, second = np.triu_indices(len(x), 1)
    with np.errstate(all="ignore"):  # the caller looks whether the results are finite
        slopes = np.sort(_rises(x, y, first, second))
        middle = float(np.median(slopes))
        residuals = y - middle * x
        apart = outliers([float(r) for r in residuals])
        if apart:  # what they did to the slope is no repetition among the others
            left = np.isin(first, apart) | np.isin(second, apart)
            residuals = y - float(np.median(_rises(x, y, first[~left], second[~left]))) * x
    if not math.isfinite(middle):
        return math.nan, math.nan, math.nan
    count, pairs = len(x), len(slopes)
    ties = np.unique(y, return_counts=True)[1]
    # Sen 1968, 2.6
    full = count * (count - 1) * (2 * count + 5)
    variance = (full - int(np.sum(ties * (ties - 1) * (2 * ties + 5)))) / 18
    repeated = repetition([float(r) for r in residuals])
    # few points that count leave their own repetition uncertain: Student's t in place of 1.96
    quantile = t_quantile(_CONFIDENCE, max(1.0, count / repeated - 2))
    reach = quantile * math.sqrt(max(variance, 0.0) * repeated)
    low = max(0, round((pairs - reach) / 2) - 1)
    high = min(pairs - 1, round((pairs + reach) / 2))
    return middle, float(slopes[low]), float(slopes[high])


def _rises(x: Any, y: Any, first: Any, second: Any) -> Any:
    """The slopes between points, given as numpy arrays of their places."""
    return (y[second] - y[first]) / (x[second] - x[first])


def repetition(residuals: Sequence[float]) -> float:
    """How many of a series' points tell as much as one that is independent of all others; from 1.

    (1 + r) / (1 - r) of the correlation r of neighbours (Bayley and Hammersley, "The effective
    number of independent observations in an autocorrelated time series", J. Royal Statistical
    Society Supplement 8(2), 1946), by which the variance of a test for trend grows (Hamed and Rao,
    "A modified Mann-Kendall trend test for autocorrelated data", J. Hydrology 204, 1998). What a
    fitted slope takes from r, (2 + 4 r) / n, is given back (van Giersbergen, "On the effect of
    deterministic terms on the bias in stable AR models", Economics Letters 89, 2005). Points that
    stand apart, such as those of a cache that was still filling, are no neighbours.

    Args:
        residuals: What the slope leaves of the points, in their order.
    """
    if len(residuals) <= 4 or not all(math.isfinite(r) for r in residuals):
        return 1.0
    largest = max(abs(r) for r in residuals) or 1.0
    residuals = [r / largest for r in residuals]  # squares of large ones would overflow
    apart = set(outliers(residuals))
    kept = [r for i, r in enumerate(residuals) if i not in apart]
    mean = math.fsum(kept) / len(kept)
    size = math.fsum((r - mean) ** 2 for r in kept) / len(kept)
    beside = [
        (a - mean) * (b - mean)
        for i, (a, b) in enumerate(pairwise(residuals))
        if i not in apart and i + 1 not in apart
    ]
    if not beside or size <= 0 or not math.isfinite(size):
        return 1.0
    shared = math.fsum(beside) / len(beside) / size
    count = len(kept)
    if count > 4:
        shared = (count * shared + 2) / (count - 4)
    shared = min(max(shared, 0.0), _MOST_SHARED)
    return (1 + shared) / (1 - shared)
