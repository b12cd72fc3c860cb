"""Ranks of percentiles and of their intervals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchsuite.metrics.percentiles import Ranks, needed, ranks_of


@pytest.mark.parametrize("quantile", [0.05, 0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("count", [1, 5, 6, 20, 36, 71, 72, 100, 367, 368, 1000, 20_000])
def test_intervals_are_scipys(quantile: float, count: int) -> None:
    """`scipy.stats.quantile_test` gives Conover's, of the values 1 to n, not a number for none."""
    ours = ranks_of(quantile, count)
    values = np.arange(1, count + 1, dtype=float)
    tested: Any = stats.quantile_test(values, q=0.5, p=quantile)
    theirs = tested.confidence_interval(0.95)
    expected = [None if math.isnan(end) else int(end) for end in (theirs.low, theirs.high)]
    assert [ours.low, ours.high] == expected


@pytest.mark.parametrize(
    ("quantile", "count", "low", "high"),
    [
        (0.5, 6, 1, 6),  # tables of the sign test: n = 6 is the first with an interval
        (0.5, 10, 2, 9),
        (0.5, 20, 6, 15),
        (0.5, 25, 8, 18),
    ],
)
def test_intervals_of_the_median_are_those_of_the_published_tables(
    quantile: float, count: int, low: int, high: int
) -> None:
    """Conover, table A3 and section 3.2; the same in Hollander and Wolfe."""
    found = ranks_of(quantile, count)
    assert (found.low, found.high) == (low, high)


def test_the_value_is_a_value_that_was_seen() -> None:
    """Rank ceil(q n): type 1 of Hyndman and Fan, numpy's `inverted_cdf`."""
    for count in (1, 2, 19, 20, 21, 100, 1001):
        values = np.arange(1, count + 1)
        for quantile in (0.5, 0.9, 0.95, 0.99):
            expected = np.quantile(values, quantile, method="inverted_cdf")
            assert ranks_of(quantile, count).value == expected


@pytest.mark.parametrize(("quantile", "count"), [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368)])
def test_so_many_are_needed_and_one_less_is_too_few(quantile: float, count: int) -> None:
    """No upper end with fewer, by both functions."""
    assert needed(quantile) == count
    assert ranks_of(quantile, count).high == count
    assert ranks_of(quantile, count - 1).high is None


def test_a_p99_of_twenty_has_no_upper_end() -> None:
    """Its value is the largest that was seen, which says nothing of how high it may be."""
    assert ranks_of(0.99, 20) == Ranks(20, 19, None)


@given(st.floats(0.01, 0.99), st.integers(1, 3000))
def test_the_value_lies_in_its_interval(quantile: float, count: int) -> None:
    """And the ends are mirrored in the opposite quantile."""
    found, mirrored = ranks_of(quantile, count), ranks_of(1 - quantile, count)
    assert 1 <= (found.low or 1) <= found.value <= (found.high or count) <= count
    if found.low is not None and mirrored.high is not None:
        assert found.low + mirrored.high == pytest.approx(count + 1, abs=1)


@pytest.mark.parametrize(("quantile", "count"), [(0.0, 5), (1.0, 5), (0.5, 0)])
def test_what_has_no_quantile_is_refused(quantile: float, count: int) -> None:
    """Instead of a rank that means nothing."""
    with pytest.raises(ValueError, match="quantile"):
        ranks_of(quantile, count)


def test_intervals_cover() -> None:
    """At least 95% of samples, of a skewed distribution too: the seed makes it exact."""
    random = np.random.default_rng(7)
    ranks = ranks_of(0.9, 100)
    assert ranks.low is not None
    assert ranks.high is not None
    samples = np.sort(random.lognormal(0, 1.5, size=(4000, 100)), axis=1)
    true = math.exp(1.5 * stats.norm.ppf(0.9))
    held = (samples[:, ranks.low - 1] <= true) & (true <= samples[:, ranks.high - 1])
    assert 0.945 < held.mean() < 0.985
