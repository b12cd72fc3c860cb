"""Pairs of launches: the interval against published values, the looks, and values of every sort."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.metrics.metric import Better
from benchsuite.stats.paired import LOOKS, log_ratios, look
from tests.unit.stats.published import SLEEP_1, SLEEP_2

_ANY = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -1.0, math.inf, -math.inf, math.nan, 1e-308, 1e308]),
)
_TIMES = st.floats(0.01, 1e6)


def test_the_interval_is_students() -> None:
    """Mean difference -1.58, 95% from -2.4598858 to -0.7001142, wider at 97%; as logarithms.

    As R's `t.test(extra ~ group, data = sleep, paired = TRUE)` prints it; Student's t, 9 degrees of
    freedom, is 2.262157 for it and 2.573804 for 97%.
    """
    found = look(SLEEP_2, SLEEP_1, tolerance_percent=10, better="lower")
    estimate = found.estimate
    assert estimate.value is not None
    assert estimate.low is not None
    assert estimate.high is not None
    logs = [math.log1p(v / 100) for v in (estimate.value, estimate.low, estimate.high)]
    reach = (2.4598858 - 1.58) * 2.573804 / 2.262157
    assert logs == pytest.approx([-1.58, -1.58 - reach, -1.58 + reach], abs=1e-6)
    assert estimate.confidence == 0.97
    assert (estimate.baseline_n, estimate.candidate_n, estimate.unit) == (10, 10, "%")
    assert found.decision == "within"


def test_a_clear_slow_down_is_worse_at_the_first_look() -> None:
    """20% slower with 2% noise needs five pairs; the direction turns the sign."""
    base = [100.0, 102.0, 98.0, 101.0, 99.0]
    slow = [v * f for v, f in zip(base, (1.19, 1.21, 1.2, 1.22, 1.18), strict=True)]
    found = look(base, slow, tolerance_percent=10, better="lower")
    assert (found.decision, found.final) == ("worse", False)
    assert found.estimate.value == pytest.approx(20, abs=0.1)
    rate = look(slow, base, tolerance_percent=10, better="higher")
    assert rate.decision == "worse"
    assert rate.estimate.value == pytest.approx(100 - 100 / 1.2, abs=0.1)
    assert look(base, slow, tolerance_percent=10, better="higher").decision == "within"


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_fewer_than_five_pairs_decide_nothing(count: int) -> None:
    """However far apart they are, and the warning says what an interval needs."""
    values = [10.0 + 0.1 * i for i in range(count)]
    found = look(values, [9 * v for v in values], tolerance_percent=10, better="lower")
    assert (found.decision, found.final) == ("undecided", False)
    assert found.estimate.low is None
    assert "an interval needs 5" in found.estimate.warnings[0]
    assert found.estimate.value == pytest.approx(800)


def test_each_look_has_its_confidence() -> None:
    """99% at five pairs, 97% at ten, 95% where more pairs are looked at once."""
    shown = {
        count: look(
            [100.0] * count, [110.0] * count, tolerance_percent=10, better="lower"
        ).estimate.confidence
        for count in (5, 8, 10, 11, 30)
    }
    assert shown == {5: 0.99, 8: 0.97, 10: 0.97, 11: 0.95, 30: 0.95}


@pytest.mark.parametrize("count", [6, 7, 8, 9])
def test_between_the_looks_nothing_is_decided(count: int) -> None:
    """The interval is given, the verdict waits for the next look."""
    values = [10.0 + 0.1 * i for i in range(count)]
    found = look(values, [3 * v for v in values], tolerance_percent=10, better="lower")
    assert (found.decision, found.final) == ("undecided", False)
    assert found.estimate.low is not None
    assert "verdicts are given at 5 and 10 only" in found.estimate.warnings[-1]


@pytest.mark.parametrize("count", [10, 11, 25])
def test_ten_pairs_and_more_are_final(count: int) -> None:
    """Whatever the decision."""
    values = [10.0 + 0.01 * i for i in range(count)]
    assert look(values, values, tolerance_percent=10, better="lower").final
    assert look(values, [5 * v for v in values], tolerance_percent=10, better="lower").final


def test_equal_pairs_are_judged_by_one_step_of_their_clock() -> None:
    """10 against 12, five times: no spread, but one step is 10%, so 20% is not certain."""
    found = look([10] * 5, [12] * 5, tolerance_percent=10, better="lower")
    assert found.decision == "undecided"
    assert "no spread between pairs: the error is taken as one step of 1" in found.estimate.warnings
    assert look([10.0] * 5, [10.0] * 5, tolerance_percent=10, better="lower").decision == (
        "undecided"
    )
    assert look([100.0] * 5, [100.0] * 5, tolerance_percent=10, better="lower").decision == "within"
    assert look([100.0] * 5, [150.0] * 5, tolerance_percent=10, better="lower").decision == "worse"


def test_the_error_is_never_below_the_quantum() -> None:
    """A clock of 15 ms tells nothing about 100 ms to within 10%."""
    base, slow = [100.0, 101, 100, 99, 100], [119.0, 120, 121, 120, 120]
    assert look(base, slow, tolerance_percent=10, better="lower").decision == "worse"
    coarse = look(base, slow, tolerance_percent=10, better="lower", quantum=15)
    assert coarse.decision == "undecided"


def test_a_pair_without_a_usable_value_is_no_pass() -> None:
    """Zero, below zero, infinite, missing: left out with a sentence, and nothing is within."""
    base = [100.0, 101, 99, 100, 102, 98, 100, 101, 99, 100]
    for odd in (0.0, -5.0, math.inf, math.nan, None):
        values: list[float] = [*base[:9], odd]  # type: ignore[list-item]  # what must not crash
        found = look(base, values, tolerance_percent=10, better="lower")
        assert (found.decision, found.final) == ("undecided", True)
        assert found.estimate.baseline_n == 9
        assert "1 pair left out: a value is missing, not finite or not above 0" in (
            found.estimate.warnings
        )


def test_unequal_counts_are_never_within() -> None:
    """The launch without its partner is named and left out; what it lacks may be what is worse."""
    base = [100.0, 101, 99, 100, 102, 98]
    found = look(base, base[:5], tolerance_percent=10, better="lower")
    assert found.decision == "undecided"
    assert "6 launches against 5: only whole pairs count" in found.estimate.warnings


def test_nothing_is_undecided() -> None:
    """No pair at all gives no value, and never 0."""
    found = look([], [], tolerance_percent=10, better="lower")
    assert (found.decision, found.estimate.value) == ("undecided", None)
    assert found.estimate.warnings == ("no pair was measured",)
    assert log_ratios([0.0, 1.0], [1.0, 1.0]) == [0.0]


@given(
    st.lists(_ANY, max_size=12),
    st.lists(_ANY, max_size=12),
    st.sampled_from([0.0, 5.0, 10.0, 100.0, 1000.0]),
    st.sampled_from(["lower", "higher", "equal"]),
    st.sampled_from([0.0, 0.001, 1.0]),
)
def test_any_values_come_to_an_outcome(
    baseline: list[float], candidate: list[float], tolerance: float, better: Better, quantum: float
) -> None:
    """Never an exception, never a number that is not finite, an interval around the value."""
    found = look(baseline, candidate, tolerance_percent=tolerance, better=better, quantum=quantum)
    estimate = found.estimate
    if estimate.value is not None:
        assert math.isfinite(estimate.value)
    if estimate.low is not None:
        assert estimate.value is not None
        assert estimate.high is not None
        assert estimate.low <= estimate.value <= estimate.high
        assert math.isfinite(estimate.high)
    pairs = min(len(baseline), len(candidate))
    if found.decision != "undecided":
        assert pairs in LOOKS or pairs > LOOKS[-1]
        assert estimate.low is not None


@given(st.lists(_TIMES, min_size=1, max_size=12), st.sampled_from(["lower", "higher", "equal"]))
def test_a_build_against_the_same_values_is_never_worse(
    values: list[float], better: Better
) -> None:
    """Identical values on both sides are no regression, whatever they are."""
    found = look(values, list(values), tolerance_percent=0, better=better)
    assert found.decision != "worse"
    assert found.estimate.value == 0


@given(
    st.lists(st.tuples(_TIMES, _TIMES), min_size=5, max_size=12),
    st.floats(0.001, 1000),
)
def test_the_unit_does_not_matter(pairs: list[tuple[float, float]], factor: float) -> None:
    """Milliseconds or seconds: the same percentages, while no quantum is in the way."""
    before, after = [a for a, _ in pairs], [b for _, b in pairs]
    one = look(before, after, tolerance_percent=10, better="lower", quantum=1e-9)
    other = look(
        [v * factor for v in before],
        [v * factor for v in after],
        tolerance_percent=10,
        better="lower",
        quantum=1e-9 * factor,
    )
    assert one.estimate.value is not None
    assert other.estimate.value == pytest.approx(one.estimate.value, rel=1e-6, abs=1e-6)


@given(st.lists(st.tuples(_TIMES, _TIMES), min_size=5, max_size=12))
def test_swapping_the_sides_turns_the_sign(pairs: list[tuple[float, float]]) -> None:
    """What is worse one way is better the other way, by the same log ratio."""
    before, after = [a for a, _ in pairs], [b for _, b in pairs]
    one = look(before, after, tolerance_percent=10, better="lower").estimate.value
    other = look(after, before, tolerance_percent=10, better="lower").estimate.value
    assert one is not None
    assert other is not None
    assert math.log1p(one / 100) == pytest.approx(-math.log1p(other / 100), abs=1e-6)
