"""What n pairs can find: published sample sizes, and what cannot be told."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.stats.power import smallest_found


def _ratios(spread: float) -> list[float]:
    """Two log ratios with a given standard deviation."""
    return [-spread / math.sqrt(2), spread / math.sqrt(2)]


def test_it_is_the_power_of_the_t_test() -> None:
    """R's `power.t.test(delta = 0.5, power = 0.8, type = "one.sample")` needs 33.37 pairs."""
    spread = 0.02
    at_33, at_34 = (math.log1p(smallest_found(_ratios(spread), n) / 100) for n in (33, 34))
    assert at_33 > 0.5 * spread > at_34
    assert at_33 == pytest.approx(0.5 * spread, rel=0.01)


def test_the_tolerance_comes_on_top() -> None:
    """A gate of 10% finds what lies that much further."""
    bare = smallest_found(_ratios(0.03), 10)
    gated = smallest_found(_ratios(0.03), 10, tolerance_percent=10)
    assert 1 + gated / 100 == pytest.approx(1.1 * (1 + bare / 100))


def test_what_cannot_be_told_is_infinite() -> None:
    """One ratio, equal ones, one pair: never 0."""
    assert smallest_found([0.1], 10) == math.inf
    assert smallest_found([], 10) == math.inf
    assert smallest_found([0.1, 0.1, 0.1], 10) == math.inf
    assert smallest_found([0.1, 0.2], 1) == math.inf
    assert smallest_found([0.1, math.nan], 10) == math.inf


@given(st.floats(0.001, 0.5), st.integers(2, 40))
def test_more_pairs_find_less(spread: float, pairs: int) -> None:
    """And more noise hides more."""
    found = smallest_found(_ratios(spread), pairs)
    assert found > smallest_found(_ratios(spread), pairs + 1) > 0
    assert smallest_found(_ratios(2 * spread), pairs) > found
