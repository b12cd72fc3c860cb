"""Watches one launch while it is driven: log, memory, counters, slots, and every reply."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence

from benchsuite.client.api import LlamaClient
from benchsuite.collect.explain import Asked
from benchsuite.collect.log_follower import LogFollower
from benchsuite.collect.reconcile import contradiction_in, contradictions_with_counters
from benchsuite.collect.requests import measure_reply
from benchsuite.collect.slots import slot_of
from benchsuite.collect.snapshots import Snapshots
from benchsuite.drive.driver import Served
from benchsuite.errors import ServerLiedError
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.record import Measurement, Unmeasured
from benchsuite.store.records import Keep

_LOG_WAIT_SECONDS = 1.0
_MOST_ASKED = 2000


class Watch:
    """What is seen of one launch besides the driver's requests.

    Args:
        client: For `/metrics`.
        variant: Name of the variant.
        trial: From 1.
        log: The server's log; None where it cannot be seen.
        pids: Gives the server's processes; None where they cannot be seen.
        keep: The journal.
        owned: Whether we launched the server; contradictions are errors then, else warnings.

    Attributes:
        measurements: What was measured so far.
        unmeasured: What was not, and why.
        warnings: Sentences for the record.
        asked: Every request that was served, with its slot, the last 2,000 at most.
    """

    def __init__(
        self,
        client: LlamaClient,
        variant: str,
        trial: int,
        *,
        log: LogFollower | None,
        pids: Callable[[], Sequence[int]] | None,
        keep: Keep,
        owned: bool,
    ) -> None:
        self._client = client
        self._variant = variant
        self._trial = trial
        self._log = log
        self._keep = keep
        self._owned = owned
        self._counters: dict[str, float] | None = None
        self._seen_timings = 0
        self._foreign: str | None = None
        self.measurements: list[Measurement] = []
        self.unmeasured: list[Unmeasured] = []
        self.warnings: list[str] = []
        self.asked: deque[Asked] = deque(maxlen=_MOST_ASKED)
        self._snapshots = Snapshots(variant, trial, pids=pids, log=log, keep=keep, owned=owned)
        self._sampling: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin sampling memory, and read the counters that later changes are held against."""
        if self._snapshots.sampler is not None:
            self._sampling = asyncio.ensure_future(self._snapshots.sampler.run())
        self._counters = await self._client.metrics()
        if self._counters is None:
            self.warnings.append("/metrics is off: counts were not checked against it")
        if self._log is not None:
            self._log.poll()
            self._seen_timings = len(self._log.reader.timings)

    @property
    def foreign(self) -> bool:
        """Whether someone else was seen to use the server."""
        return self._foreign is not None

    async def stop(self) -> None:
        """End sampling; what was measured stays."""
        if self._sampling is not None:
            self._sampling.cancel()
            await asyncio.gather(self._sampling, return_exceptions=True)
            self._sampling = None
        if self._foreign is not None:
            self._distrust_counts(self._foreign)
        self.warnings += self._snapshots.warnings
        self._snapshots.warnings.clear()

    def served(self, served: Served) -> None:
        """Keep a reply in the journal at once, before anything else can fail."""
        self._keep(
            "reply",
            variant=self._variant,
            trial=self._trial,
            labels=served.labels,
            reply=served.reply,
        )

    async def quiet(self, batch: Sequence[Served]) -> None:
        """Settle what finished requests leave open: slots, measurements, counts.

        Raises:
            ServerLiedError: On a server of ours, where counts contradict each other or a slot
                other than the one asked for has served.
        """
        slots = await self._slots(batch)
        for served, slot in zip(batch, slots, strict=True):
            if served.measured:
                self._measure(served, slot)
                self.asked.append(Asked(served, slot))
        for served, slot in zip(batch, slots, strict=True):
            problem = contradiction_in(served.reply)
            if problem is not None:
                self._contradiction(f"{served.words}: {problem}")
            if served.wanted_slot is not None and slot is not None and slot != served.wanted_slot:
                raise ServerLiedError(
                    f"{served.words} asked for slot {served.wanted_slot}, but slot {slot} served "
                    "it; llama-server passes over a slot that it does not have without a word",
                    hint="pin to a slot below the server's number of slots (parallel)",
                )
        await self._check_counters(batch)
        if self._log is not None:
            self._log.poll()  # keeps the events of each step

    async def snapshot(self, name: str) -> None:
        """Read memory now, labelled `at="NAME"`."""
        measured, unmeasured = self._snapshots.take(name)
        self.measurements += measured
        self.unmeasured += unmeasured

    # below: the parts of `quiet` and `snapshot`

    def _measure(self, served: Served, slot: int | None) -> None:
        measured, unmeasured = measure_reply(
            served.reply, slot, served.labels, self._variant, self._trial
        )
        if served.wanted_slot is not None and slot is None:
            reason = (
                f"{served.words} is pinned to slot {served.wanted_slot}, and nothing tells which "
                "slot served it"
            )
            unmeasured = [self._doubt(m, reason) for m in measured] + unmeasured
            measured = []
        self.measurements.extend(measured)
        self.unmeasured.extend(unmeasured)

    async def _slots(self, batch: Sequence[Served]) -> list[int | None]:
        slots: list[int | None] = [served.reply.slot for served in batch]
        if self._log is None or None not in slots:
            return slots
        deadline = time.monotonic() + _LOG_WAIT_SECONDS
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
        return slots

    async def _check_counters(self, batch: Sequence[Served]) -> None:
        if self._counters is None:
            return
        before = self._counters
        self._counters = await self._client.metrics() or before
        self._keep("counters", variant=self._variant, trial=self._trial, counters=self._counters)
        replies = [served.reply for served in batch]
        problems = contradictions_with_counters(before, self._counters, replies)
        if problems and self._owned:
            self._contradiction(f"after {batch[-1].words}: {problems[0]}")
        elif problems:
            self._foreign = f"someone else uses this server: {problems[0]}"

    def _contradiction(self, sentence: str) -> None:
        if self._owned:
            raise ServerLiedError(sentence)
        self.warnings.append(sentence)

    def _distrust_counts(self, reason: str) -> None:
        """Turn the counts of an attached server into 'inconclusive': others changed its cache."""
        self.warnings.append(reason)
        kept: list[Measurement] = []
        for measurement in self.measurements:
            if CATALOGUE[measurement.name].source == "http":
                self.unmeasured.append(self._doubt(measurement, reason))
            else:
                kept.append(measurement)
        self.measurements = kept

    def _doubt(self, measurement: Measurement, reason: str) -> Unmeasured:
        return Unmeasured(
            measurement.name,
            self._variant,
            reason,
            "inconclusive",
            trial=self._trial,
            labels=measurement.labels,
        )
