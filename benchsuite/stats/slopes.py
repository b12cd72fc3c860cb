"""A robust slope with its interval, for growth that repeats with every request; pure.

Theil and Sen: the median of the slopes of all pairs of points, with Sen's interval by ranks (Sen,
"Estimates of the regression coefficient based on Kendall's tau", J. American Statistical
Association 63(324), 1968). Up to 29% of the points may lie anywhere without moving it far, so that
a cache which is filled and then stays so is no growth. Points at one x are first replaced by their
median: Sen's variance (2.6) allows for equal y or equal x, and both at once leave it below 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchsuite.stats.numbers import NEEDED, finite, median

METHOD = "Theil-Sen slope, Sen's interval"
_CONFIDENCE = 0.95


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
    """Slope and interval of at least two points with different x."""
    import numpy as np  # with scipy.stats it takes a second
    from scipy.stats import theilslopes

    with np.errstate(all="ignore"):  # the caller looks whether the results are finite
        found = theilslopes([b for _, b in points], [a for a, _ in points], _CONFIDENCE)
    return float(found.slope), float(found.low_slope), float(found.high_slope)
