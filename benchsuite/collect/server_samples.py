"""What the server says of itself while requests are under way, sampled on the requests' clock.

Each look asks `/slots` and `/metrics` once and goes to the journal at once; in memory stay sums
only. A look that brings no answer is a gap: it is told, and fails nothing.

What builds 10092, 10434 and 11434 tell: `/slots` which slots are busy and how many tokens each
holds, `/metrics` `requests_processing` and `requests_deferred`. The gauge `kv_cache_usage_ratio` is
gone since 2025 (#13660), so that KV use is what the slots hold. `/slots` wakes a sleeping server
and `/metrics` begins a new window of two gauges, so nothing is asked while none of our requests is
under way, and of a server that is not ours only `/slots`, slowly, within its cap of the rate.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec

from benchsuite.client.api import LlamaClient
from benchsuite.client.prometheus import SOURCE as METRICS
from benchsuite.client.slots import SOURCE as SLOTS
from benchsuite.client.slots import Slot
from benchsuite.collect.snapshots import Beside
from benchsuite.errors import BenchsuiteError
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.record import Measurement, Unmeasured
from benchsuite.store.records import Keep

KIND_SAMPLE = "server"
"""The kind of a sample's event in the journal."""

INTERVAL_SECONDS = 1.0
"""From look to look at a server of ours. What a look costs us stands in docs/soak.md."""

ATTACHED_SECONDS = 10.0
"""From look to look at a server that someone else runs."""

_FIRST_SECONDS = 0.25  # a short load step is seen too
_ANSWER_SECONDS = 5.0  # a look that takes longer is a gap
_NS = 1e9


class ServerSample(msgspec.Struct, frozen=True, omit_defaults=True):
    """One look; None for what this build does not tell, or was not asked."""

    at_ns: int  # monotonic, when the answer had come
    took_ns: int  # from asking to the answers
    step: str = ""  # load step that was under way
    in_flight: int = 0  # requests of ours
    slots: int | None = None
    busy: int | None = None  # of them
    held_tokens: int | None = None  # in all slots
    processing: int | None = None  # requests, by /metrics
    deferred: int | None = None  # requests that wait for a slot, by /metrics
    cgroup_bytes: int | None = None  # of the server's own cgroup
    gpu_bytes: dict[str, int] = {}  # by device
    counters: dict[str, float] = {}  # of /metrics
    gap: str = ""  # why there was no answer


class StepSeen:
    """What the looks during one load step come to.

    Attributes:
        looks: How many brought an answer.
        gaps: How many did not.
        why: The first of them, in words.
    """

    def __init__(self) -> None:
        self.looks = 0
        self.gaps = 0
        self.why = ""
        self._most: dict[str, int] = {}
        self._sums: dict[str, int] = {}
        self._counts: dict[str, int] = {}

    def take(self, sample: ServerSample) -> None:
        """Take one look."""
        if sample.gap:
            self.gaps += 1
            self.why = self.why or sample.gap
            return
        self.looks += 1
        for name in ("busy", "deferred", "held_tokens"):
            value: int | None = getattr(sample, name)
            if value is None:
                continue
            self._most[name] = max(value, self._most.get(name, value))
            self._sums[name] = self._sums.get(name, 0) + value
            self._counts[name] = self._counts.get(name, 0) + 1

    def most(self, name: str) -> int | None:
        """The largest value of a field; None where no look told it."""
        return self._most.get(name)

    def mean(self, name: str) -> float | None:
        """The mean of a field; None where no look told it."""
        return self._sums[name] / self._counts[name] if name in self._sums else None


class ServerSampler:
    """Looks at a server at a set pace while requests are under way.

    Args:
        client: The server; the cap of its rate holds for looks too.
        requests: How many requests are under way, and how many were sent so far.
        step: The load step under way; empty outside of one.
        beside: What else is read at each look; None reads nothing.
        keep: The journal.
        variant: Name of the variant.
        trial: From 1.
        owned: Whether we launched the server.

    Attributes:
        steps: What was seen, by load step.
    """

    def __init__(
        self,
        client: LlamaClient,
        requests: Callable[[], tuple[int, int]],
        step: Callable[[], str],
        beside: Callable[[], Beside] | None,
        keep: Keep,
        variant: str,
        trial: int,
        *,
        owned: bool,
    ) -> None:
        self._client = client
        self._requests = requests
        self._step = step
        self._beside = beside
        self._keep = keep
        self._variant = variant
        self._trial = trial
        self._has_slots = True
        self._has_metrics = owned  # others scrape its windows
        self._interval_seconds = INTERVAL_SECONDS if owned else ATTACHED_SECONDS
        self.steps: dict[str, StepSeen] = {}

    async def run(self) -> None:
        """Look until cancelled, or until the server has neither endpoint."""
        await asyncio.sleep(_FIRST_SECONDS)
        due = time.monotonic()
        while self._has_slots or self._has_metrics:
            if self._requests()[0]:
                await self.look()
            # a look that took long shifts the next ones: they must not pile up on a busy server
            due = max(due + self._interval_seconds, time.monotonic())
            await asyncio.sleep(due - time.monotonic())

    async def look(self) -> ServerSample:
        """Ask once, and keep what came."""
        step, under_way = self._step(), self._requests()[0]
        began_ns = time.monotonic_ns()
        slots: tuple[Slot, ...] | None = None
        counters: dict[str, float] | None = None
        gap = ""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                if self._has_slots:
                    slots = await self._client.slots()
                    self._has_slots = slots is not None
                if self._has_metrics:
                    counters = await self._client.metrics()
                    self._has_metrics = counters is not None
        except TimeoutError:
            gap = f"no answer within {_ANSWER_SECONDS:g} s"
        except (BenchsuiteError, RuntimeError) as error:  # httpx: closed while a server restarts
            gap = str(error) or type(error).__name__
        if not gap and slots is None and counters is None:
            gap = "/slots and /metrics are off"
        told = counters or {}
        beside = Beside() if self._beside is None else self._beside()
        now_ns = time.monotonic_ns()
        sample = ServerSample(
            at_ns=now_ns,
            took_ns=now_ns - began_ns,
            step=step,
            in_flight=under_way,
            slots=None if slots is None else len(slots),
            busy=_busy(slots),
            held_tokens=_held(slots),
            processing=_whole(told, "requests_processing"),
            deferred=_whole(told, "requests_deferred"),
            cgroup_bytes=beside.cgroup_bytes,
            gpu_bytes=beside.gpu_bytes,
            counters=told,
            gap=gap,
        )
        self._keep(KIND_SAMPLE, variant=self._variant, trial=self._trial, sample=sample)
        if step:
            self.steps.setdefault(step, StepSeen()).take(sample)
        return sample

    def measure(self, step: str) -> tuple[list[Measurement | Unmeasured], str]:
        """What the looks during a load step come to, and a sentence on gaps; empty without any."""
        return measure_looks(self.steps.pop(step, StepSeen()), step, self._variant, self._trial)


def measure_looks(
    seen: StepSeen, step: str, variant: str, trial: int
) -> tuple[list[Measurement | Unmeasured], str]:
    """As `ServerSampler.measure`; pure."""
    labels = {"step": step}
    found: list[Measurement | Unmeasured] = []
    source = f"{seen.looks} look{'' if seen.looks == 1 else 's'}"
    for name, value, where in (
        ("slots_busy_max", seen.most("busy"), SLOTS),
        ("slots_busy_mean", seen.mean("busy"), SLOTS),
        ("slot_tokens_max", seen.most("held_tokens"), SLOTS),
        ("requests_deferred_max", seen.most("deferred"), METRICS),
    ):
        if value is not None:
            unit = CATALOGUE[name].unit
            told = f"{where}, {source}"
            found.append(Measurement(name, value, unit, variant, trial, labels, source=told))
            continue
        why, outcome = f"{where} does not tell it", "not_applicable"
        if not seen.looks:
            why = seen.why or "the step was over before the first look at the server"
            outcome = "inconclusive"
        found.append(
            Unmeasured(
                name,
                variant,
                why,
                "inconclusive" if outcome == "inconclusive" else "not_applicable",
                trial=trial,
                labels=labels,
            )
        )
    if not seen.gaps:
        return found, ""
    return found, (
        f"load {step}: {seen.gaps} of {seen.gaps + seen.looks} looks at /slots and /metrics "
        f"brought no answer and are gaps, the first: {seen.why}"
    )


def _busy(slots: tuple[Slot, ...] | None) -> int | None:
    if not slots or any(slot.is_busy is None for slot in slots):
        return None
    return sum(bool(slot.is_busy) for slot in slots)


def _held(slots: tuple[Slot, ...] | None) -> int | None:
    """Tokens in all slots; a build that tells none of any slot tells nothing."""
    told = [slot.held_tokens for slot in slots or () if slot.held_tokens is not None]
    return sum(told) if told else None


def _whole(counters: dict[str, float], name: str) -> int | None:
    value = counters.get(name)
    return None if value is None or value < 0 else int(value)
