"""Looks at the server while requests are under way: what is kept, what is a gap, when none is."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchsuite.client.api import LlamaClient
from benchsuite.client.slots import Slot
from benchsuite.collect import server_samples
from benchsuite.collect.server_samples import (
    ATTACHED_SECONDS,
    INTERVAL_SECONDS,
    KIND_SAMPLE,
    ServerSample,
    ServerSampler,
    StepSeen,
    measure_looks,
)
from benchsuite.collect.snapshots import Beside
from benchsuite.errors import ServerLiedError
from benchsuite.model.record import Measurement, Unmeasured

BUSY = (Slot(0, is_busy=True, held_tokens=30), Slot(1, is_busy=False, held_tokens=12))
COUNTERS = {"requests_processing": 1.0, "requests_deferred": 3.0, "n_decode_total": 7.0}


class Server:
    """Answers as it is told to, and counts what it was asked."""

    def __init__(self) -> None:
        self.told_slots: Any = BUSY
        self.told_metrics: Any = COUNTERS
        self.asked: list[str] = []
        self.pause_seconds = 0.0

    async def slots(self) -> tuple[Slot, ...] | None:
        return cast("tuple[Slot, ...] | None", await self._answer("/slots", self.told_slots))

    async def metrics(self) -> dict[str, float] | None:
        found = await self._answer("/metrics", self.told_metrics)
        return cast("dict[str, float] | None", found)

    async def _answer(self, path: str, told: Any) -> Any:
        self.asked.append(path)
        await asyncio.sleep(self.pause_seconds)
        if isinstance(told, Exception):
            raise told
        return told


class Journal:
    """Keeps the samples."""

    def __init__(self) -> None:
        self.samples: list[ServerSample] = []

    def __call__(self, kind: str, **fields: Any) -> None:
        assert (kind, fields["variant"], fields["trial"]) == (KIND_SAMPLE, "v", 2)
        self.samples.append(fields["sample"])


def _sampler(
    server: Server, journal: Journal, *, owned: bool = True, under_way: int = 2, step: str = "soak"
) -> ServerSampler:
    return ServerSampler(
        cast("LlamaClient", server),
        lambda: (under_way, 9),
        lambda: step,
        lambda: Beside(cgroup_bytes=5, gpu_bytes={"0": 6}),
        journal,
        "v",
        2,
        owned=owned,
    )


def test_a_look_keeps_both_sides_with_what_it_took() -> None:
    """On the requests' clock; how long the answers took is in it."""
    server, journal = Server(), Journal()
    server.pause_seconds = 0.01
    sample = asyncio.run(_sampler(server, journal).look())
    assert journal.samples == [sample]
    assert (sample.step, sample.in_flight, sample.gap) == ("soak", 2, "")
    assert (sample.slots, sample.busy, sample.held_tokens) == (2, 1, 42)
    assert (sample.processing, sample.deferred, sample.counters) == (1, 3, COUNTERS)
    assert (sample.cgroup_bytes, sample.gpu_bytes) == (5, {"0": 6})
    assert 20_000_000 * 0.9 <= sample.took_ns <= sample.at_ns


def test_what_a_build_does_not_tell_is_none() -> None:
    """Never 0."""
    server, journal = Server(), Journal()
    server.told_slots, server.told_metrics = (Slot(0), Slot(1, is_busy=True)), {}
    sample = asyncio.run(_sampler(server, journal).look())
    assert (sample.slots, sample.busy, sample.held_tokens) == (2, None, None)
    assert (sample.processing, sample.deferred) == (None, None)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ServerLiedError("/slots said nonsense"), "/slots said nonsense"),
        (RuntimeError(), "RuntimeError"),
    ],
)
def test_a_look_that_fails_is_a_gap(error: Exception, why: str) -> None:
    """It is written down, raises nothing, and the next look asks again."""
    server, journal = Server(), Journal()
    server.told_slots = error
    sampler = _sampler(server, journal)
    assert asyncio.run(sampler.look()).gap == why
    server.told_slots = BUSY
    assert asyncio.run(sampler.look()).busy == 1
    seen = sampler.steps["soak"]
    assert (seen.looks, seen.gaps, seen.why) == (1, 1, why)


def test_a_server_that_stalls_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time that an answer may take."""
    monkeypatch.setattr(server_samples, "_ANSWER_SECONDS", 0.02)
    server, journal = Server(), Journal()
    server.pause_seconds = 60
    sample = asyncio.run(_sampler(server, journal).look())
    assert sample.gap == "no answer within 0.02 s"
    assert (sample.busy, sample.deferred, sample.in_flight) == (None, None, 2)


def _run(sampler: ServerSampler, monkeypatch: pytest.MonkeyPatch, pauses: int) -> list[float]:
    """Let it go on for so many pauses, which take no time; returns how long they were to be."""
    slept: list[float] = []
    clock = [1000.0]

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds
        if len(slept) > pauses:
            raise asyncio.CancelledError

    loop = SimpleNamespace(
        sleep=sleep,
        timeout=asyncio.timeout,
    )
    time = SimpleNamespace(monotonic=lambda: clock[0], monotonic_ns=lambda: int(clock[0] * 1e9))
    monkeypatch.setattr(server_samples, "asyncio", loop)
    monkeypatch.setattr(server_samples, "time", time)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(sampler.run())
    return slept[1:]


class Quick(Server):
    """Answers without a pause."""

    async def _answer(self, path: str, told: Any) -> Any:
        self.asked.append(path)
        return told


def test_a_server_of_ours_is_asked_for_both_each_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look once."""
    server, journal = Quick(), Journal()
    pauses = _run(_sampler(server, journal), monkeypatch, 3)
    assert server.asked == ["/slots", "/metrics"] * 3
    assert pauses == [INTERVAL_SECONDS] * 3


def test_an_attached_server_is_asked_for_slots_only_and_slowly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Since a look at /metrics begins a window that others scrape."""
    server, journal = Quick(), Journal()
    pauses = _run(_sampler(server, journal, owned=False), monkeypatch, 3)
    assert server.asked == ["/slots"] * 3
    assert pauses == [ATTACHED_SECONDS] * 3
    assert ATTACHED_SECONDS >= 10 * INTERVAL_SECONDS


def test_nothing_is_asked_while_no_request_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that sleeps is not woken."""
    server, journal = Quick(), Journal()
    _run(_sampler(server, journal, under_way=0), monkeypatch, 5)
    assert (server.asked, journal.samples) == ([], [])


def test_sampling_ends_at_a_server_without_both_endpoints() -> None:
    """The one look that found out is a gap."""
    server, journal = Quick(), Journal()
    server.told_slots = server.told_metrics = None
    asyncio.run(_sampler(server, journal).run())
    assert [sample.gap for sample in journal.samples] == ["/slots and /metrics are off"]


def test_a_step_is_measured_by_its_looks() -> None:
    """The highest and the mean, and how many looks made them."""
    seen = StepSeen()
    for busy, deferred in ((1, 0), (2, 4), (2, 1)):
        seen.take(ServerSample(0, 0, busy=busy, deferred=deferred, held_tokens=busy * 10))
    found, told = measure_looks(seen, "soak", "v", 1)
    values = {one.name: one.value for one in found if isinstance(one, Measurement)}
    assert values == {
        "slots_busy_max": 2,
        "slots_busy_mean": pytest.approx(5 / 3),
        "slot_tokens_max": 20,
        "requests_deferred_max": 4,
    }
    assert told == ""
    assert all("3 looks" in one.source for one in found if isinstance(one, Measurement))


def test_gaps_are_told_and_make_nothing_0() -> None:
    """A step of gaps alone is inconclusive; what a build never tells does not apply."""
    seen = StepSeen()
    seen.take(ServerSample(0, 0, gap="no answer within 5 s"))
    found, told = measure_looks(seen, "soak", "v", 1)
    assert [type(one) for one in found] == [Unmeasured] * 4
    assert {one.outcome for one in found if isinstance(one, Unmeasured)} == {"inconclusive"}
    assert "1 of 1 looks" in told
    assert "no answer within 5 s" in told
    seen.take(ServerSample(0, 0, busy=1, held_tokens=3))
    found, told = measure_looks(seen, "soak", "v", 1)
    missing = [one for one in found if isinstance(one, Unmeasured)]
    assert [(one.name, one.outcome) for one in missing] == [
        ("requests_deferred_max", "not_applicable")
    ]
    assert "1 of 2 looks" in told


def test_a_step_without_looks_is_inconclusive() -> None:
    """It was over before the first."""
    found, told = measure_looks(StepSeen(), "soak", "v", 1)
    assert {one.outcome for one in found if isinstance(one, Unmeasured)} == {"inconclusive"}
    assert told == ""
