"""Differences of medians: published intervals, directions, and values of every sort."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.stats.medians import difference_of_medians, median_interval, standard_error

# Both examples and their results are those of `ci.median2` in R's statpsych 1.6.0 and 2.0.0
# (Bonett and Price 2002).
_SHORT = (
    (32, 39, 26, 35, 43, 27, 40, 37, 34, 29),
    (36, 44, 47, 42, 49, 39, 46, 31, 33, 48),
)
_LONG_SECOND = "102 120 78 78 417 124 86 171 176 129 230 194 100 157 306 411 164 103 193 312"
_LONG = (
    (70, 394, 43, 95, 62, 128, 2, 203, 81, 436, 85, 35, 156, 1, 3, 27, 63, 181, 184, 18),
    tuple(map(float, _LONG_SECOND.split())),
)
_PUBLISHED = [
    (*_SHORT, (-8.5, -16.95977, -0.04022524)),
    (*_LONG, (-85, -157.7441, -12.25589)),
]


@pytest.mark.parametrize(("first", "second", "expected"), _PUBLISHED)
def test_the_interval_is_bonett_and_prices(
    first: tuple[float, ...], second: tuple[float, ...], expected: tuple[float, float, float]
) -> None:
    """Median of the first less that of the second, with a 95% interval."""
    found = difference_of_medians(second, first, better="lower", unit="MiB")
    assert (found.value, found.low, found.high) == pytest.approx(expected, rel=1e-5)
    assert (found.baseline_n, found.candidate_n, found.unit) == (len(second), len(first), "MiB")


def test_higher_is_better_turns_the_sign() -> None:
    """Above 0 is worse whatever the direction."""
    assert difference_of_medians([10.0], [12.0], better="lower").value == 2
    assert difference_of_medians([10.0], [12.0], better="higher").value == -2


def test_the_interval_needs_five_a_side() -> None:
    """With fewer there is the difference and a warning; the smaller side counts."""
    found = difference_of_medians([1.0, 2, 3], [2.0] * 9, better="lower")
    assert (found.value, found.low, found.high) == (0, None, None)
    assert found.warnings == ("3 launches: an interval needs 5",)
    one = difference_of_medians([1.0], [2.0], better="lower")
    assert one.warnings == ("1 launch: an interval needs 5",)


def test_equal_values_are_no_surer_than_the_step_they_are_counted_in() -> None:
    """The interval has a width, a given quantum's or that of the print, and it is said."""
    for quantum in (0.0, 0.5):
        found = difference_of_medians([5.0] * 5, [5.25] * 5, better="lower", quantum=quantum)
        assert found.value == 0.25
        assert found.low is not None
        assert found.high is not None
        assert found.high - found.low >= 2 * (quantum or 0.01)
        assert any("no spread between launches of the candidate" in w for w in found.warnings)
    half = difference_of_medians([5.0] * 5, [5.0, 6, 7, 8, 9], better="lower", quantum=2.0)
    assert half.low is not None
    assert half.high is not None
    assert half.high - half.low >= 2 * 1.96 * 2.0
    assert [w for w in half.warnings if "no spread" in w] == [
        "no spread between launches of the baseline: the error is taken as one step of 2"
    ]


def test_what_cannot_be_used_is_left_out_by_name() -> None:
    """Missing and infinite values are no zeros; a side without any gives no value."""
    found = difference_of_medians([1.0, math.nan], [3.0, math.inf], better="lower")
    assert found.value == 2
    assert "1 baseline value left out: missing or not finite" in found.warnings
    assert "1 candidate value left out: missing or not finite" in found.warnings
    empty = difference_of_medians([], [3.0], better="lower")
    assert empty.value is None
    assert empty.warnings == ("the baseline has no value",)


@given(st.lists(st.floats(), max_size=12), st.lists(st.floats(), max_size=12))
def test_any_values_come_to_an_estimate(before: list[float], after: list[float]) -> None:
    """Never an exception; an interval lies around its value."""
    found = difference_of_medians(before, after, better="lower")
    if found.low is not None:
        assert found.value is not None
        assert found.high is not None
        assert found.low <= found.value <= found.high


@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=40), st.floats(-1e6, 1e6))
def test_a_shift_leaves_the_error(values: list[float], shift: float) -> None:
    """The standard error is about the spread alone."""
    moved = standard_error([v + shift for v in values])
    assert moved == pytest.approx(standard_error(values), rel=1e-6, abs=1e-3)


def test_one_sides_median_has_its_own_interval() -> None:
    """The first example's median of 34.5 with its standard error."""
    found = median_interval(_SHORT[0], unit="ms")
    assert (found.value, found.baseline_n, found.candidate_n) == (34.5, 0, 10)
    assert found.low is not None
    assert found.high is not None
    reach = 1.959964 * standard_error(_SHORT[0])
    assert (found.low, found.high) == pytest.approx((34.5 - reach, 34.5 + reach))
    few = median_interval([1.0, math.inf])
    assert few.value == 1
    assert few.warnings == (
        "1 value left out: missing or not finite",
        "1 launch: an interval needs 5",
    )
    assert median_interval([]).value is None
