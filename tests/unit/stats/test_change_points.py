"""Steps and drift: found where they are, not where they are not, whatever the unit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchsuite.stats.change_points import (
    LEVEL,
    MAX_POINTS,
    MIN_POINTS,
    e_divisive,
    exact_steps,
    find_changes,
    mann_kendall,
    sen_slope,
)

# the Nile's yearly flow at Aswan, 1871 to 1970, in 1e8 m3 (Durbin and Koopman 2001; R's `Nile`)
NILE = [
    *(1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020),
    *(960, 1180, 799, 958, 1140, 1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840),
    *(874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969, 831, 726, 456, 824, 702),
    *(1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759),
    *(781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801),
    *(1040, 860, 874, 848, 890, 744, 749, 838, 1050, 918, 986, 797, 923, 975, 815),
    *(1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740),
]
whole = st.lists(st.integers(0, 1000), min_size=MIN_POINTS, max_size=24)


def noise(count: int, seed: int) -> np.ndarray:
    """Standard normal values."""
    return np.random.default_rng(seed).standard_normal(count)


def test_the_known_change_of_the_nile_is_found() -> None:
    """The flow fell in 1899 (Cobb 1978, and every method since); index 28 is that year."""
    found = find_changes(NILE)
    assert [step.index for step in found.steps] == [28]
    assert found.drifts == ()
    (step,) = found.steps
    assert step.before == float(np.median(NILE[:28]))
    assert step.percent == pytest.approx(-26.4, abs=1.5)


def test_mann_kendall_equals_the_exact_table() -> None:
    """Of the orders of n values one rises all the way and one falls: 2 of 10!, 2 of 4!."""
    assert mann_kendall(range(10)) == pytest.approx(2 / math.factorial(10))
    assert mann_kendall([1, 2, 3, 4]) == pytest.approx(2 / 24)
    assert mann_kendall([3.0] * 12) == 1.0


def test_sen_slope_is_the_median_of_pairwise_slopes() -> None:
    """Five values with ten pairs, by hand; one wild value moves it little."""
    assert sen_slope([0, 1, 2, 3, 4]) == 1.0
    assert sen_slope([0, 1, 2, 3, 100]) == 1.0


def test_the_statistic_is_that_of_the_paper() -> None:
    """The best cut is where equation 6, summed pair by pair, is largest."""
    values = [float(v) for v in NILE[20:36]]
    n = len(values)

    def gain(cut: int) -> float:
        left, right = values[:cut], values[cut:]
        between = sum(abs(x - y) for x in left for y in right) / (len(left) * len(right))

        def within(part: list[float]) -> float:
            pairs = [(i, k) for i in range(len(part)) for k in range(i)]
            return sum(abs(part[i] - part[k]) for i, k in pairs) / len(pairs)

        scale = len(left) * len(right) / n
        return scale * (2 * between - within(left) - within(right))

    best = max(range(3, n - 2), key=gain)
    ((at, p_value),) = e_divisive(values)[:1]
    assert at == best
    assert 0 < p_value <= LEVEL


def test_steps_are_found_where_they_are() -> None:
    """Two changes of 10% at a CV of 1%: both, at their places, with their levels."""
    values = 100 * (1 + 0.01 * noise(45, 1))
    values[15:30] *= 1.10
    found = find_changes(list(values))
    assert [step.index for step in found.steps] == [15, 30]
    assert found.steps[0].percent == pytest.approx(10, abs=1.5)
    assert found.steps[1].percent == pytest.approx(-9.1, abs=1.5)
    assert found.drifts == ()


def test_slow_drift_is_found_though_each_run_is_near_the_one_before() -> None:
    """0.7% a run over 30 runs: one drift with its size, and no staircase of steps."""
    values = 100 * 1.007 ** np.arange(30) * (1 + 0.015 * noise(30, 2))
    assert max(abs(np.diff(values) / values[:-1])) < 0.10
    found = find_changes(list(values))
    assert found.steps == ()
    (drift,) = found.drifts
    assert drift.start <= 2
    assert drift.end >= 27
    assert drift.percent == pytest.approx(22.4, abs=4)
    assert drift.p_value < 1e-6


def test_a_drift_that_begins_late_has_its_start() -> None:
    """Twenty even runs, then 1% a run."""
    values = 100 * 1.01 ** np.maximum(0, np.arange(40) - 20) * (1 + 0.01 * noise(40, 3))
    (drift,) = find_changes(list(values)).drifts
    assert abs(drift.start - 20) <= 3
    assert drift.end >= 37


def test_false_alarms_are_as_rare_as_promised() -> None:
    """300 quiet series of heavy-tailed noise: a step in 1% and a drift in 1%, give or take."""
    random = np.random.default_rng(4)
    alarms = 0
    for _ in range(300):
        found = find_changes(list(100 + random.standard_t(3, 30)))
        alarms += bool(found.steps or found.drifts)
    # of 300 with a chance of 2%: more than 15 in one of 1400 seeds
    assert alarms <= 15


@pytest.mark.parametrize("count", [0, 1, 2, MIN_POINTS - 1])
def test_few_values_say_so(count: int) -> None:
    """Nothing is told from too few, however they look."""
    found = find_changes([1.0, 100.0] * (count // 2) + [5.0] * (count % 2))
    assert (found.steps, found.drifts) == ((), ())
    assert f"changes can be told from {MIN_POINTS} on" in found.notes[0]


def test_values_that_are_no_numbers_are_passed_over_and_counted() -> None:
    """NaN and infinity; the indices stay those of the values given."""
    values = [10.0] * 8 + [math.nan, math.inf] + [20.0] * 8
    found = find_changes(values)
    assert [step.index for step in found.steps] == [10]
    assert "2 values passed over" in found.notes[0]


def test_long_series_are_looked_at_from_their_end() -> None:
    """With a note, and indices of the whole."""
    values = [1.0] * 50 + [5.0] * (MAX_POINTS - 20) + [9.0] * 20
    found = find_changes(values)
    assert [step.index for step in found.steps] == [MAX_POINTS + 30]
    assert f"newest {MAX_POINTS} of {MAX_POINTS + 50}" in found.notes[0]


def test_zero_and_negative_levels_have_no_or_a_signed_percentage() -> None:
    """From 0 there is no percentage; from -10 to -5 is a rise."""
    (step,) = find_changes([0.0] * 10 + [3.0] * 10).steps
    assert (step.before, step.after, step.percent) == (0, 3, None)
    (step,) = find_changes([-10.0] * 10 + [-5.0] * 10).steps
    assert step.percent == 50


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 40))
def test_a_constant_series_never_changes(value: float, count: int) -> None:
    """Whatever the value and the length."""
    found = find_changes([value] * count)
    assert (found.steps, found.drifts) == ((), ())


@settings(max_examples=40, deadline=None)
@given(whole, st.integers(-5000, 5000), st.integers(-3, 6))
def test_the_unit_and_its_zero_do_not_matter(values: list[int], shift: int, power: int) -> None:
    """Scaled by a power of two and shifted by whole numbers, which floats do exactly."""
    plain = find_changes(values)
    moved = find_changes([2.0**power * (v + shift) for v in values])
    assert [(s.index, s.p_value) for s in plain.steps] == [
        (s.index, s.p_value) for s in moved.steps
    ]
    assert len(plain.drifts) == len(moved.drifts)


@settings(max_examples=40, deadline=None)
@given(whole)
def test_upside_down_changes_are_the_same_upside_down(values: list[int]) -> None:
    """Worse and better are equally visible."""
    plain, mirrored = find_changes(values), find_changes([-v for v in values])
    assert [s.index for s in plain.steps] == [s.index for s in mirrored.steps]
    assert [(-s.before, -s.after) for s in plain.steps] == [
        (s.before, s.after) for s in mirrored.steps
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=30))
def test_any_values_get_an_answer(values: list[float]) -> None:
    """Whatever a record holds: indices inside, in order, and probabilities that are such."""
    found = find_changes(values)
    indices = [step.index for step in found.steps]
    assert indices == sorted(set(indices))
    assert all(0 < i < len(values) for i in indices)
    assert all(step.p_value is not None and 0 <= step.p_value <= LEVEL for step in found.steps)
    assert all(0 <= d.start < d.end < len(values) for d in found.drifts)


@given(st.lists(st.integers(0, 2), max_size=20))
def test_exact_values_change_where_they_differ(values: list[int]) -> None:
    """No noise is assumed: each difference from the value before is told."""
    found = exact_steps(values, same=lambda a, b: a == b)
    assert found == [i for i in range(1, len(values)) if values[i] != values[i - 1]]


def test_creeping_by_less_than_a_quantum_adds_up() -> None:
    """Each value is held against the first of its level, not against its neighbour."""
    found = exact_steps([0, 1, 2, 3, 4, 5], same=lambda a, b: abs(a - b) <= 2)
    assert found == [3]
