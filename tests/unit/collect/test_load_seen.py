"""What is looked at in each request of a load step, and what a watch makes of it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest

from benchsuite.client.api import LlamaClient
from benchsuite.collect.load import summarise_load
from benchsuite.collect.load_seen import MOST_KEPT, LoadSeen, kept_of_load
from benchsuite.collect.watch import Watch
from benchsuite.drive.driver import Load, Refused, Served
from benchsuite.drive.tally import Tally
from benchsuite.errors import ServerLiedError
from tests.unit.collect.test_explain import served

PLACE = {"step": "s", "request": "1"}


def one(**fields: Any) -> Served:
    """A request of a load step; prompt of 4 tokens, 1 cached."""
    asked = served("r", "one two three", 0, cached=1).served
    reply = msgspec.structs.replace(asked.reply, **fields)
    return msgspec.structs.replace(asked, labels=PLACE, reply=reply, due_ns=0)


def test_only_the_last_requests_are_kept() -> None:
    """Whose number is bounded; the others are counted."""
    seen = LoadSeen({})
    for _ in range(MOST_KEPT + 5):
        assert seen.take(one()) is None
    assert (len(seen.last), seen.served, seen.unknown) == (MOST_KEPT, MOST_KEPT + 5, 5)
    assert seen.totals.of("prompt_tokens_total") == (3 * (MOST_KEPT + 5),) * 2


def test_leaks_are_counted_and_the_first_told() -> None:
    """Whatever is said afterwards."""
    seen = LoadSeen({"A": "bebo", "B": "dazo"})
    for _ in range(100):
        seen.take(one(text="so bebo and DAZO"))
    assert seen.leaks == 200
    assert len(seen.warnings) == 20


def test_what_is_kept_of_a_load_does_not_grow_with_its_tokens() -> None:
    """Text, counts, timings and the ends stay; stamps of each token do not."""
    few, many = (
        kept_of_load(one(token_ns=(5,) * n, event_tokens=(1,) * n).reply) for n in (2, 2000)
    )
    assert few == many
    assert set(few) == {
        "text",
        "prompt_tokens",
        "cached_tokens",
        "evaluated_tokens",
        "output_tokens",
        "slot",
        "finish",
        "truncated",
        "timings",
        "stamps",
    }
    assert few["stamps"] == one().reply.stamps


class Server:
    """Counters that move as they are told to."""

    is_paced = False

    def __init__(self, after: float) -> None:
        self._counted = iter([0.0, after, after])

    async def metrics(self) -> dict[str, float]:
        return {"prompt_tokens_total": next(self._counted)}


def watched(
    after: float,
    *requests: Served,
    refused: int = 0,
    secrets: dict[str, str] = {},  # noqa: B006  # never changed
) -> tuple[Watch, list[str]]:
    """A launched server's watch after a load step of these requests."""
    kept: list[str] = []
    watch = Watch(
        cast(LlamaClient, Server(after)),
        "B",
        1,
        log=None,
        pids=None,
        keep=lambda kind, **_: kept.append(kind),
        owned=True,
    )
    watch.secrets = dict(secrets)
    tally = Tally()

    async def run() -> None:
        await watch.start()
        for request in requests:
            tally.take(request.reply, 0, warm_up=False)
            watch.served(request)
        for _ in range(refused):
            tally.fail(
                "request 9 of load s: no whole reply within 1 s", warm_up=False, timed_out=True
            )
            watch.refused(Refused(PLACE, 0, "no whole reply within 1 s", timed_out=True))
        await watch.loaded(Load("s", tally, 1_000_000))
        await watch.stop()

    asyncio.run(run())
    return watch, kept


def test_counters_are_held_against_the_sums_of_a_load() -> None:
    """Two requests of three evaluated tokens each are six."""
    watch, kept = watched(6.0, one(), one())
    assert watch.warnings == []
    assert kept.count("reply") == 2
    assert [(load.name, load.measured) for load in watch.loads] == [("s", 2)]
    with pytest.raises(ServerLiedError, match="after load s: /metrics counted 7 evaluated"):
        watched(7.0, one(), one())


def test_a_timeout_leaves_counters_alone_and_is_told() -> None:
    """What was counted of a request that was given up is not known."""
    watch, _ = watched(99.0, one(), refused=1)
    (warning,) = watch.warnings
    assert warning.startswith("load s: 1 request was not served (0 answered with an error, 1 given")


def test_a_reply_that_contradicts_itself_ends_the_load_at_once() -> None:
    """Request by request, not once all were made."""
    with pytest.raises(ServerLiedError, match="make 2, but the reply counts 4 prompt tokens"):
        watched(6.0, one(evaluated_tokens=1))


def test_a_cap_of_the_rate_is_told_where_there_is_one() -> None:
    """Its waiting is not the server's; that of 3 s for a connection is not the cap's."""
    tally = Tally()
    waited = one()
    stamps = msgspec.structs.replace(
        waited.reply.stamps, scheduled_ns=0, let_go_ns=500_000_000, sent_ns=3_500_000_000
    )
    tally.take(msgspec.structs.replace(waited.reply, stamps=stamps), 0, warm_up=False)
    load = Load("s", tally, 1_000_000)
    assert summarise_load(load, capped=False).warnings == ()
    (warning,) = summarise_load(load, capped=True).warnings
    assert "the cap of the request rate held requests back, 500 ms on average" in warning


def test_a_load_that_sent_nothing_has_no_figures_of_the_step_before() -> None:
    """How late our event loop was, and that no secret was said, is told of requests alone."""
    watch, _ = watched(0.0, secrets={"A": "bebo"})
    assert watch.measurements == []
    reasons = {one.name: one.reason for one in watch.unmeasured}
    assert reasons["leaks"] == reasons["event_loop_late_share"] == "no request was sent"
