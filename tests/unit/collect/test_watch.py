"""What a launch's watch makes of replies, logs and counters."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from benchsuite.client.api import LlamaClient
from benchsuite.client.reply import Reply, Stamps, Timings
from benchsuite.collect.log_follower import LogFollower
from benchsuite.collect.watch import Watch
from benchsuite.drive.driver import Refused, Served, Settled, SlotDone
from benchsuite.errors import ServerLiedError

TIMING = (
    "slot print_timing: id  {slot} | task 0 | prompt eval time =      26.09 ms /    {n} tokens"
    " (    1.04 ms per token,   958.33 tokens per second)\n"
    "slot print_timing: id  {slot} | task 0 |        eval time =       3.61 ms /    16 tokens"
    " (    0.24 ms per token,  4150.53 tokens per second)\n"
    "slot print_timing: id  {slot} | task 0 |       total time =      29.70 ms /    41 tokens\n"
    "slot      release: id  {slot} | task 0 | stop processing: n_tokens = 40, truncated = 0\n"
)


def _served(
    *, slot: int | None = None, wanted: int | None = None, prompt: int = 25, cached: int = 0
) -> Served:
    reply = Reply(
        text="t",
        content="t",
        prompt_tokens=prompt,
        cached_tokens=cached,
        evaluated_tokens=25,
        output_tokens=16,
        slot=slot,
        finish="length",
        truncated=False,
        timings=Timings(
            cache_n=cached, prompt_n=25, prompt_ms=26.087, predicted_n=16, predicted_ms=3.614
        ),
        stamps=Stamps(scheduled_ns=0, sent_ns=0, first_token_ns=5, last_token_ns=9, end_ns=10),
    )
    return Served({"session": "A", "turn": "1"}, reply, wanted, alone=True)


class Counters:
    """A server whose `/metrics` moves by fixed amounts at each look."""

    def __init__(self, *steps: dict[str, float] | None, healthy: bool = True) -> None:
        self.is_healthy = healthy
        self._steps = list(steps)

    async def healthy(self) -> bool:
        return self.is_healthy

    async def slots(self) -> None:
        return None

    async def metrics(self) -> dict[str, float] | None:
        return self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]


def _watch(
    batch: Sequence[Settled],
    *,
    log: Path | None = None,
    server: Counters | None = None,
    owned: bool = True,
    slots: int | None = None,
    lines: int = 25,
) -> Watch:
    events: list[str] = []

    def keep(kind: str, **fields: Any) -> None:
        events.append(kind)

    follower = None if log is None else LogFollower(log)
    client = cast(LlamaClient, server or Counters(None))
    watch = Watch(client, "B", 1, log=follower, pids=None, keep=keep, owned=owned, slots=slots)

    async def run() -> None:
        await watch.start()
        if log is not None:
            with log.open("a") as stream:
                for number, _ in enumerate(batch):
                    stream.write(TIMING.format(slot=1, n=lines + number))
        await watch.quiet(batch)
        await watch.snapshot("end")
        await watch.stop()

    try:
        asyncio.run(run())
    finally:
        if follower is not None:
            follower.close()
    return watch


def _value(watch: Watch, name: str) -> object:
    return next((m.value for m in watch.measurements if m.name == name), None)


def test_the_slot_of_a_chat_is_read_from_the_logs_timings(tmp_path: Path) -> None:
    """The reply does not name it; the log's line with the same counts and times does."""
    assert _value(_watch([_served()], log=tmp_path / "log"), "slot") == 1


@pytest.mark.parametrize(("owned", "outcome"), [(False, "not_applicable"), (True, "missing")])
def test_the_slot_is_not_applicable_without_the_log_of_an_attached_server(
    owned: bool, outcome: str
) -> None:
    """A gate on it does not fail there; on a server of our own it should have been told."""
    watch = _watch([_served()], owned=owned)
    (missing,) = (one for one in watch.unmeasured if one.name == "slot")
    assert missing.outcome == outcome
    assert ("observe = { log" in missing.reason) is not owned


def test_a_slot_other_than_the_one_asked_for_is_an_error(tmp_path: Path) -> None:
    """By the log, and by the reply where it names the slot."""
    with pytest.raises(ServerLiedError, match="asked for slot 9, but slot 1 served"):
        _watch([_served(wanted=9)], log=tmp_path / "log")
    with pytest.raises(ServerLiedError, match="asked for slot 9, but slot 0 served"):
        _watch([_served(slot=0, wanted=9)])


def test_a_slot_that_the_server_does_not_have_is_an_error() -> None:
    """Though none was asked for; on someone else's server it is a warning."""
    with pytest.raises(ServerLiedError, match="slot 2 served it, but the server has 2 slots"):
        _watch([_served(slot=2)], slots=2)
    assert "slot 2 served it" in " ".join(_watch([_served(slot=2)], slots=2, owned=False).warnings)
    assert _value(_watch([_served(slot=1)], slots=2), "slot") == 1


def test_a_log_that_counts_otherwise_is_an_error_on_our_server(tmp_path: Path) -> None:
    """Also where /metrics is off; an attached server's log may tell of others' requests."""
    with pytest.raises(ServerLiedError, match=r"log counts 55 evaluated .*the reply 25"):
        _watch([_served()], log=tmp_path / "a", lines=55)
    assert _watch([_served()], log=tmp_path / "b", lines=55, owned=False).measurements


def test_lines_of_other_requests_are_held_against_no_reply(tmp_path: Path) -> None:
    """Those of one that was refused may come late; of two, nobody knows whose a line is."""
    refused = Refused({"session": "A", "turn": "2"}, 400, "no")
    assert _watch([_served(), refused], log=tmp_path / "a", lines=55).measurements
    assert _watch([_served(), _served()], log=tmp_path / "b", lines=55).measurements


def test_a_pinned_request_whose_slot_nobody_tells_is_inconclusive() -> None:
    """Its numbers may be another slot's, so none of them is measured."""
    watch = _watch([_served(wanted=1)])
    assert _value(watch, "cached_tokens") is None
    missing = {u.name: u for u in watch.unmeasured}
    assert missing["cached_tokens"].outcome == "inconclusive"
    assert "pinned to slot 1" in missing["cached_tokens"].reason


def test_counts_that_do_not_add_up_are_an_error_on_our_server() -> None:
    """cached + evaluated is the prompt, on every build."""
    with pytest.raises(ServerLiedError, match="make 25, but the reply counts 30"):
        _watch([_served(prompt=30)])


@pytest.mark.parametrize(
    ("counters", "words"),
    [
        (None, "/metrics is off: counts were not checked"),
        ({}, "/metrics has none of the counters"),
        ({"other_total": 1.0}, "/metrics has none of the counters"),
        ({"prompt_tokens_total": 0.0}, None),
    ],
)
def test_what_is_not_checked_is_said(counters: dict[str, float] | None, words: str | None) -> None:
    """An HTML page in the place of /metrics has no counter, too."""
    later = None if counters is None else dict.fromkeys(counters, 25.0)
    warnings = " ".join(_watch([_served()], server=Counters(counters, later)).warnings)
    assert (words or "") in warnings
    assert ("/metrics" in warnings) is (words is not None)


def test_counters_that_moved_otherwise_are_an_error_on_our_server() -> None:
    """Nobody else uses it, so /metrics and the replies count the same tokens."""
    server = Counters({"prompt_tokens_total": 0.0}, {"prompt_tokens_total": 99.0})
    with pytest.raises(ServerLiedError, match="counted 99 evaluated tokens"):
        _watch([_served()], server=server)


def test_counters_that_moved_otherwise_are_foreign_traffic_elsewhere() -> None:
    """Others may have changed the cache, so counts from HTTP are inconclusive."""
    server = Counters({"prompt_tokens_total": 0.0}, {"prompt_tokens_total": 99.0})
    watch = _watch([_served()], server=server, owned=False)
    assert _value(watch, "cached_tokens") is None
    assert any("someone else uses this server" in u.reason for u in watch.unmeasured)
    assert any("someone else" in warning for warning in watch.warnings)


def test_memory_that_cannot_be_seen_is_not_applicable() -> None:
    """Over HTTP alone there is no process to read."""
    watch = _watch([_served()])
    outcome = {u.name: u.outcome for u in watch.unmeasured}
    assert outcome["rss_mib"] == "not_applicable"


def test_a_request_is_in_flight_until_it_is_served() -> None:
    """Of two that were sent, the one without a reply is left."""
    watch = _watch([])
    watch.sending({"session": "A", "turn": "1"}, None)
    watch.sending({"session": "B", "turn": "1"}, 1)
    watch.served(_served())
    assert watch.in_flight == [({"session": "B", "turn": "1"}, 1)]


def test_a_refused_request_is_no_longer_in_flight() -> None:
    """A later crash is not laid at its door, nor is our health watched for its sake."""
    watch = _watch([])
    watch.sending({"request": "big"}, None)
    watch.refused(Refused({"request": "big"}, 400, "exceeds the available context size"))
    assert watch.in_flight == []


@pytest.mark.parametrize(("status", "known"), [(400, True), (500, False)])
def test_what_a_request_that_failed_half_way_left_is_not_known(status: int, *, known: bool) -> None:
    """A 400 comes before its prompt is evaluated; after a 500 cached tokens prove no excess."""
    watch = _watch([_served()])
    watch.refused(Refused({"request": "big"}, status, "no room"))
    asyncio.run(watch.measure_excess())
    reasons = [u.reason for u in watch.unmeasured if u.name == "excess_cached_tokens"]
    assert reasons == ([] if known else ["what a request that failed left is not known: no room"])


def test_an_error_that_was_allowed_is_measured() -> None:
    """Its status is a number; what a reply would have told is missing, with the server's words."""
    refused = Refused({"request": "big"}, 400, "exceeds the available context size")
    watch = _watch([refused, _served()])
    statuses = [m.value for m in watch.measurements if m.name == "http_status"]
    assert statuses == [400]
    missing = next(u for u in watch.unmeasured if u.name == "cached_tokens")
    assert missing.labels == {"request": "big"}
    assert "answered with 400: exceeds" in missing.reason


def test_an_error_without_a_status_is_not_zero() -> None:
    """A stream may end with an error that has no code."""
    watch = _watch([Refused({"request": "big"}, 0, "broken")])
    assert _value(watch, "http_status") is None
    assert "http_status" in {u.name for u in watch.unmeasured}


def test_a_server_that_is_not_well_after_an_error_is_a_fault() -> None:
    """An error must not cost more than the request."""
    refused = Refused({"request": "big"}, 500, "Context size has been exceeded.")
    with pytest.raises(ServerLiedError, match="/health no longer says"):
        _watch([refused], server=Counters(None, healthy=False))


def test_counters_are_not_held_against_a_request_that_failed() -> None:
    """How much of it was counted is not told."""
    server = Counters({"prompt_tokens_total": 0.0}, {"prompt_tokens_total": 99.0})
    watch = _watch([Refused({"request": "big"}, 500, "full")], server=server)
    assert _value(watch, "http_status") == 500


def test_what_of_a_broken_request_is_counted_late_is_no_contradiction() -> None:
    """The next reply is not held against the counters; one after a refusal, or further on, is."""
    looks = [{"prompt_tokens_total": float(n)} for n in (0, 99, 134, 233)]
    broken, refused = (
        Refused({"request": "big"}, 500, "full"),
        Refused({"request": "big"}, 400, "no"),
    )

    async def settle(*batches: Settled) -> None:
        client = cast(LlamaClient, Counters(*looks))
        watch = Watch(client, "B", 1, log=None, pids=None, keep=_drop, owned=True, slots=None)
        await watch.start()
        for one in batches:
            await watch.quiet([one])

    asyncio.run(settle(broken, _served()))
    with pytest.raises(ServerLiedError, match="counted 35 evaluated tokens"):
        asyncio.run(settle(refused, _served()))
    with pytest.raises(ServerLiedError, match="counted 99 evaluated tokens"):
        asyncio.run(settle(broken, _served(), _served()))


def _drop(kind: str, **fields: Any) -> None:
    """Keep nothing."""


def test_slot_steps_are_measured_and_count_no_prompt() -> None:
    """A restore that evaluates tokens would be none."""
    done = SlotDone({"step": "back"}, "restore", 208, may_fail=True)
    watch = _watch([done])
    assert (_value(watch, "slot_tokens"), _value(watch, "http_status")) == (208, 200)
    server = Counters({"prompt_tokens_total": 0.0}, {"prompt_tokens_total": 208.0})
    with pytest.raises(ServerLiedError, match="after step back"):
        _watch([done], server=server)


def test_a_restart_leaves_what_loads_were_counted_for() -> None:
    """Their memory slopes are told at the end of the launch."""
    watch = _watch([])
    load = msgspec.structs.replace(_served(), labels={"step": "soak", "request": "1"})
    watch.growth.finished(load, None)
    asyncio.run(watch.restarted())
    assert watch.growth.counted == {"soak": 1}
