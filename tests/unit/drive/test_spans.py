"""Spans keep ranks in bounded memory."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.drive.spans import RELATIVE_ERROR, Spans

NANOSECONDS = st.lists(st.integers(0, 10**13), min_size=1, max_size=60)


def spans(values: list[int], exact: int) -> Spans:
    """With so many values kept at most."""
    found = Spans(exact=exact)
    for value in values:
        found.add(value)
    return found


@given(NANOSECONDS)
def test_few_are_exact(values: list[int]) -> None:
    """Every rank, and the median between the middle two."""
    found, ordered = spans(values, 60), sorted(values)
    assert [found.at_rank(i + 1) for i in range(len(values))] == ordered
    middle = (ordered[(len(values) - 1) // 2] + ordered[len(values) // 2]) / 2
    assert found.median == middle
    assert found.is_exact
    assert found.method == "exact"


@given(NANOSECONDS)
def test_many_are_within_the_stated_error(values: list[int]) -> None:
    """Of every rank; the smallest and the largest are exact."""
    found, ordered = spans([*values, 0], 0), sorted([0, *values])
    assert not found.is_exact
    for rank, true in enumerate(ordered, 1):
        assert abs(found.at_rank(rank) - true) <= true * RELATIVE_ERROR
    assert (found.at_rank(1), found.at_rank(len(ordered))) == (ordered[0], ordered[-1])


def test_memory_is_bounded() -> None:
    """A hundred thousand values over four powers of ten take less than 200 KB."""
    found = Spans()
    for i in range(100_000):
        found.add(1000 + i * i)
    assert len(found) == 100_000
    assert sys.getsizeof(found._classes) < 200_000
    assert found._values is None


def test_a_rank_that_is_not_there_is_no_value() -> None:
    """Nor is a median of nothing."""
    assert Spans().median is None
    for rank in (0, 2):
        with pytest.raises(IndexError):
            spans([5], 1).at_rank(rank)
