"""Anonymous memory of the server beside the count of finished requests."""

from __future__ import annotations

import time

import msgspec

from benchsuite.collect.process_memory import MemorySampler
from benchsuite.drive.driver import Served

_PAUSE_NS = 10_000_000
"""Between readings: one takes about 0.3 ms, and is taken between a reply and the next request."""


class GrowthPoint(msgspec.Struct, frozen=True):
    """One reading."""

    finished: int  # requests of the launch, this one included
    step: str | None  # load step that the last of them belongs to
    anon_bytes: int


class Growth:
    """What one process was seen to hold while it served.

    Attributes:
        points: Readings after finished requests, those of warm-up left out.
        counted: Finished requests after warm-up, by load step; those of turns and completes under
            the empty name.
        readable: Whether there are processes whose anonymous memory can be read; None before the
            first reading.
    """

    def __init__(self) -> None:
        self.points: list[GrowthPoint] = []
        self.counted: dict[str, int] = {}
        self.readable: bool | None = None
        self._finished = 0
        self._last_ns = 0

    def finished(self, served: Served, sampler: MemorySampler | None) -> None:
        """Count a request, and read memory unless that was done just before."""
        self._finished += 1
        if served.warm_up:
            return
        step = served.labels.get("step")
        self.counted[step or ""] = self.counted.get(step or "", 0) + 1
        now_ns = time.monotonic_ns()
        if sampler is None or now_ns - self._last_ns < _PAUSE_NS:
            return
        self._last_ns = now_ns
        reading = sampler.read()
        if reading is None or not reading.anon_bytes or reading.anon_bytes < 0:
            self.readable = bool(self.readable)
            return
        self.readable = True
        self.points.append(GrowthPoint(self._finished, step, reading.anon_bytes))
