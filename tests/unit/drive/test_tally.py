"""Whether it was we who were late is told from the schedule alone."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest

from benchsuite.client.limits import let_go
from benchsuite.client.reply import Reply, Stamps, Timings
from benchsuite.collect.load import measure_load
from benchsuite.drive.driver import Hooks, Load
from benchsuite.drive.load import run_load
from benchsuite.drive.prompts import PromptBook
from benchsuite.drive.tally import Tally, late_limit_ns
from benchsuite.errors import RequestRefusedError
from benchsuite.gate.client_health import client_doubt
from benchsuite.model.load import Arrivals
from benchsuite.model.record import Measurement
from benchsuite.model.scenario import LoadStep, PromptSpec
from benchsuite.pipeline.load_percentiles import measure_percentiles

MS = 1_000_000


@pytest.mark.parametrize(
    ("arrivals", "limit_ms"),
    [
        (None, 100),
        (Arrivals("constant", 200.0), 10),
        (Arrivals("poisson", 50.0), 20),
        (Arrivals("constant", 1.0), 100),
        (Arrivals("bursts", size=5, every=0.1), 20),
    ],
)
def test_how_late_a_request_may_be_sent(arrivals: Arrivals | None, limit_ms: int) -> None:
    """The mean time between arrivals, from 10 ms to 100 ms; no measured latency counts."""
    assert late_limit_ns(arrivals) == limit_ms * MS


def test_late_requests_are_counted_after_warm_up() -> None:
    """At the limit is not late."""
    tally = Tally(10 * MS)
    for late_ms, warm_up in ((99, True), (10, False), (11, False), (0, False), (0, False)):
        tally.sending(late_ms * MS, warm_up=warm_up)
    measured, _ = measure_load(Load("s", tally, MS), "B", 1)
    (share,) = [m for m in measured if m.name == "client_late_share"]
    assert share.value == 0.25
    assert share.source == "1 of 4 requests more than 10 ms"


class _Server:
    """Stands in for the client: every reply comes `stall` seconds after the load began."""

    is_paced = False

    def __init__(self, stall: float, busy: float) -> None:
        self._until = time.monotonic() + stall
        self._busy = busy

    async def tokenise(self, text: str) -> list[int]:
        raise AssertionError(text)

    async def complete(self, prompt: str, fields: dict[str, Any]) -> Reply:
        sent_ns = time.monotonic_ns()
        time.sleep(self._busy)  # noqa: ASYNC251  # what holds our own event loop up
        await asyncio.sleep(self._until - time.monotonic())
        now = time.monotonic_ns()
        stamps = Stamps(sent_ns, sent_ns, first_token_ns=now, last_token_ns=now, end_ns=now)
        return Reply("x", "x", 1, 0, 1, 1, None, "length", False, Timings(), stamps, (now,))


def _doubt(*, stall: float, busy: float) -> str | None:
    """What the gate says of TTFT from due, of 20 requests that come in 2 s."""

    async def quiet(*_: object) -> None:
        pass

    hooks = Hooks(lambda _: None, lambda _: None, quiet, quiet, quiet, quiet, lambda _: None)
    step = LoadStep(
        "s", 20, 1, PromptSpec(text="x"), arrivals=Arrivals("constant", 10.0), in_flight=None
    )
    server: Any = _Server(stall, busy)
    load = asyncio.run(run_load(step, server, PromptBook(), hooks))
    measured, _ = measure_load(load, "V", 1)
    late = [m for m in measured if m.name == "client_late_share"]
    others = [msgspec.structs.replace(m, value=0.0) for m in measured if m.name.startswith("send_")]
    kept = [m for m in measured if not m.name.startswith("send_")]
    assert len(late) == len(others) == 1  # the share alone must speak
    return client_doubt([*kept, *others], "ttft_from_due_ms", {"step": "s"}, "V")


def test_a_server_that_stalls_is_not_laid_to_us() -> None:
    """Requests go when they are due, however late the answers are."""
    assert _doubt(stall=3.0, busy=0.0) is None


def test_a_client_that_is_busy_is_named() -> None:
    """Each request takes 200 ms of the event loop, and every 100 ms one is due."""
    doubt = _doubt(stall=0.0, busy=0.2)
    assert doubt is not None
    assert "of the requests late" in doubt
    assert "of 20 requests more than 100 ms" in doubt


def _answered(sent_ms: int, end_ms: int) -> Reply:
    stamps = Stamps(sent_ms * MS, sent_ms * MS, end_ns=end_ms * MS)
    return Reply("x", "x", 1, 0, 1, 1, None, "length", False, Timings(), stamps)


def test_the_time_of_what_was_given_up_is_time_of_the_load() -> None:
    """A server that serves half at once and lets the other half hang is no fast one."""
    tally = Tally()
    tally.take(_answered(0, 100), 0, warm_up=True)
    tally.take(_answered(100, 200), 0, warm_up=False)
    tally.fail("no", warm_up=False, timed_out=True, span_ns=(150 * MS, 2_100 * MS))
    tally.fail("no", warm_up=False, span_ns=(120 * MS, 130 * MS))
    assert tally.span_ns == 2_000 * MS
    measured, _ = measure_load(Load("s", tally, 9_000 * MS), "B", 1)
    (rate,) = [m for m in measured if m.name == "requests_per_second"]
    assert rate.value == pytest.approx(0.5)


def test_a_warm_up_that_brought_nothing_is_no_time_of_the_load() -> None:
    """The rate is that of the requests after it, though no reply of it came."""
    tally = Tally()
    tally.fail("no", warm_up=True, timed_out=True, span_ns=(0, 5_000 * MS))
    tally.take(_answered(5_000, 5_500), 0, warm_up=False)
    measured, _ = measure_load(Load("s", tally, 5_500 * MS), "B", 1)
    (rate,) = [m for m in measured if m.name == "requests_per_second"]
    assert rate.value == pytest.approx(2.0)


def test_a_load_takes_the_time_of_a_request_that_hangs() -> None:
    """Of two users after the warm-up, one is answered and the other given up after 0.3 s."""

    class _Hanging(_Server):
        async def complete(self, prompt: str, fields: dict[str, Any]) -> Reply:
            self._busy += 1
            if self._busy == 3:
                await asyncio.sleep(60)
            now = time.monotonic_ns()
            return msgspec.structs.replace(
                _answered(0, 0), stamps=Stamps(now, now, end_ns=time.monotonic_ns())
            )

    async def quiet(*_: object) -> None:
        pass

    hooks = Hooks(lambda _: None, lambda _: None, quiet, quiet, quiet, quiet, lambda _: None)
    step = LoadStep("s", 3, 1, PromptSpec(text="x"), warm_up=1, timeout=0.3)
    server: Any = _Hanging(0.0, 0)
    load = asyncio.run(run_load(step, server, PromptBook(), hooks))
    assert (load.tally.served_after, load.tally.timed_out_after) == (1, 1)
    assert load.tally.span_ns >= 300 * MS


@pytest.mark.parametrize(("hangs", "timed_out"), [(False, 0), (True, 1)])
def test_what_our_own_cap_holds_back_is_not_given_up(hangs: bool, timed_out: int) -> None:
    """The limit of 0.2 s begins once the cap has let the request go, after 0.5 s."""

    class _Paced(_Server):
        is_paced = True

        async def complete(self, prompt: str, fields: dict[str, Any]) -> Reply:
            await asyncio.sleep(0.5)
            let_go()
            if hangs:
                await asyncio.sleep(60)
            return _answered(0, 1)

    async def quiet(*_: object) -> None:
        pass

    hooks = Hooks(lambda _: None, lambda _: None, quiet, quiet, quiet, quiet, lambda _: None)
    step = LoadStep("s", 1, 1, PromptSpec(text="x"), timeout=0.2)
    server: Any = _Paced(0.0, 0)
    load = asyncio.run(run_load(step, server, PromptBook(), hooks))
    assert (load.tally.served, load.tally.timed_out) == (1 - timed_out, timed_out)


def test_what_failed_has_waited_too() -> None:
    """A quarter waited 60 s for a place before it was given up: so did p95, and p50 did not."""
    tally = Tally()
    for _ in range(75):
        tally.take(_answered(0, 100), 0, warm_up=False)
    for _ in range(25):
        tally.fail("no", warm_up=False, timed_out=True, wait_ns=60_000 * MS)
    load = Load("s", tally, 9_000 * MS, is_open=True)
    found = {
        one.labels["quantile"]: one.value
        for one in measure_percentiles(load, "V", 1)
        if one.name == "wait_ms" and isinstance(one, Measurement)
    }
    assert found["0.95"] == pytest.approx(60_000, rel=0.01)
    assert found["0.5"] == 0.0
    tally.fail("no", warm_up=False)
    assert tally.lacking("wait_ms") == 1  # nobody knows how long: as long as any
    assert tally.lacking("e2e_ms") == 26


@pytest.mark.parametrize("is_refused", [True, False])
@pytest.mark.parametrize("capped", [True, False])
def test_the_wait_of_what_fails_is_for_a_place_and_for_the_cap(
    capped: bool, is_refused: bool
) -> None:
    """Two requests 5 ms apart, one place: each holds it for 0.3 s, in vain."""

    class _Failing(_Server):
        is_paced = capped

        async def complete(self, prompt: str, fields: dict[str, Any]) -> Reply:
            if capped:
                await asyncio.sleep(0.2)
                let_go()
            if not is_refused:
                await asyncio.sleep(60)
            await asyncio.sleep(0.3)
            raise RequestRefusedError("no", status=500)

    async def quiet(*_: object) -> None:
        pass

    hooks = Hooks(lambda _: None, lambda _: None, quiet, quiet, quiet, quiet, lambda _: None)
    step = LoadStep(
        "s",
        2,
        1,
        PromptSpec(text="x"),
        arrivals=Arrivals("constant", 200.0),
        in_flight=1,
        timeout=None if is_refused else 0.3,
    )
    server: Any = _Failing(0.0, 0)
    load = asyncio.run(run_load(step, server, PromptBook(), hooks))
    waits = load.tally.spans["wait_ms"]
    assert (load.tally.failed_after, len(waits)) == (2, 2)
    cap_ms = 200 if capped else 0
    assert waits.mean is not None
    assert waits.mean / MS > (cap_ms + (cap_ms + 300 + cap_ms - 5)) / 2 - 10
