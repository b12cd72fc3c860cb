"""Outliers: flagged by index, published example, and values of every sort."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.stats.outliers import outliers


def test_the_published_example() -> None:
    """The data of Iglewicz and Hoaglin's modified z-scores: the last two stand apart."""
    values = [2.1, 2.6, 2.4, 2.5, 2.3, 2.1, 2.3, 2.6, 8.2, 8.3]
    assert outliers(values) == (8, 9)


def test_one_slow_launch_is_flagged() -> None:
    """Also where all others are equal, and where others are odd."""
    assert outliers([10, 11, 10.5, 30, 10.2]) == (3,)
    assert outliers([10, 10, 10, 10, 10, 10, 50]) == (6,)
    assert outliers([10, math.nan, 11, 10.5, math.inf, 30, 10.2]) == (5,)


@pytest.mark.parametrize("values", [[], [1.0], [1, 1, 1, 1, 1], [1, 2, 900, 3], [1, 2, 3, 4, 5]])
def test_nothing_stands_apart(values: list[float]) -> None:
    """Few values, equal ones and evenly spread ones."""
    assert outliers(values) == ()


@given(st.lists(st.floats(), max_size=15))
def test_outliers_are_the_fewer(values: list[float]) -> None:
    """Never an exception, never half of the values or more."""
    found = outliers(values)
    assert len(found) * 2 < max(1, len(values)) or found == ()
    assert all(0 <= i < len(values) for i in found)
