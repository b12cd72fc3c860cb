"""Slopes of memory over requests: what is measured, and why where it is not."""

from __future__ import annotations

import pytest

from benchsuite.collect.memory_growth import Growth, GrowthPoint
from benchsuite.collect.speed_trend import SpeedTrend, SpeedTrends
from benchsuite.metrics.catalogue import LATE_HOURLY, LATE_SLOPE, SLOPE
from benchsuite.model.record import Measurement, Unmeasured
from benchsuite.pipeline.memory_slope import measure_slopes, measure_speeds
from benchsuite.units import MIB


def grown(requests: int, per_request: float, *, before: int = 0) -> Growth:
    """A load step after some turns, seen after each request of it."""
    growth = Growth()
    growth.readable = True
    growth.counted = {"": before, "many": requests} if before else {"many": requests}
    for n in range(1, requests + 1):
        anon_bytes = int((50 + per_request * n) * MIB) + n % 3 * 4096
        growth.add(GrowthPoint(before + n, "many", anon_bytes, n * 1_000_000_000))
    return growth


def test_a_leak_is_measured_with_its_interval() -> None:
    """Of the load step and of the launch, in MiB a request."""
    found = measure_slopes(grown(64, 1.0), "B", 2, observed=True)
    assert [m.labels for m in found if m.name == SLOPE] == [{}, {"step": "many"}]
    for m in (m for m in found if m.name == SLOPE):
        assert isinstance(m, Measurement)
        assert m.value == pytest.approx(1, abs=0.01)
        assert m.interval is not None
        assert m.interval[0] > 0.99
        assert (m.unit, m.variant, m.trial) == ("MiB", "B", 2)
        assert "64 readings over 64 requests" in m.source


@pytest.mark.parametrize(
    ("requests", "readable", "observed", "outcome", "why"),
    [
        (63, True, True, "inconclusive", "63 requests after warm-up: a slope needs 64"),
        (64, False, True, "not_applicable", "does not tell anonymous memory"),
        (64, True, False, "not_applicable", "cannot be seen over HTTP"),
    ],
)
def test_what_cannot_be_told_is_unmeasured(
    requests: int, readable: bool, observed: bool, outcome: str, why: str
) -> None:
    """Never 0."""
    growth = grown(requests, 1.0)
    growth.readable = readable
    for found in measure_slopes(growth, "B", 1, observed=observed):
        if found.name != SLOPE:
            continue
        assert isinstance(found, Unmeasured)
        assert found.outcome == outcome
        assert why in found.reason


def test_the_launch_counts_what_its_steps_do_not() -> None:
    """60 turns and 10 requests of a load are 70 of the launch, and too few of the load."""
    found = measure_slopes(grown(10, 1.0, before=60), "B", 1, observed=True)
    launch, load = (one for one in found if one.name == SLOPE)
    assert isinstance(launch, Measurement)
    assert isinstance(load, Unmeasured)


def test_a_restart_leaves_the_loads_before_it_their_slopes() -> None:
    """And the launch's is of the fresh process alone: 3 requests are too few for it."""
    growth = grown(200, 1 / 16)
    growth.restarted()
    growth.counted[""] = 3
    found = measure_slopes(growth, "B", 1, observed=True, steps=["many"])
    late, launch = (
        next(one for one in found if one.name == LATE_SLOPE and one.labels == labels)
        for labels in ({"step": "many"}, {})
    )
    assert isinstance(late, Measurement)
    assert late.value == pytest.approx(1 / 16, rel=0.01)
    assert isinstance(launch, Unmeasured)
    assert "1 requests after warm-up" in launch.reason  # of the last half


def test_too_few_readings_are_no_slope() -> None:
    """64 requests that were read once."""
    growth = grown(1, 1.0)
    growth.counted = {"many": 64}
    found = measure_slopes(growth, "B", 1, observed=True)[0]
    assert isinstance(found, Unmeasured)
    assert "a slope needs points at two places" in found.reason


def test_a_cache_that_is_full_grows_no_more_at_the_end() -> None:
    """Growth over a third of the requests counts in the whole and not in the last half."""
    growth = Growth()
    growth.readable, growth.counted = True, {"many": 600}
    for n in range(1, 601):
        held = min(n, 240) * MIB // 4 + n * 7919 % 13 * 4096
        growth.add(GrowthPoint(n, "many", 50 * MIB + held, n * 1_000_000_000))
    found = {m.name: m for m in measure_slopes(growth, "B", 1, observed=True) if m.labels}
    whole, late = found[SLOPE], found[LATE_SLOPE]
    assert isinstance(whole, Measurement)
    assert isinstance(late, Measurement)
    assert whole.interval is not None
    assert whole.interval[0] > 0
    assert late.interval is not None
    assert late.interval[0] <= 0 <= late.interval[1]
    assert late.interval[1] < 0.001


def test_a_leak_is_seen_at_the_end_too_and_by_the_hour() -> None:
    """64 KiB a request, one request a second: 225 MiB an hour."""
    found = {m.name: m for m in measure_slopes(grown(400, 1 / 16), "B", 1, observed=True)}
    assert found[LATE_SLOPE].value == pytest.approx(1 / 16, rel=0.01)  # type: ignore[union-attr]
    assert found[LATE_HOURLY].value == pytest.approx(225, rel=0.01)  # type: ignore[union-attr]


def test_half_of_too_few_requests_is_no_late_slope() -> None:
    """127 requests leave 63 for the last half."""
    found = {m.name: m for m in measure_slopes(grown(127, 1.0), "B", 1, observed=True)}
    assert isinstance(found[SLOPE], Measurement)
    assert isinstance(found[LATE_SLOPE], Unmeasured)


def test_a_server_that_slows_down_is_seen_in_percent() -> None:
    """From 100 to 90 tokens a second over an hour is 10.5% of the median."""
    trends = SpeedTrends()
    trends.steps["many"] = trend = SpeedTrend()
    for second in range(3600):
        trend.add(second * 1_000_000_000, 100 - second / 360 + second % 3)
    found = {m.name: m for m in measure_speeds(trends, "B", 1)}
    change, hourly = found["decode_change_percent"], found["decode_change_percent_per_hour"]
    assert isinstance(change, Measurement)
    assert isinstance(hourly, Measurement)
    assert change.value == pytest.approx(-10.4, abs=0.4)
    assert hourly.value == pytest.approx(-10.4, abs=0.4)
    assert change.interval is not None
    assert change.interval[1] < -9


def test_a_short_step_has_no_trend() -> None:
    """Never 0."""
    trends = SpeedTrends()
    trends.steps["many"] = trend = SpeedTrend()
    for n in range(100):
        trend.add(n * 1_000_000, 100.0)
    assert all(isinstance(one, Unmeasured) for one in measure_speeds(trends, "B", 1))


def test_a_step_without_a_request_after_warm_up_is_told_and_not_passed_over() -> None:
    """A gate on what is nowhere on record would fail as missing."""
    (change, _) = measure_speeds(SpeedTrends(), "B", 1, steps=["soak"])
    slopes = measure_slopes(Growth(), "B", 1, observed=True, steps=["soak"])
    late = next(one for one in slopes if one.name == LATE_SLOPE and one.labels)
    for one, why in ((change, "too few requests"), (late, "0 requests after warm-up")):
        assert isinstance(one, Unmeasured)
        assert (one.labels, one.outcome) == ({"step": "soak"}, "inconclusive")
        assert why in one.reason
