"""Launches against a stored baseline: Welch's published interval, and values of every sort."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.metrics.metric import Better
from benchsuite.stats.unpaired import compare_unpaired
from tests.unit.stats.published import SLEEP_1, SLEEP_2


def test_the_interval_is_welchs() -> None:
    """Of values made to be logarithms.

    As R's `t.test(extra ~ group, data = sleep)` prints it: difference -1.58, 95% from -3.3654832 to
    0.2054832 (17.776 degrees of freedom).
    """
    found = compare_unpaired(SLEEP_2, SLEEP_1, tolerance_percent=10, better="lower")
    estimate = found.estimate
    assert estimate.value is not None
    assert estimate.low is not None
    assert estimate.high is not None
    logs = [math.log1p(v / 100) for v in (estimate.value, estimate.low, estimate.high)]
    assert logs == pytest.approx([-1.58, -3.3654832, 0.2054832], abs=1e-6)
    assert found.decision == "undecided"
    assert found.final


def test_counts_may_differ_and_need_five_a_side() -> None:
    """The order does not matter; four on one side give no interval."""
    base = [100.0, 101, 99, 100.5, 99.5, 100, 101]
    slow = [121.0, 120, 119, 122, 118]
    found = compare_unpaired(base, slow, tolerance_percent=10, better="lower")
    assert found.decision == "worse"
    assert (found.estimate.baseline_n, found.estimate.candidate_n) == (7, 5)
    shuffled = compare_unpaired(base[::-1], slow[::-1], tolerance_percent=10, better="lower")
    assert shuffled.estimate.value == pytest.approx(found.estimate.value)
    few = compare_unpaired(base, slow[:4], tolerance_percent=10, better="lower")
    assert few.decision == "undecided"
    assert few.estimate.warnings == ("4 launches: an interval needs 5",)


def test_one_steady_side_is_no_certainty() -> None:
    """Equal values on both sides are judged by one step of theirs, and it is said."""
    equal = compare_unpaired([10.0] * 5, [12.0] * 5, tolerance_percent=10, better="lower")
    assert equal.decision == "undecided"
    assert "no spread between launches: the error is taken as one step of 1" in (
        equal.estimate.warnings
    )
    coarse = compare_unpaired(
        [100.0, 101, 99, 100, 100],
        [121.0, 120, 119, 120, 120],
        tolerance_percent=10,
        better="lower",
        quantum=15,
    )
    assert coarse.decision == "undecided"


def test_what_cannot_be_used_is_no_pass() -> None:
    """A zero among good values leaves nothing within."""
    base = [100.0, 101, 99, 100, 100]
    found = compare_unpaired(base, [*base, 0.0], tolerance_percent=10, better="lower")
    assert found.decision == "undecided"
    assert "1 value left out: a value is missing, not finite or not above 0" in (
        found.estimate.warnings
    )
    nothing = compare_unpaired([], base, tolerance_percent=10, better="lower")
    assert nothing.estimate.value is None
    assert nothing.estimate.warnings == ("the baseline has no value",)


@given(
    st.lists(st.floats(), max_size=9),
    st.lists(st.floats(), max_size=9),
    st.sampled_from(["lower", "higher", "equal"]),
    st.sampled_from([0.0, 10.0, 100.0]),
)
def test_any_values_come_to_an_outcome(
    baseline: list[float], candidate: list[float], better: Better, tolerance: float
) -> None:
    """Never an exception, always finite, an interval around its value."""
    found = compare_unpaired(baseline, candidate, tolerance_percent=tolerance, better=better)
    estimate = found.estimate
    if estimate.low is not None:
        assert estimate.value is not None
        assert estimate.high is not None
        assert -math.inf < estimate.low <= estimate.value <= estimate.high < math.inf
    else:
        assert found.decision == "undecided"


@given(st.lists(st.floats(0.01, 1e6), min_size=1, max_size=9))
def test_values_against_themselves_are_never_worse(values: list[float]) -> None:
    """At no tolerance at all."""
    found = compare_unpaired(values, values, tolerance_percent=0, better="lower")
    assert found.decision != "worse"


@pytest.mark.parametrize("tiny", [5e-324, 1e-323])
def test_the_smallest_numbers_are_numbers(tiny: float) -> None:
    """Half of the smallest one is 0, by which nothing may be divided."""
    found = compare_unpaired([tiny] * 6, [tiny] * 6, tolerance_percent=10, better="lower")
    assert found.decision == "undecided"
