"""Limits beyond the one on silence: of a step, of a whole request, and between two tokens.

A server that sends a byte a minute is never silent for long, and one that sends only comments
keeps a stream open for ever; neither may keep us.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from contextvars import ContextVar

from benchsuite.client.reply import Stopwatch
from benchsuite.client.sse import Event
from benchsuite.errors import ServerHangError
from benchsuite.model.limits import limit_hint, limit_struck


def whole_request(seconds: float | None, where: str) -> AbstractAsyncContextManager[None]:
    """`in_time` for a request to an address."""
    return in_time("request", seconds, lambda struck: f"{where}: {struck}")


@asynccontextmanager
async def in_time(
    name: str, seconds: float | None, told: Callable[[str], str]
) -> AsyncIterator[None]:
    """Let what is inside take so long at most.

    Args:
        name: Of the limit.
        seconds: None: any time.
        told: The sentence, from the words that the limit struck.

    Raises:
        ServerHangError: It took longer: nothing but the server is waited for.
    """
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired() or seconds is None:
            raise
        raise ServerHangError(told(limit_struck(name, seconds)), hint=limit_hint(name)) from error


_LET_GO: ContextVar[Callable[[], None] | None] = ContextVar("let_go", default=None)
"""What is called once the request of this task has its turn by the cap of our own rate."""


class Turn:
    """When the cap of our own rate let a request go.

    Attributes:
        let_go_ns: In monotonic nanoseconds; None where it has not, or there is no cap.
    """

    def __init__(self) -> None:
        self.let_go_ns: int | None = None


@asynccontextmanager
async def from_sending(seconds: float | None, *, paced: bool) -> AsyncIterator[Turn]:
    """Let one request inside take so long at most, what it waits for our own pace left out.

    Args:
        seconds: None: any time.
        paced: Whether it waits for a pace, which tells of its turn by `let_go`.

    Raises:
        TimeoutError: It took longer.
    """
    loop = asyncio.get_running_loop()
    limit = asyncio.timeout(None if paced else seconds)
    turn = Turn()

    def begin() -> None:
        turn.let_go_ns = time.monotonic_ns()
        if seconds is not None:
            limit.reschedule(loop.time() + seconds)

    token = _LET_GO.set(begin if paced else None)
    try:
        async with limit:
            yield turn
    finally:
        _LET_GO.reset(token)


def let_go() -> None:
    """The request of this task has waited for the pace and goes now."""
    begin = _LET_GO.get()
    if begin is not None:
        begin()


class TokenWatch:
    """Cancels the task that waits for a token when none has followed for too long.

    One timer a stream, which looks again when the last token's time is up: setting a timer for each
    token would cost more than parsing it.

    Args:
        loop: Its clock and timers.
        strike: Called once, while a token is waited for.
        seconds: The limit.

    Attributes:
        waiting: Whether the next event is waited for now; nothing is struck else.
        struck: Whether it was.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, strike: Callable[[], object], seconds: float
    ) -> None:
        self.waiting = False
        self.struck = False
        self._loop = loop
        self._strike = strike
        self._seconds = seconds
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def token(self) -> None:
        """A token came; the next one's time begins."""
        self._due = self._loop.time() + self._seconds
        if self._timer is None:
            self._timer = self._loop.call_at(self._due, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        if now >= self._due and self.waiting:
            self.struck = True
            self._strike()
            return
        due = self._due if now < self._due else now + self._seconds
        self._timer = self._loop.call_at(due, self._look)


def tokens_in_time(
    events: AsyncGenerator[Event, None], stamps: Stopwatch, seconds: float | None, where: str
) -> AsyncGenerator[Event, None]:
    """The same events, as long as each token follows the one before in time.

    Until the first token nothing is limited here, nor after the last event. Comments are no
    events, and events without a token do not count.

    Args:
        events: Of one stream; closed when this is.
        stamps: Told of each token by whoever takes the events.
        seconds: None: any time.
        where: The request's path, for the message.

    Raises:
        ServerHangError: A token did not come in time.
    """
    return events if seconds is None else _watched(events, stamps, seconds, where)


async def _watched(
    events: AsyncGenerator[Event, None], stamps: Stopwatch, seconds: float, where: str
) -> AsyncGenerator[Event, None]:
    task = asyncio.current_task()
    assert task is not None
    watch = TokenWatch(asyncio.get_running_loop(), task.cancel, seconds)
    asked, seen = task.cancelling(), 0
    try:
        async with aclosing(events):
            while True:
                if len(stamps.tokens_ns) > seen:
                    seen = len(stamps.tokens_ns)
                    watch.token()
                if stamps.complete:
                    watch.stop()
                watch.waiting = True
                try:
                    event = await anext(events)
                except StopAsyncIteration:
                    return
                finally:
                    watch.waiting = False
                yield event
    except asyncio.CancelledError as error:
        if not watch.struck or task.uncancel() > asked:
            raise  # someone else gave it up, too
        raise ServerHangError(
            f"{where}: {limit_struck('token', seconds)}: nothing but silence or comments "
            f"after token {seen}",
            hint=limit_hint("token"),
        ) from error
    finally:
        watch.stop()
