"""The limits of a whole request and between tokens, against streams that keep us waiting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence

import pytest

from benchsuite.client import network
from benchsuite.client.exchange import Exchanges
from benchsuite.client.limits import (
    TokenWatch,
    from_sending,
    let_go,
    tokens_in_time,
    whole_request,
)
from benchsuite.client.reply import Stopwatch
from benchsuite.client.sse import Event
from benchsuite.errors import ConnectionLostError, ServerHangError

_SHORT = 0.05
_EVER = 60.0


async def _events(pauses: Sequence[float]) -> AsyncGenerator[Event, None]:
    for pause in pauses:
        await asyncio.sleep(pause)
        yield Event("x")


def _take(pauses: Sequence[float], seconds: float | None, *, tokens: bool = True) -> int:
    """How many events come; each is a token, or none is."""

    async def take() -> int:
        stamps = Stopwatch()
        count = 0
        async for _ in tokens_in_time(_events(pauses), stamps, seconds, "/x"):
            count += 1
            if tokens:
                stamps.tokens(1)
        return count

    return asyncio.run(take())


def test_a_token_that_does_not_follow_strikes_and_is_named() -> None:
    """After the first, however long a silence is."""
    with pytest.raises(ServerHangError, match=r"the token limit of 0.05 s struck.*after token 2"):
        _take([0, 0, _EVER], _SHORT)


def test_the_first_token_is_not_limited() -> None:
    """A long prompt is evaluated before it; the limit of silence holds there."""
    assert _take([3 * _SHORT, 0], _SHORT) == 2


def test_events_without_tokens_do_not_begin_it() -> None:
    """Such as the one that names the role."""
    assert _take([0, 3 * _SHORT], _SHORT, tokens=False) == 2


def test_nothing_strikes_after_the_last_event() -> None:
    """The end of a stream's body is no token."""

    async def take() -> int:
        stamps = Stopwatch()
        async for _ in tokens_in_time(_events([0, 3 * _SHORT]), stamps, _SHORT, "/x"):
            stamps.tokens(1)
            stamps.complete = True
        return len(stamps.tokens_ns)

    assert asyncio.run(take()) == 2


def test_without_a_limit_nothing_strikes() -> None:
    """None is any time."""
    assert _take([0, 3 * _SHORT], None) == 2


def test_without_a_limit_nothing_stands_between() -> None:
    """The events themselves are taken: a limit that is not set costs nothing."""
    events = _events([])
    assert tokens_in_time(events, Stopwatch(), None, "/x") is events


def test_giving_up_a_stream_stays_that() -> None:
    """Only the limit's own cancellation is told as the limit."""

    async def take() -> None:
        async for _ in tokens_in_time(_events([_EVER]), Stopwatch(), _EVER, "/x"):
            pass

    async def ask() -> None:
        asking = asyncio.create_task(take())
        await asyncio.sleep(0)
        asking.cancel()
        await asking

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(ask())


class _Clock:
    """Stands for an event loop: a time that is set, and the one timer that was asked for."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, look: Callable[[], None]) -> object:
        self.timers.append((when, look))
        return self

    def fire(self) -> None:
        self.now, look = self.timers.pop()
        look()


def test_one_timer_serves_every_token() -> None:
    """However many come in time; it strikes once, a whole limit after the last one."""
    clock, struck = _Clock(), list[float]()
    watch = TokenWatch(clock, lambda: struck.append(clock.now), 10.0)  # type: ignore[arg-type]
    watch.waiting = True
    for now in (1.0, 5.0, 8.0, 10.0):
        clock.now = now
        watch.token()
    assert len(clock.timers) == 1
    clock.fire()  # at 11, a second after the last token
    assert not struck
    assert [when for when, _ in clock.timers] == [20.0]
    clock.fire()
    assert watch.struck
    assert struck == [20.0]
    assert not clock.timers


def test_nothing_is_struck_while_nobody_waits() -> None:
    """Whoever takes long over an event is not the server; a new limit begins."""
    clock, struck = _Clock(), list[float]()
    watch = TokenWatch(clock, lambda: struck.append(clock.now), 10.0)  # type: ignore[arg-type]
    watch.token()
    clock.fire()
    assert not struck
    watch.waiting = True
    clock.fire()
    assert struck == [20.0]


def test_a_request_that_takes_too_long_strikes_and_is_named() -> None:
    """Whatever is inside is given up."""

    async def ask() -> None:
        async with whole_request(_SHORT, "http://h/x"):
            await asyncio.sleep(_EVER)

    with pytest.raises(ServerHangError, match=r"http://h/x: the request limit of 0.05 s") as raised:
        asyncio.run(ask())
    assert "--request-limit" in (raised.value.hint or "")


def test_another_timeout_inside_a_request_stays_itself() -> None:
    """It is not told as the limit of the request."""

    async def ask() -> None:
        async with whole_request(_EVER, "x"):
            raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        asyncio.run(ask())


def test_a_limit_from_sending_begins_when_the_pace_has_let_a_request_go() -> None:
    """What waited 0.3 s for its turn is not given up after 0.1 s of that: nobody listens there."""

    class Pace:
        async def acquire(self) -> None:
            await asyncio.sleep(0.3)

    async def ask() -> None:
        wire = Exchanges("http://127.0.0.1:9", pace=Pace())
        try:
            async with from_sending(0.1, paced=True), wire.exchange("GET", "/health"):
                pass
        finally:
            await wire.aclose()

    with pytest.raises(ConnectionLostError):
        asyncio.run(ask())


def test_a_limit_from_sending_strikes() -> None:
    """With a pace once it has let go, without one at once; None never does."""

    async def wait(seconds: float | None, *, paced: bool) -> None:
        async with from_sending(seconds, paced=paced):
            let_go()
            await asyncio.sleep(0.1)

    for paced in (True, False):
        with pytest.raises(TimeoutError):
            asyncio.run(wait(0.01, paced=paced))
        asyncio.run(wait(None, paced=paced))


@pytest.mark.parametrize("capped", [True, False])
def test_the_cap_holds_a_request_until_it_lets_go_and_not_while_it_connects(
    capped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stamp lies between the two; without a cap nothing is held."""
    went_ns = []

    class Pace:
        async def acquire(self) -> None:
            await asyncio.sleep(_SHORT)
            went_ns.append(time.monotonic_ns())

    async def addresses(*_: object) -> object:
        went_ns.append(time.monotonic_ns())
        await asyncio.sleep(_SHORT)
        raise OSError("nobody")

    monkeypatch.setattr(network, "_addresses", addresses)

    async def ask() -> Stopwatch:
        stamps = Stopwatch()
        wire = Exchanges("http://127.0.0.1:9", pace=Pace() if capped else None)
        try:
            with pytest.raises(ConnectionLostError):
                async with wire.exchange("GET", "/health", stamps=stamps):
                    pass
        finally:
            await wire.aclose()
        return stamps

    stamps = asyncio.run(ask()).read()
    if not capped:
        assert stamps.held_ns == 0
        return
    let_go_ns, connecting_ns = went_ns
    assert let_go_ns <= stamps.let_go_ns <= connecting_ns
    assert stamps.held_ns == stamps.let_go_ns - stamps.scheduled_ns
