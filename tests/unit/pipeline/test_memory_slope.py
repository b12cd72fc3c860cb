"""Slopes of memory over requests: what is measured, and why where it is not."""

from __future__ import annotations

import pytest

from benchsuite.collect.memory_growth import Growth, GrowthPoint
from benchsuite.model.record import Measurement, Unmeasured
from benchsuite.pipeline.memory_slope import measure_slopes
from benchsuite.units import MIB


def grown(requests: int, per_request: float, *, before: int = 0) -> Growth:
    """A load step after some turns, seen after each request of it."""
    growth = Growth()
    growth.readable = True
    growth.counted = {"": before, "many": requests} if before else {"many": requests}
    growth.points = [
        GrowthPoint(before + n, "many", int((50 + per_request * n) * MIB) + n % 3 * 4096)
        for n in range(1, requests + 1)
    ]
    return growth


def test_a_leak_is_measured_with_its_interval() -> None:
    """Of the load step and of the launch, in MiB a request."""
    found = measure_slopes(grown(64, 1.0), "B", 2, observed=True)
    assert [m.labels for m in found] == [{}, {"step": "many"}]
    for m in found:
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
        assert isinstance(found, Unmeasured)
        assert found.outcome == outcome
        assert why in found.reason


def test_the_launch_counts_what_its_steps_do_not() -> None:
    """60 turns and 10 requests of a load are 70 of the launch, and too few of the load."""
    launch, load = measure_slopes(grown(10, 1.0, before=60), "B", 1, observed=True)
    assert isinstance(launch, Measurement)
    assert isinstance(load, Unmeasured)


def test_too_few_readings_are_no_slope() -> None:
    """64 requests that were read once."""
    growth = grown(64, 1.0)
    growth.points = growth.points[:1]
    (found, _) = measure_slopes(growth, "B", 1, observed=True)
    assert isinstance(found, Unmeasured)
    assert "a slope needs points at two places" in found.reason
