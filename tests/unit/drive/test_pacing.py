"""When the requests of closed and open loops are sent, by a clock that is moved by hand."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from benchsuite.drive import pacing
from benchsuite.drive.pacing import Ask, Clock, Due, Pace, keep_pace
from benchsuite.errors import MachineError
from benchsuite.model.load import Arrivals, Think
from benchsuite.model.scenario import LoadStep, PromptSpec

NS = 1_000_000_000
MANY = LoadStep("many", 5, 2, PromptSpec(tokens=4))


class HandClock:
    """A clock that jumps to the next sleeper once nobody else can do anything."""

    def __init__(self) -> None:
        self.now = 1000 * NS
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._still = 0  # rounds of the loop in which nobody began to sleep
        self._watching = False

    async def sleep(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        at = self.now + max(0, round(seconds * NS))
        one: asyncio.Future[None] = loop.create_future()
        self._sleepers.append((at, len(self._sleepers), one))
        self._still = 0
        if not self._watching:
            self._watching = True
            loop.call_soon(self._look)
        await one

    def _look(self) -> None:
        self._still += 1
        if self._still > 20:
            self._still = 0
            waiting = [s for s in self._sleepers if not s[2].done()]
            if not waiting:
                self._watching = False
                return
            at, _, one = min(waiting, key=lambda s: s[:2])
            self.now = max(self.now, at)
            one.set_result(None)
        asyncio.get_running_loop().call_soon(self._look)


class Played:
    """What was sent when, in seconds since the beginning."""

    def __init__(
        self,
        step: LoadStep,
        takes: float,
        busy_at: tuple[int, float] = (-1, 0),
        busy_after: float = 0,
        slow: tuple[int, float] = (-1, 0),
    ) -> None:
        self.clock = HandClock()
        self.dues: list[Due] = []
        self.sent: list[float] = []
        begin = self.clock.now

        async def ask(due: Due) -> int:
            self.dues.append(due)
            self.sent.append((self.clock.now - begin) / NS)
            if due.number == busy_at[0]:
                self.clock.now += round(busy_at[1] * NS)  # nothing else runs meanwhile
            await self.clock.sleep(slow[1] if due.number == slow[0] else takes)
            answered = self.clock.now
            self.clock.now += round(busy_after * NS)
            return answered

        def user(number: int) -> Ask:
            return ask

        clock = Clock(lambda: self.clock.now, self.clock.sleep)
        self.pace: Pace = asyncio.run(keep_pace(step, user, clock))
        self.due = [(due.due_ns - begin) / NS for due in self.dues]
        self.free = [(due.free_ns - begin) / NS for due in self.dues]


def changed(**fields: object) -> LoadStep:
    """The step with other fields."""
    return msgspec.structs.replace(MANY, **fields)


def open_loop(rate: float = 10, **fields: object) -> LoadStep:
    """An open loop at a constant rate unless told otherwise."""
    return changed(arrivals=Arrivals("constant", rate), concurrency=1, **fields)


def test_a_request_is_due_when_the_users_last_one_was_answered() -> None:
    """The first of each user when the loop begins."""
    played = Played(MANY, takes=1)
    assert played.due == [0, 0, 1, 1, 2]
    assert [due.number for due in played.dues] == [0, 1, 2, 3, 4]
    assert played.pace == Pace(3 * NS, 2)


def test_a_user_thinks_between_answer_and_request() -> None:
    """By a draw of its own, the same in every run."""
    step = changed(requests=3, concurrency=1, think=Think("fixed", 0.5))
    assert Played(step, takes=1).due == [0, 1.5, 3]
    drawn = changed(think=Think("exponential", 0.5))
    assert Played(drawn, takes=1).due == Played(drawn, takes=1).due


def test_nothing_is_due_at_the_end_of_a_duration_and_the_rest_is_waited_for() -> None:
    """Three begin within two seconds, the last ends after it."""
    played = Played(changed(requests=None, concurrency=1, duration=2.0), takes=0.9)
    assert played.due == pytest.approx([0, 0.9, 1.8])
    assert played.pace.wall_ns == round(2.7 * NS)


def test_an_open_loop_does_not_wait_for_a_server_that_stalls() -> None:
    """Each is sent when it is due, although none was answered yet."""
    played = Played(open_loop(requests=8), takes=60)
    assert played.due == pytest.approx([i / 10 for i in range(8)])
    assert played.sent == pytest.approx(played.due)
    assert played.pace.most_in_flight == 8


def test_what_waits_for_a_place_keeps_its_due_time() -> None:
    """Two places, one second each, ten a second: waiting grows, and nobody hides it."""
    played = Played(open_loop(requests=6, in_flight=2), takes=1)
    assert played.due == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5])
    assert played.sent == pytest.approx([0, 0.1, 1, 1.1, 2, 2.1])
    assert played.free == pytest.approx(played.sent)  # so none of it is our lateness
    assert played.pace.most_in_flight == 2


def test_what_a_busy_client_sends_late_was_free_before() -> None:
    """A client that is held up for a second is late by what is left of it at each due time."""
    played = Played(open_loop(requests=6), takes=0.01, busy_at=(1, 1.0))
    late = [sent - free for sent, free in zip(played.sent, played.free, strict=True)]
    assert late == pytest.approx([0, 0, 0.9, 0.8, 0.7, 0.6])


def test_what_we_take_to_look_at_an_answer_is_our_lateness() -> None:
    """One place, answers after 0.2 s, and 80 ms of our own after each, before anyone may send: the
    place was free when the answer had come."""
    played = Played(open_loop(requests=4, in_flight=1), takes=0.2, busy_after=0.08)
    assert played.sent == pytest.approx([0, 0.28, 0.56, 0.84])
    assert played.free == pytest.approx([0, 0.2, 0.48, 0.76])


def test_a_place_that_was_free_before_a_request_was_due_makes_it_no_earlier() -> None:
    """Of two places one is taken for long; the other serves all that come, each when it is due."""
    played = Played(open_loop(requests=5, in_flight=2, rate=1), takes=0.5, slow=(0, 3.0))
    assert played.free == pytest.approx(played.due)
    assert played.due == pytest.approx([0, 1, 2, 3, 4])


def test_turns_of_an_open_loop_follow_their_answers() -> None:
    """A user comes by schedule; its second turn waits for the first one's answer and its thinking.
    The third user is cut short by the count of requests."""
    step = open_loop(rate=1, requests=5, turns=2, think=Think("fixed", 0.25), api="chat")
    played = Played(step, takes=0.5)
    found = sorted(
        (due.user, due.turn, at) for due, at in zip(played.dues, played.due, strict=True)
    )
    assert found == [(0, 0, 0), (0, 1, 0.75), (1, 0, 1), (1, 1, 1.75), (2, 0, 2)]


@pytest.mark.parametrize(
    ("step", "warm"),
    [
        (open_loop(requests=6, warm_up=2), [True, True, False, False, False, False]),
        (open_loop(requests=6, warm_up_seconds=0.35), [True] * 4 + [False] * 2),
        (changed(requests=4, concurrency=1, warm_up_seconds=0.5), [True, False, False, False]),
    ],
)
def test_warm_up_is_by_number_or_by_due_time(step: LoadStep, warm: list[bool]) -> None:
    """Whatever was sent when."""
    assert [due.warm_up for due in Played(step, takes=1).dues] == warm


@pytest.mark.parametrize("step", [MANY, open_loop(requests=5)])
def test_a_fault_ends_the_loop_and_what_was_under_way(step: LoadStep) -> None:
    """It is raised as it is, and nothing goes on behind it."""
    given_up = []

    def user(number: int) -> Ask:
        async def ask(due: Due) -> int:
            if due.number == 1:
                raise ValueError("gone")
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                given_up.append(due.number)
                raise
            return 0

        return ask

    with pytest.raises(ValueError, match="gone"):
        asyncio.run(keep_pace(step, user))
    assert given_up == [0]


@pytest.mark.parametrize(
    ("users", "requests", "fits"), [(4, None, True), (5, None, False), (5, 4, True)]
)
def test_a_closed_loop_that_needs_more_connections_than_fit_is_refused(
    users: int, requests: int | None, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told as the machine's fault, before a request is sent; only requests take one."""

    @contextmanager
    def four() -> Iterator[int | None]:
        yield 4

    monkeypatch.setattr(pacing, "connections_at_once", four)
    duration = 0.5 if requests is None else None
    step = changed(concurrency=users, requests=requests, duration=duration)
    if fits:
        assert Played(step, takes=1).pace.most_in_flight == 4
        return
    with pytest.raises(MachineError, match="load many needs 5 connections at once") as raised:
        Played(step, takes=1)
    assert "ulimit -n 133" in (raised.value.hint or "")


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit")
@pytest.mark.parametrize("step", [MANY, open_loop(requests=5)])
def test_a_loop_may_hold_as_many_files_as_the_system_lets_it(step: LoadStep) -> None:
    """And no more than before once it is over."""
    import resource

    kind = resource.RLIMIT_NOFILE
    before = soft, hard = resource.getrlimit(kind)
    lower = (256 if soft == resource.RLIM_INFINITY else min(256, soft), hard)
    seen = set()

    async def ask(due: Due) -> int:
        seen.add(resource.getrlimit(kind)[0])
        return due.due_ns

    try:
        resource.setrlimit(kind, lower)
        asyncio.run(keep_pace(step, lambda _: ask))
        assert resource.getrlimit(kind) == lower
    finally:
        resource.setrlimit(kind, before)
    assert lower[0] not in seen
