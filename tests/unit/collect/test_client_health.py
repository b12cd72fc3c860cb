"""Our own client's health: lag as an event feels it, only while requests are under way."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.collect.client_health import ClientHealth
from benchsuite.model.record import Measurement, Unmeasured

MS = 1_000_000
PLANNED = 10 * MS


class Clocks:
    """Clocks and requests that stand until they are moved."""

    def __init__(self, cores: int | None = 2) -> None:
        self.now = self.cpu = self.sent = self.under_way = 0
        self.health = ClientHealth(
            lambda: (self.under_way, self.sent),
            cores,
            monotonic_ns=lambda: self.now,
            cpu_ns=lambda: self.cpu,
        )

        self.health.look(PLANNED)

    def span(self, ms: float, cpu_ms: float = 0.0) -> None:
        """One look after so many milliseconds."""
        self.now += int(ms * MS)
        self.cpu += int(cpu_ms * MS)
        self.health.look(PLANNED)


def test_a_loop_that_is_on_time_has_no_lag() -> None:
    """Each look after the planned time; 4 of 20 ms of two cores are 10%."""
    clocks = Clocks()
    clocks.under_way = 1
    clocks.span(10, 3)
    clocks.span(10, 1)
    assert clocks.health.lag_ms == 0
    assert clocks.health.cpu_share == pytest.approx(0.1)


def test_one_long_block_counts_by_how_long_it_lasted() -> None:
    """Held up for 200 of 1,000 ms, an event waits 20 ms on average: 1 in 5 waits 100."""
    clocks = Clocks()
    clocks.under_way = 1
    for _ in range(79):
        clocks.span(10)
    clocks.span(210)
    assert clocks.health.lag_ms == pytest.approx(20.0)


def test_what_happens_between_requests_does_not_count() -> None:
    """A server that is stopped and started between two requests delays none."""
    clocks = Clocks()
    clocks.under_way = 1
    clocks.span(10, 1)
    clocks.under_way = 0
    clocks.span(10, 1)  # answered within it
    clocks.span(5000, 4000)
    assert clocks.health.lag_ms == 0
    assert clocks.health.cpu_share == pytest.approx(0.05)


def test_a_request_shorter_than_a_span_counts() -> None:
    """Sent and answered between two looks: its span is one that had a request."""
    clocks = Clocks()
    clocks.sent += 1
    clocks.span(30)
    assert clocks.health.lag_ms == pytest.approx(20 * 20 / 2 / 30)


def test_without_requests_nothing_is_measured() -> None:
    """Neither 0 nor a made-up value."""
    clocks = Clocks()
    clocks.span(500)
    assert clocks.health.measure("B", 1) == []


def test_an_attached_server_has_no_cores_that_we_know() -> None:
    """Its share is not applicable, its lag is measured."""
    clocks = Clocks(cores=None)
    clocks.under_way = 1
    clocks.span(12)
    lag, share = clocks.health.measure("B", 3)
    assert isinstance(lag, Measurement)
    assert (lag.name, lag.unit, lag.trial, lag.source) == (
        "event_loop_lag_ms",
        "ms",
        3,
        "client clock",
    )
    assert isinstance(share, Unmeasured)
    assert (share.name, share.outcome) == ("client_cpu_share", "not_applicable")


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=30))
def test_lag_is_never_more_than_half_the_longest(spans: list[float]) -> None:
    """Nobody waits longer on average than in the middle of the longest block."""
    clocks = Clocks()
    clocks.under_way = 1
    clocks.span(1)
    for ms in spans:
        clocks.span(ms)
    lag = clocks.health.lag_ms
    assert lag is not None
    assert 0 <= lag <= max(0.0, max(spans) - 10) / 2 + 0.001


def test_a_blocked_event_loop_is_seen() -> None:
    """A real loop that is held up for 300 ms while a request is under way."""

    async def drive() -> ClientHealth:
        health = ClientHealth(lambda: (1, 1), 2)
        health.start()
        await asyncio.sleep(0.02)
        time.sleep(0.3)  # noqa: ASYNC251  # the fault that must be seen
        await asyncio.sleep(0.02)
        health.stop()
        return health

    lag = asyncio.run(drive()).lag_ms
    assert lag is not None
    assert lag > 50  # 300 * 300 / 2 / 340 where nothing else is late, more where something is


def test_moments_that_are_answered_too_late_are_those_of_the_step() -> None:
    """Held up for 350 of 1,000 ms, events of 250 ms waited more than 100; earlier ones are out."""
    clocks = Clocks()
    clocks.under_way = 1
    clocks.span(5000)
    clocks.health.begin_step()
    for _ in range(64):
        clocks.span(10)
    clocks.span(360)
    (share,) = clocks.health.measure_step({"step": "s"}, "B", 1)
    assert isinstance(share, Measurement)
    assert share.value == pytest.approx(0.25)
    assert share.labels == {"step": "s"}
    clocks.health.begin_step()
    clocks.under_way = 0
    (none,) = clocks.health.measure_step({"step": "t"}, "B", 1)
    assert isinstance(none, Unmeasured)
