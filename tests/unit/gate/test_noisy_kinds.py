"""Memory and latency: directions, intervals, counts of launches, and values of every sort."""

from __future__ import annotations

import math
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.gate.kinds import KINDS
from benchsuite.gate.kinds.latency import effective_percent
from benchsuite.metrics.metric import Better
from benchsuite.model.scenario import Regression
from benchsuite.store.baselines import Sample

_KIND = Literal["memory", "latency"]
_STEADY = (100.0, 101, 99, 100.5, 99.5)


def samples(*values: float) -> list[Sample]:
    """Noisy samples, one a trial."""
    return [Sample(v) for v in values]


def times(factor: float) -> list[Sample]:
    """Five launches, so much slower than the steady ones."""
    return samples(*(v * factor for v in _STEADY))


def test_latency_beyond_the_tolerance_regresses() -> None:
    """Wholly above 10% with its interval, launches and method."""
    found = KINDS["latency"].compare(
        times(1), times(1.2), unit="ms", better="lower", tolerance=Regression(10)
    )
    assert (found.state, found.holds) == ("regressed", False)
    assert found.estimate is not None
    assert found.estimate.value == pytest.approx(20, abs=0.01)
    assert (found.estimate.baseline_n, found.estimate.candidate_n) == (5, 5)
    assert found.estimate.low is not None
    assert found.estimate.low > 10
    assert "regressed from 100 to 120 ms (+20.0%), more than 10%" in found.sentence
    assert "5 launches a side" in found.sentence


def test_worse_follows_the_direction_of_the_metric() -> None:
    """Fewer tokens per second are worse, more of them better."""
    kind, tolerance = KINDS["latency"], Regression(10)
    slower = kind.compare(
        times(1), times(0.8), unit="tokens/s", better="higher", tolerance=tolerance
    )
    assert slower.state == "regressed"
    assert slower.estimate is not None
    assert slower.estimate.value == pytest.approx(20, abs=0.01)
    faster = kind.compare(
        times(1), times(1.2), unit="tokens/s", better="higher", tolerance=tolerance
    )
    assert (faster.state, faster.holds) == ("improved", True)


def test_latency_within_the_tolerance_is_the_same() -> None:
    """3% at a tolerance of 10%; 9.9% is too near to tell."""
    kind, tolerance = KINDS["latency"], Regression(10)
    near = kind.compare(times(1), times(1.03), unit="ms", better="lower", tolerance=tolerance)
    assert (near.state, near.holds) == ("same", True)
    edge = kind.compare(times(1), times(1.099), unit="ms", better="lower", tolerance=tolerance)
    assert (edge.state, edge.holds) == ("inconclusive", False)


def test_few_launches_give_no_interval() -> None:
    """One launch against three decides nothing, however far apart, and says what is needed."""
    found = KINDS["latency"].compare(
        samples(10, 11, 90), samples(1200), unit="ms", better="lower", tolerance=Regression(5)
    )
    assert (found.state, found.holds) == ("inconclusive", False)
    assert found.expected == "11 ms"
    assert "1 launch against 3" in found.sentence
    assert "1 launch: an interval needs 5" in found.sentence
    assert found.estimate is not None
    assert found.estimate.warnings == ("1 launch: an interval needs 5",)


def test_a_tolerance_in_the_metrics_unit_must_be_exceeded_too() -> None:
    """10% and 50 ms of 100 ms are 50%."""
    tolerance = Regression(10, 50)
    assert effective_percent(tolerance, [90.0, 100, 110]) == 50
    assert effective_percent(Regression(10), [90.0, 100, 110]) == 10
    assert effective_percent(tolerance, [0.0]) == 10
    found = KINDS["latency"].compare(
        times(1), times(1.2), unit="ms", better="lower", tolerance=tolerance
    )
    assert found.state == "same"


def test_memory_blocks_from_three_launches_on() -> None:
    """With fewer on either side it only advises."""
    kind, tolerance = KINDS["memory"], Regression(5, 16)
    for counts, advises in (((1, 1), True), ((3, 2), True), ((3, 3), False), ((5, 5), False)):
        found = kind.compare(
            samples(*range(100, 100 + counts[0])),
            samples(*range(150, 150 + counts[1])),
            unit="MiB",
            better="lower",
            tolerance=tolerance,
        )
        assert (found.state, found.advises) == ("regressed", advises)
        assert ("advice only" in found.sentence) is advises


def test_memory_that_varies_too_much_is_inconclusive() -> None:
    """The medians are 20 MiB apart, and so are launches of one side."""
    kind, tolerance = KINDS["memory"], Regression(5, 16)
    noisy = kind.compare(
        samples(60, 80, 100, 120, 140),
        samples(60, 80, 120, 140, 160),
        unit="MiB",
        better="lower",
        tolerance=tolerance,
    )
    assert (noisy.state, noisy.holds) == ("inconclusive", False)
    assert "vary so much" in noisy.sentence
    steady = kind.compare(
        samples(98, 99, 100, 101, 102),
        samples(118, 119, 120, 121, 122),
        unit="MiB",
        better="lower",
        tolerance=tolerance,
    )
    assert steady.state == "regressed"


def test_an_outlier_is_named_and_kept() -> None:
    """Trial 3 of the candidate, by its number, with its value; the median is over all."""
    found = KINDS["latency"].compare(
        times(1),
        samples(100, 101, 250, 99, 100.5),
        unit="ms",
        better="lower",
        tolerance=Regression(10),
    )
    assert found.estimate is not None
    assert found.estimate.candidate_n == 5
    assert "trial 3 stands apart (250), and is kept" in found.estimate.warnings
    turned = KINDS["memory"].compare(
        samples(100, 101, 250, 99, 100.5), times(1), unit="MiB", better="lower"
    )
    assert turned.estimate is not None
    assert "baseline's trial 3 stands apart (250), and is kept" in turned.estimate.warnings


def test_limits_are_kept_by_the_median_of_few_launches() -> None:
    """One outlier of three does not break a limit; a single launch is judged by itself."""
    kind = KINDS["memory"]
    assert kind.limits(samples(90, 95, 500), None, 100).outcome == "pass"
    assert kind.limits(samples(90, 500, 501), None, 100).outcome == "fail"
    one = kind.limits(samples(101), None, 100, "MiB")
    assert one.outcome == "fail"
    assert one.estimate is not None
    assert one.estimate.warnings == ("1 launch: an interval needs 5",)


def test_limits_need_the_whole_interval_of_five_launches() -> None:
    """Wholly inside passes, wholly beyond fails, in between is inconclusive."""
    kind = KINDS["latency"]
    assert kind.limits(samples(*_STEADY), None, 110).outcome == "pass"
    assert kind.limits(samples(*_STEADY), None, 90).outcome == "fail"
    assert kind.limits(samples(*_STEADY), 110, None).outcome == "fail"
    between = kind.limits(samples(*_STEADY), None, 100.1, "ms")
    assert between.outcome == "inconclusive"
    assert "holds the limit" in between.sentence


def test_a_value_with_its_own_interval_is_judged_by_it() -> None:
    """A slope of 0.1 MiB a request that may be 0.3 neither keeps nor breaks a limit of 0.2."""
    kind = KINDS["memory"]
    sure = [Sample(0.1, interval=(0.05, 0.15))]
    vague = [Sample(0.1, interval=(-0.1, 0.3))]
    assert kind.limits(sure, None, 0.2).outcome == "pass"
    assert kind.limits(vague, None, 0.2).outcome == "inconclusive"
    assert kind.limits([Sample(1.0, interval=(0.9, 1.1))], None, 0.2).outcome == "fail"
    # of several launches the middle one decides, not the best
    assert kind.limits([*sure, *vague, *vague], None, 0.2).outcome == "inconclusive"


@pytest.mark.parametrize("odd", [math.inf, math.nan])
def test_limits_do_not_pass_what_was_not_read(odd: float) -> None:
    """Four good launches and one without a value, and one without any."""
    kind = KINDS["memory"]
    for values in ((*_STEADY, odd), (odd,), (90.0, odd)):
        found = kind.limits(samples(*values), None, 1000)
        assert found.outcome == "inconclusive"
        assert found.sentence


@pytest.mark.parametrize("kind", ["memory", "latency"])
@pytest.mark.parametrize("odd", [0.0, -3.0, math.inf, -math.inf, math.nan])
def test_odd_values_are_no_verdict_by_accident(kind: _KIND, odd: float) -> None:
    """Nothing is regressed or passed by a launch that cannot be read, and a sentence says it."""
    for reference, candidate in (
        (times(1), [*times(1)[:4], Sample(odd)]),
        ([*times(1)[:4], Sample(odd)], times(1)),
        ([Sample(odd)] * 5, [Sample(odd)] * 5),
        ([Sample(odd)], times(1)),
    ):
        found = KINDS[kind].compare(
            reference, candidate, unit="ms", better="lower", tolerance=Regression(10)
        )
        if not math.isfinite(odd) or kind == "latency":
            assert found.state == "inconclusive", (reference, candidate)
        assert found.sentence


@pytest.mark.parametrize("kind", ["memory", "latency"])
def test_identical_values_are_the_same(kind: _KIND) -> None:
    """Five equal launches on both sides pass, and the missing spread is told."""
    found = KINDS[kind].compare(
        samples(*[100.0] * 5),
        samples(*[100.0] * 5),
        unit="ms",
        better="lower",
        tolerance=Regression(10),
    )
    assert found.state == "same"
    assert found.estimate is not None
    assert "no spread" in " ".join(found.estimate.warnings)


@given(
    st.sampled_from(["memory", "latency"]),
    st.lists(st.floats(), min_size=1, max_size=8),
    st.lists(st.floats(), min_size=1, max_size=8),
    st.sampled_from(["lower", "higher", "equal"]),
    st.floats(0, 200),
    st.one_of(st.none(), st.floats(0, 1e6)),
)
def test_any_values_come_to_a_sentence(
    kind: _KIND,
    reference: list[float],
    candidate: list[float],
    better: Better,
    percent: float,
    by: float | None,
) -> None:
    """Never an exception, for comparisons and for limits."""
    found = KINDS[kind].compare(
        samples(*reference),
        samples(*candidate),
        unit="ms",
        better=better,
        tolerance=Regression(percent, by),
    )
    assert found.sentence
    assert found.holds == (found.state in ("same", "improved"))
    KINDS[kind].limits(samples(*candidate), 1.0, 2.0)


@given(
    st.sampled_from(["memory", "latency"]),
    st.lists(st.floats(0.001, 1e6), min_size=1, max_size=8),
    st.sampled_from(["lower", "higher", "equal"]),
)
def test_values_against_themselves_never_regress(
    kind: _KIND, values: list[float], better: Better
) -> None:
    """Whatever the tolerance, 0 included."""
    found = KINDS[kind].compare(
        samples(*values), samples(*values), unit="ms", better=better, tolerance=Regression(0)
    )
    assert found.state != "regressed"


def test_values_that_were_not_read_have_no_say_in_the_sentence() -> None:
    """One of 5 MiB against three unread and two of 5: neither a pass nor `stayed at nan`."""
    odd = samples(math.nan, math.nan, math.nan, 5, 5)
    for reference, candidate in ((samples(*[5.0] * 5), odd), (odd, samples(*[5.0] * 5))):
        found = KINDS["memory"].compare(
            reference, candidate, unit="MiB", better="lower", tolerance=Regression(5)
        )
        assert (found.state, found.holds) == ("inconclusive", False)
        assert (found.expected, found.observed) == ("5 MiB", "5 MiB")
        assert found.sentence == (
            "went from 5 to 5 MiB (+0.0%); 3 of 10 values cannot be used (missing, not finite or "
            "not above 0), so nothing is certain (5 launches a side: advice only)"
        )
    none = KINDS["memory"].compare(
        samples(math.nan), samples(math.inf), unit="MiB", better="lower", tolerance=Regression(5)
    )
    assert none.sentence.startswith("no number against no number: neither side has a value")
    assert not KINDS["memory"].equals(odd, 5)


def test_memory_that_does_not_vary_is_known_to_a_page() -> None:
    """2 KiB more in each of five launches, with nothing allowed, are no regression for certain."""
    kind, nothing = KINDS["memory"], Regression(0)
    near = kind.compare(
        samples(*[5.0] * 5),
        samples(*[5.001953125] * 5),
        unit="MiB",
        better="lower",
        tolerance=nothing,
    )
    assert near.state == "inconclusive"
    assert near.estimate is not None
    assert near.estimate.low != near.estimate.high
    far = kind.compare(
        samples(*[5.0] * 5), samples(*[6.0] * 5), unit="MiB", better="lower", tolerance=nothing
    )
    assert far.state == "regressed"
