"""What a server's log says of requests as they finish: their slots, and evaluations of prompts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from benchsuite.collect.log_follower import LogFollower
from benchsuite.collect.slots import contradiction_with_log, slot_of, timings_of
from benchsuite.drive.served import Served

_WAIT_SECONDS = 1.0  # for a line of a request that was answered


class RequestLines:
    """Finds the lines of finished requests, each looked for among those since the last look.

    Args:
        log: The server's log; None where it cannot be seen.
    """

    def __init__(self, log: LogFollower | None) -> None:
        self._log = log
        self._seen_timings = 0
        self._passed_over = 0  # requests whose timing lines may still come, or were not read
        self._seen_events = 0

    def begin(self) -> None:
        """Pass over what is in the log by now, as of a process that was just started."""
        self.end_step()
        if self._log is not None:
            self._seen_timings = len(self._log.reader.timings)

    def end_step(self) -> None:
        """Read on, so that the events of each step are kept apart."""
        if self._log is not None:
            self._log.poll()
            self._seen_events = len(self._log.reader.events)

    def pass_over(self, requests: int) -> None:
        """Know of finished requests that are not looked for, whose lines may come."""
        self._passed_over += requests

    async def slots_of(self, batch: Sequence[Served]) -> tuple[list[int | None], str | None]:
        """The slot that served each request, as its reply or the log tells.

        Returns:
            One slot a request, None where nothing tells; and, of a single request, a sentence
            where the log counts its evaluated tokens otherwise than its reply.
        """
        slots: list[int | None] = [served.reply.slot for served in batch]
        if self._log is None or None not in slots:
            self._passed_over += len(batch)
            return slots, None
        deadline = time.monotonic() + _WAIT_SECONDS
        pause = 0.0005
        while True:
            self._log.poll()
            timings = self._log.reader.timings
            # the reader drops the oldest half of very many; then all that are left are looked at
            fresh = timings[self._seen_timings if self._seen_timings <= len(timings) else 0 :]
            for i, served in enumerate(batch):
                if slots[i] is None:
                    slots[i] = slot_of(served.reply, fresh)
            if None not in slots or time.monotonic() > deadline:
                break
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.02)
        self._seen_timings = len(self._log.reader.timings)
        problem = None
        if len(batch) == 1 and None in slots and not self._passed_over:
            problem = contradiction_with_log(batch[0].reply, fresh)
        self._passed_over = sum(slot is None for slot in slots)  # whose lines may come late
        return slots, problem

    async def evaluations_of(self, served: Served) -> tuple[int | None, str]:
        """How many slots evaluated the prompt of a request, or why that is not known."""
        if self._log is None:
            return None, "only the log tells, and this server's cannot be seen"
        if not served.alone:
            return None, "other requests were under way"
        deadline = time.monotonic() + _WAIT_SECONDS
        self._log.poll()
        while not timings_of(served.reply, self._log.reader.timings):  # printed after its prompt
            if time.monotonic() > deadline:
                return None, "the log has no timings of it"
            await asyncio.sleep(0.005)
            self._log.poll()
        events = self._log.reader.events
        if self._seen_events > len(events):
            return None, "the log grew too long within one step"
        found = sum(
            event.kind == "new_prompt"
            and event.numbers.get("n_tokens") == served.reply.prompt_tokens
            for event in events[self._seen_events :]
        )
        return (found, "") if found else (None, "the log has no 'new prompt' line of it")
