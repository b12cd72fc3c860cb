"""Watches one launch while it is driven: log, memory, counters, slots, and every reply."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from benchsuite.client.api import LlamaClient
from benchsuite.collect.client_health import LATE_SHARE, ClientHealth, server_cores
from benchsuite.collect.counter_check import CounterCheck
from benchsuite.collect.excess import MOST_COMPARED, measure_excess
from benchsuite.collect.explain import Asked
from benchsuite.collect.launch_medians import launch_medians
from benchsuite.collect.leaks import leaks_measured, measure_leaks, measure_own
from benchsuite.collect.load import measure_load, nothing_sent, summarise_load
from benchsuite.collect.load_seen import MOST_KEPT, LoadSeen, kept_of_load
from benchsuite.collect.log_follower import LogFollower
from benchsuite.collect.memory_growth import Growth
from benchsuite.collect.reconcile import Totals, contradiction_in, totals_of
from benchsuite.collect.request_lines import RequestLines
from benchsuite.collect.requests import measure_copies, measure_reply, of_no_log
from benchsuite.collect.server_samples import ServerSampler
from benchsuite.collect.slot_tasks import SlotTasks
from benchsuite.collect.snapshots import Blind, Snapshots
from benchsuite.collect.speed_trend import SpeedTrends
from benchsuite.collect.statuses import measure_status
from benchsuite.drive.driver import Load, Refused, Served, Settled
from benchsuite.errors import ServerLiedError
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.load import LoadSummary, SweepSummary
from benchsuite.model.record import Measurement, Unmeasured
from benchsuite.store.records import Keep

_FREED_SECONDS = 1.0
"""A slot is freed just after its reply."""
BAD_REQUEST = 400
"""Refused before its prompt was evaluated: it leaves nothing in a slot."""
_MOST_ASKED = MOST_KEPT


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
        unseen: Why there are no `pids`; None where the server is seen over HTTP only.
        slots: How many the server says it has; None where it does not tell.

    Attributes:
        measurements: What was measured so far.
        unmeasured: What was not, and why.
        warnings: Sentences for the record.
        secrets: What only one session may say, by session.
        asked: Every request that was served, with its slot, the last 2,000 at most.
        in_flight: Labels of each request that was sent and not answered yet, and the slot that
            it is pinned to, in the order of sending.
        growth: Anonymous memory beside the count of finished requests.
        speeds: Decode speed over time, by load step.
        warm_ups: Turns and completes whose latency was left out.
        loads: What each load step came to.
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
        unseen: Blind | None = None,
        slots: int | None = None,
    ) -> None:
        self._client = client
        self._variant = variant
        self._trial = trial
        self._has_log = log is not None
        self._lines = RequestLines(log)
        self._keep = keep
        self._owned = owned
        self._counters = CounterCheck(client, self._keep_counters)
        self._slot_count = slots
        self._foreign: str | None = None
        self._told = False  # whether counts were turned inconclusive
        self._lost = ""  # a request that failed after it may have been evaluated
        self.measurements: list[Measurement] = []
        self.unmeasured: list[Unmeasured] = []
        self.warnings: list[str] = []
        self.secrets: dict[str, str] = {}  # by session; set before the first request
        self.asked: deque[Asked] = deque(maxlen=_MOST_ASKED)
        self._under_way: dict[_Key, tuple[dict[str, str], int | None]] = {}
        self.growth = Growth()
        self.speeds = SpeedTrends()
        self.warm_ups = 0
        self.loads: list[LoadSummary] = []
        self.sweeps: list[SweepSummary] = []
        self._load: LoadSeen | None = None  # of the load step that is under way
        self._snapshots = Snapshots(
            variant, trial, pids=pids, log=log, keep=keep, owned=owned, unseen=unseen
        )
        self._health = ClientHealth(self._requests, server_cores() if owned else None)
        self._sent = 0
        self._place = ("", "")  # step and stage that the request sent last belongs to
        self._step = ""  # load step that the request sent last belongs to
        self._server = ServerSampler(
            client,
            self._requests,
            lambda: self._step,
            None if pids is None else self._snapshots.beside,
            keep,
            variant,
            trial,
            owned=owned,
        )
        self._tasks = SlotTasks()
        self._sampling: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin sampling memory, and read the counters that later changes are held against."""
        if self._snapshots.sampler is not None:
            self._sampling.append(asyncio.ensure_future(self._snapshots.sampler.run()))
        self._sampling.append(asyncio.ensure_future(self._server.run()))
        self._health.start()
        uncounted = await self._counters.begin()
        self.warnings += [uncounted] if uncounted else []
        await self._check_busy([])
        self._lines.begin()

    @property
    def foreign(self) -> bool:
        """Whether someone else was seen to use the server."""
        return self._foreign is not None

    async def stop(self) -> None:
        """End sampling; what was measured stays."""
        for task in self._sampling:
            task.cancel()
        await asyncio.gather(*self._sampling, return_exceptions=True)
        self._sampling.clear()
        self._health.stop()
        for found in self._health.measure(self._variant, self._trial):
            self.add(found)
        if self._foreign is not None:
            self._distrust_counts(self._foreign)
            self._told = True
        self.warnings += self._snapshots.warnings
        self._snapshots.warnings.clear()

    def doubt(self, reason: str) -> None:
        """Take what was counted for inconclusive; the first reason stays."""
        self._foreign = self._foreign or reason

    def distrust(self, reason: str) -> None:
        """Doubt what was counted, once sampling has ended."""
        if self._told:
            self.warnings.append(reason)
        else:
            self.doubt(reason)
            self._distrust_counts(reason)

    def sending(self, labels: dict[str, str], slot: int | None) -> None:
        """Remember a request until its reply comes."""
        self._under_way[_key(labels)] = (labels, slot)
        self._sent += 1
        place = (labels.get("step", ""), labels.get("stage", ""))
        if place != self._place:
            self._place = place
            self._health.begin_step()
        self._step = place[0]

    @property
    def in_flight(self) -> list[tuple[dict[str, str], int | None]]:
        """Labels and pinned slot of each request under way, in the order of sending."""
        return list(self._under_way.values())

    def _requests(self) -> tuple[int, int]:
        """How many requests are under way, and how many were sent so far."""
        return len(self._under_way), self._sent

    def served(self, served: Served) -> None:
        """Keep a reply in the journal at once, before anything else can fail.

        Raises:
            ServerLiedError: Of a load step on a server of ours: its counts contradict each other.
        """
        self._answered(served.labels)
        kept: dict[str, Any] = {"reply": served.reply}
        if served.due_ns is not None:
            kept = {"reply": kept_of_load(served.reply), "due_ns": served.due_ns}
        self._keep("reply", variant=self._variant, trial=self._trial, labels=served.labels, **kept)
        if served.measured:
            self.growth.finished(served, self._snapshots.sampler)
            self.speeds.take(served)
        if served.due_ns is not None:
            problem = self._of_load().take(served)
            if problem is not None:
                self._contradiction(problem)

    def _of_load(self) -> LoadSeen:
        """What was seen of the load step that is under way."""
        if self._load is None:
            self._load = LoadSeen(self.secrets)
        return self._load

    def refused(self, refused: Refused) -> None:
        """Keep an error reply that was allowed; what it left in a slot may not be known."""
        self._answered(refused.labels)
        if refused.status != BAD_REQUEST:
            self._lost = self._lost or refused.message
        self._keep("refused", variant=self._variant, trial=self._trial, refused=refused)
        if refused.of_load:
            self._of_load().failed += 1

    def _answered(self, labels: dict[str, str]) -> None:
        self._under_way.pop(_key(labels), None)

    async def quiet(self, settled: Sequence[Settled]) -> None:
        """Settle what finished requests leave open: slots, measurements, counts.

        Raises:
            ServerLiedError: On a server of ours, where counts contradict each other or a slot
                other than the one asked for has served; or it is not healthy after an error.
        """
        batch = [one for one in settled if isinstance(one, Served)]
        self._lines.pass_over(len(settled) - len(batch))
        slots = await self._slots(batch)
        for served, slot in zip(batch, slots, strict=True):
            if served.measured:
                self._measure(served, slot)
                await self._measure_copies(served)
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
            if slot is not None and slot >= (self._slot_count or slot + 1):
                self._contradiction(
                    f"{served.words}: slot {slot} served it, but the server has "
                    f"{self._slot_count} slots, from 0 on"
                )
        for one in settled:
            measured, unmeasured = measure_status(one, self._variant, self._trial)
            self.measurements += measured
            self.unmeasured += unmeasured
        failed = [one for one in settled if isinstance(one, Refused)]
        totals = None if failed else totals_of([one.reply for one in batch])
        broke_off = any(one.status != BAD_REQUEST for one in failed)
        last = settled[-1].words if settled else "nothing"
        await self._check_counters(totals, last, broke_off=broke_off)
        await self._check_busy(_slots_used(batch, slots) + [None] * (len(settled) - len(batch)))
        await self._check_health(failed)
        self._lines.end_step()

    async def loaded(self, load: Load) -> None:
        """Settle a load step: its measurements, and what its requests leave open.

        Raises:
            ServerLiedError: On a server of ours, where counts contradict each other.
        """
        seen, self._load = self._of_load(), None
        last = list(seen.last)
        slots = await self._slots(last)
        self.asked.extend(map(Asked, last, slots))
        measured, unmeasured = measure_load(load, self._variant, self._trial)
        self.measurements += measured
        self.unmeasured += unmeasured
        if not load.tally.is_empty:
            for found in self._health.measure_step(load.labels, self._variant, self._trial):
                self.add(found)
        else:  # what our event loop and answers were like, was so in the step before
            names = [LATE_SHARE, *(["leaks"] if self.secrets and not load.stage else [])]
            for name in names:
                self.add(nothing_sent(name, self._variant, self._trial, load.labels))
        if not load.stage:
            self._measure_looks(load.name)
        if self.secrets and not load.stage and not load.tally.is_empty:
            labels = {"step": load.name}
            self.measurements.append(leaks_measured(seen.leaks, labels, self._variant, self._trial))
            self.warnings += seen.warnings
        self.loads.append(summarise_load(load, capped=self._client.is_paced))
        self.warnings += self.loads[-1].warnings
        if seen.failed or seen.served:
            totals = None if seen.failed else seen.totals
            await self._check_counters(totals, f"load {load.name}", broke_off=bool(seen.failed))
        await self._check_busy(_slots_used(last, slots) + [None] * seen.unknown)
        self._lines.end_step()

    def cut(self, load: Load, so_far: Sequence[str]) -> None:
        """Keep how far a load came that an interruption or a fault has ended.

        Args:
            load: What it came to.
            so_far: Its figures in words: it is not measured.
        """
        told = summarise_load(load, capped=self._client.is_paced)
        words = (
            f"{load.words} was cut short after {load.wall_ns / 1e9:.1f} s and {told.sent} "
            "requests: nothing is judged by what came of it"
        )
        told = msgspec.structs.replace(
            told, cut=True, so_far=tuple(so_far), warnings=(words, *told.warnings)
        )
        self.loads.append(told)
        self.warnings += told.warnings

    async def restarted(self) -> None:
        """Begin anew with a fresh process: its counters, and slots that hold nothing."""
        self.asked.clear()
        self.growth.restarted()
        await self._counters.begin()
        self._lines.begin()

    async def snapshot(self, name: str) -> None:
        """Read memory now, labelled `at="NAME"`."""
        measured, unmeasured = self._snapshots.take(name)
        self.measurements += measured
        self.unmeasured += unmeasured

    @property
    def sees_memory(self) -> bool:
        """Whether the server's processes can be seen."""
        return self._snapshots.sampler is not None

    @property
    def trial(self) -> int:
        """The trial, from 1."""
        return self._trial

    def conclude(self) -> None:
        """Once all steps are done: the launch's medians over its requests."""
        self.measurements += launch_medians(
            self.measurements, self.warm_ups, self._variant, self._trial
        )

    def add(self, found: Measurement | Unmeasured) -> None:
        """Take what a step outside the server has found."""
        if isinstance(found, Measurement):
            self.measurements.append(found)
        else:
            self.unmeasured.append(found)

    # below: the parts of `quiet` and `snapshot`

    def _measure(self, served: Served, slot: int | None) -> None:
        measured, unmeasured = measure_reply(
            served.reply,
            slot,
            served.labels,
            self._variant,
            self._trial,
            warm_up=served.warm_up,
        )
        unmeasured = self._of_log(unmeasured)
        self.warm_ups += served.warm_up
        if served.wanted_slot is not None and slot is None:
            reason = (
                f"{served.words} is pinned to slot {served.wanted_slot}, and nothing tells which "
                "slot served it"
            )
            unmeasured = [self._doubt(m, reason) for m in measured] + unmeasured
            measured = []
        self.measurements.extend(measured)
        self.unmeasured.extend(unmeasured)
        self._measure_leaks(served.labels, [served])

    def _measure_leaks(self, labels: dict[str, str], batch: Sequence[Served]) -> None:
        if not self.secrets:
            return
        found, warnings = measure_leaks(batch, self.secrets, labels, self._variant, self._trial)
        self.measurements.append(found)
        said = [measure_own(one, self.secrets, self._variant, self._trial) for one in batch]
        self.measurements += [one for one in said if one is not None]
        self.warnings += warnings

    def _measure_looks(self, step: str) -> None:
        found, gaps = self._server.measure(step)
        for one in found:
            self.add(one)
        self.warnings += [gaps] if gaps else []

    async def measure_excess(self) -> None:
        """Hold cached tokens against what could be reused; to be asked once all steps are done.

        Raises:
            ServerError: The server does not answer.
        """
        why = ""
        if not self._owned:
            why = "what others and earlier runs left on this server is not known"
        elif len(self.asked) > MOST_COMPARED:
            why = f"more than {MOST_COMPARED} requests are not compared with each other"
        elif self._lost:
            why = f"what a request that failed left is not known: {self._lost}"
        measured, unmeasured = await measure_excess(
            self._client, self.asked, why, self._variant, self._trial, owned=self._owned
        )
        self.measurements += measured
        self.unmeasured += unmeasured

    async def _measure_copies(self, served: Served) -> None:
        copies = served.reply.copies
        if not copies:
            return
        measured, unmeasured = measure_copies(
            served.reply,
            [copy.slot for copy in copies],
            served.labels,
            self._variant,
            self._trial,
        )
        self.measurements.extend(measured)
        self.unmeasured.extend(self._of_log(unmeasured))
        evaluations, why = await self._lines.evaluations_of(served)
        name, labels = "prompt_evaluations", served.labels
        if evaluations is None:
            missing = Unmeasured(name, self._variant, why, trial=self._trial, labels=labels)
            self.unmeasured += self._of_log([missing])
            return
        unit = CATALOGUE[name].unit
        self.measurements.append(
            Measurement(
                name, evaluations, unit, self._variant, self._trial, labels, source="log new prompt"
            )
        )

    def _of_log(self, unmeasured: list[Unmeasured]) -> list[Unmeasured]:
        unseen = not self._has_log and not self._owned
        return [of_no_log(one) for one in unmeasured] if unseen else unmeasured

    async def _slots(self, batch: Sequence[Served]) -> list[int | None]:
        slots, problem = await self._lines.slots_of(batch)
        if problem is not None and self._owned:
            self._contradiction(f"{batch[0].words}: {problem}")
        return slots

    async def _check_health(self, refused: Sequence[Refused]) -> None:
        if refused and not await self._client.healthy():
            told = refused[-1]
            raise ServerLiedError(
                f"{told.words} was answered with an error ({told.status}: {told.message}), and "
                "since then /health no longer says that the server is ready"
            )

    async def _check_counters(self, told: Totals | None, words: str, *, broke_off: bool) -> None:
        found = await self._counters.look(told, broke_off=broke_off)
        if found.fell is not None and not self._owned:
            self.doubt(found.fell)
        elif found.problem is not None and self._owned:
            self._contradiction(f"after {words}: {found.problem}")
        elif found.problem is not None:
            self.doubt(f"someone else uses this server: {found.problem}")

    def _keep_counters(self, counters: dict[str, float]) -> None:
        self._keep("counters", variant=self._variant, trial=self._trial, counters=counters)

    async def _check_busy(self, ours: Sequence[int | None]) -> None:
        """Look whether an attached server is at work though all of our requests were answered."""
        if self._owned or self._foreign is not None or self._under_way:
            return
        deadline = time.monotonic() + _FREED_SECONDS
        while True:
            slots = await self._client.slots()
            busy = [slot.id for slot in slots or () if slot.is_busy]
            if not busy:
                others = self._tasks.look(slots, ours)
                if others is not None:
                    self.doubt(others)
                return
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.05)
        self.doubt(
            f"someone else uses this server: slot {busy[0]} of /slots is busy, and none of our "
            "requests is under way"
        )

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


_Key = frozenset[tuple[str, str]]


def _key(labels: dict[str, str]) -> _Key:
    return frozenset(labels.items())


def _slots_used(batch: Sequence[Served], slots: Sequence[int | None]) -> list[int | None]:
    """The slots that our requests have used; None for each that is not known."""
    copies = [copy.slot for served in batch for copy in served.reply.copies]
    return [*slots, *copies]
