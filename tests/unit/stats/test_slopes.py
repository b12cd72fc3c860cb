"""Slopes: Sen's own example, leaks, caches that fill, and values of every sort."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.stats.slopes import slope


def test_the_slope_is_sens() -> None:
    """Sen 1968, section 6: slope 4; the 95% interval is that of the sorted 21 pairwise slopes."""
    found = slope([1, 2, 3, 4, 10, 12, 18], [9, 15, 19, 20, 45, 55, 78])
    assert found.value == 4
    assert found.n == 7
    assert found.low is not None
    assert found.high is not None
    # wider than Sen's interval of 93% confidence, which is 26/7 to 35/8
    assert found.low <= 26 / 7 < 35 / 8 <= found.high


def test_a_leak_is_found_beside_a_cache_that_fills() -> None:
    """1 MiB a request shows with its interval; growth over the first requests only does not."""
    requests = list(range(64))
    jitter = [0.2 * math.sin(7 * i) for i in requests]
    leak = slope(requests, [50 + i + j for i, j in zip(requests, jitter, strict=True)])
    assert leak.value == pytest.approx(1, abs=0.01)
    assert leak.low is not None
    assert leak.low > 0.9
    cache = slope(
        requests, [50 + 5 * min(i, 12) + j for i, j in zip(requests, jitter, strict=True)]
    )
    assert cache.value is not None
    assert cache.high is not None
    assert cache.high < 0.1


def test_what_has_no_slope_says_so() -> None:
    """No points, one place, too few for an interval, unusable ones."""
    assert slope([], []).value is None
    assert slope([3, 3, 3], [1, 2, 3]).warnings == ("a slope needs points at two places",)
    few = slope([1, 2, 3], [1, 2, 3])
    assert (few.value, few.low) == (1, None)
    assert few.warnings == ("3 points: an interval needs 5",)
    odd = slope([1, 2, 3, 4, 5, 6], [1, 2, 3, math.nan, 5])
    assert odd.warnings[:2] == (
        "6 points against 5: the rest is left out",
        "1 point left out: missing or not finite",
    )


@given(st.lists(st.tuples(st.floats(), st.floats()), max_size=12))
def test_any_points_come_to_a_slope(points: list[tuple[float, float]]) -> None:
    """Never an exception; an interval lies around its value."""
    found = slope([a for a, _ in points], [b for _, b in points])
    if found.low is not None:
        assert found.value is not None
        assert found.high is not None
        assert found.low <= found.value <= found.high


@given(
    st.lists(st.floats(-1000, 1000), min_size=5, max_size=30, unique=True),
    st.floats(-100, 100),
    st.floats(-100, 100),
)
def test_points_on_a_line_have_its_slope(x: list[float], a: float, b: float) -> None:
    """Exactly, whatever the order."""
    spaced = [round(v, 2) for v in x]
    if len(set(spaced)) < 2:
        return
    found = slope(spaced, [a * v + b for v in spaced])
    assert found.value == pytest.approx(a, abs=1e-6)
