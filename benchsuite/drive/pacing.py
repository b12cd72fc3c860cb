"""When the requests of a load step are sent: closed loops and open ones.

It knows no server: what sends a request is handed in.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count

import msgspec

from benchsuite.drive.arrivals import arrival_times
from benchsuite.drive.descriptors import connections_at_once, require_room
from benchsuite.model.load import seeded
from benchsuite.model.scenario import LoadStep

_NS = 1_000_000_000
_AT_A_TIME = 64
"""So many overdue arrivals are begun before those that were begun get a turn."""


class Due(msgspec.Struct, frozen=True):
    """One request whose time has come."""

    number: int  # of the step, from 0
    user: int  # from 0
    turn: int  # of the user, from 0
    due_ns: int  # of the monotonic clock, by schedule
    free_ns: (
        int  # from when on only we kept it: `due_ns`, or later where it had to wait for a place
    )
    warm_up: bool


Ask = Callable[[Due], Awaitable[int]]
"""Sends a request and returns the nanosecond of its answer. What it raises ends the load."""


class Pace(msgspec.Struct, frozen=True):
    """How a load went."""

    wall_ns: int  # from before the first request to after the last answer
    most_in_flight: int  # at one moment


class Clock(msgspec.Struct, frozen=True):
    """What time is told and waited by."""

    now_ns: Callable[[], int] = time.monotonic_ns
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


async def keep_pace(
    step: LoadStep,
    user: Callable[[int], Ask],
    clock: Clock = Clock(),  # noqa: B008  # frozen
    *,
    cut: Callable[[Pace], None] = lambda _: None,
) -> Pace:
    """Send the requests of a load step when they are due, and wait for all answers.

    Args:
        step: What is asked. Nothing is due at its duration or later; what is under way then is
            waited for.
        user: Makes what sends the requests of one user, numbered from 0, one after the other.
        clock: The monotonic one unless given.
        cut: Told how far it came where it does not come to its end.

    Raises:
        MachineError: A closed loop needs more connections at once than we may have.
    """
    loop = (_Closed if step.arrivals is None else _Open)(step, user, clock)
    try:
        await loop.run()
    except BaseException:
        cut(loop.pace)
        raise
    return loop.pace


class _Loop(ABC):
    """What both loops share."""

    def __init__(self, step: LoadStep, user: Callable[[int], Ask], clock: Clock) -> None:
        self._step = step
        self._user = user
        self._clock = clock
        self._begin_ns = 0
        self._end_ns: int | None = None
        self._in_flight = 0
        self._most = 0

    @property
    def pace(self) -> Pace:
        """How it went until now."""
        return Pace(self._clock.now_ns() - self._begin_ns, self._most)

    async def run(self) -> None:
        self._begin_ns = self._clock.now_ns()
        if self._step.duration is not None:
            self._end_ns = self._begin_ns + round(self._step.duration * _NS)
        try:
            await self._drive()
        except BaseExceptionGroup as group:  # the first fault ended all the others
            raise group.exceptions[0] from None

    @abstractmethod
    async def _drive(self) -> None:
        """Send every request, and return once all were answered."""

    def _is_over(self, due_ns: int) -> bool:
        return self._end_ns is not None and due_ns >= self._end_ns

    def _is_warm_up(self, number: int, due_ns: int) -> bool:
        since_ns = due_ns - self._begin_ns
        seconds = self._step.warm_up_seconds
        return number < self._step.warm_up or (seconds > 0 and since_ns < seconds * _NS)

    async def _until(self, due_ns: int) -> None:
        left_ns = due_ns - self._clock.now_ns()
        if left_ns > 0:
            await self._clock.sleep(left_ns / _NS)

    async def _send(self, ask: Ask, due: Due) -> int:
        self._in_flight += 1
        self._most = max(self._most, self._in_flight)
        try:
            return await ask(due)
        finally:
            self._in_flight -= 1


class _Closed(_Loop):
    """Each user sends again once it was answered and has thought."""

    async def _drive(self) -> None:
        requests, workers = self._step.requests, self._step.concurrency
        numbers: Iterator[int] = count() if requests is None else iter(range(requests))
        users = count()
        with connections_at_once() as room:
            at_once = workers if requests is None else min(workers, requests)
            require_room(room, at_once, f"load {self._step.name}")
            async with asyncio.TaskGroup() as tasks:
                for worker in range(workers):
                    tasks.create_task(self._work(worker, numbers, users))

    async def _work(self, worker: int, numbers: Iterator[int], users: Iterator[int]) -> None:
        step, due_ns = self._step, self._begin_ns
        thinking = seeded(step.seed, "think", worker)  # so that no server changes who waits when
        while True:
            user = next(users)
            ask = self._user(user)
            for turn in range(step.turns):
                if self._is_over(due_ns):
                    return
                await self._until(due_ns)
                number = next(numbers, None)  # shared: each is taken once
                if number is None:
                    return
                warm_up = self._is_warm_up(number, due_ns)
                due_ns = await self._send(ask, Due(number, user, turn, due_ns, due_ns, warm_up))
                if step.think is not None:
                    due_ns += round(step.think.draw(thinking) * _NS)


class _Open(_Loop):
    """Users come by a schedule that was made ahead."""

    async def _drive(self) -> None:
        step = self._step
        if step.arrivals is None:
            raise AssertionError("an open loop without arrivals")
        with connections_at_once() as room:
            self._places = _Places(step.in_flight, room)
            times = arrival_times(step.arrivals, step.duration, step.seed, step.recorded_ns)
            async with asyncio.TaskGroup() as visits:
                for user, at_ns in enumerate(times):
                    if step.requests is not None and user * step.turns >= step.requests:
                        break
                    await self._until(self._begin_ns + at_ns)
                    visits.create_task(self._visit(user, self._begin_ns + at_ns))
                    if user % _AT_A_TIME == 0:
                        await asyncio.sleep(0)

    async def _visit(self, user: int, due_ns: int) -> None:
        step = self._step
        ask = self._user(user)
        thinking = None if step.think is None else seeded(step.seed, "think", user)
        for turn in range(step.turns):
            number = user * step.turns + turn
            if self._is_over(due_ns) or (step.requests is not None and number >= step.requests):
                return
            if turn:
                await self._until(due_ns)
            async with self._places.take() as place:
                free_ns = max(due_ns, place.since_ns)
                warm_up = self._is_warm_up(number, due_ns)
                due_ns = await self._send(ask, Due(number, user, turn, due_ns, free_ns, warm_up))
                place.since_ns = due_ns
            if step.think is not None and thinking is not None:
                due_ns += round(step.think.draw(thinking) * _NS)


class _Place:
    """One of the requests that may be under way at once.

    Args:
        since_ns: When the answer before had come, whenever we looked at it; 0 without one.
    """

    def __init__(self, since_ns: int = 0) -> None:
        self.since_ns = since_ns


class _Places:
    """A limit on requests at once: one that was asked for, or what the system allows us.

    Args:
        asked: By the step; None for no limit.
        room: So many connections we may have; None for no limit.
    """

    def __init__(self, asked: int | None, room: int | None) -> None:
        limits = [limit for limit in (asked, room) if limit is not None]
        self._free = asyncio.Semaphore(min(limits)) if limits else None
        self._is_asked = asked is not None and (room is None or asked <= room)
        self._since_ns = [0] * min(limits) if self._is_asked else []  # a heap, of free places

    @asynccontextmanager
    async def take(self) -> AsyncIterator[_Place]:
        """Hold a place; whoever does so writes into it when it is free again.

        Where the limit is our own system's, the request is late through our fault, and its place
        is told as free all the time.
        """
        if self._free is None:
            yield _Place()
            return
        async with self._free:
            if not self._is_asked:
                yield _Place()
                return
            place = _Place(heappop(self._since_ns))
            try:
                yield place
            finally:
                heappush(self._since_ns, place.since_ns)
