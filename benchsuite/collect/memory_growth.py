"""Anonymous memory of the server beside the count of finished requests.

However many requests there are, few readings are kept, evenly over them: once a series is full,
every second is dropped and the pause between readings doubles.
"""

from __future__ import annotations

import time

import msgspec

from benchsuite.collect.process_memory import MemorySampler
from benchsuite.drive.served import Served

_PAUSE_NS = 10_000_000
"""Between readings: one takes about 0.3 ms, and is taken between a reply and the next request."""

MOST_POINTS = 512
"""Readings that are kept since the last restart, and of each load step, at most; from then on at
least half as many. A slope looks at every pair of them."""


class GrowthPoint(msgspec.Struct, frozen=True):
    """One reading."""

    finished: int  # requests of the process, this one included
    step: str | None  # load step that the last of them belongs to
    anon_bytes: int
    at_ns: int = 0  # monotonic


class _Readings:
    """One series of readings that never grows long."""

    def __init__(self) -> None:
        self.points: list[GrowthPoint] = []
        self._pause_ns = _PAUSE_NS
        self._last_ns = 0

    def is_due(self, now_ns: int) -> bool:
        return now_ns - self._last_ns >= self._pause_ns

    def tried(self, now_ns: int) -> None:
        self._last_ns = now_ns

    def add(self, point: GrowthPoint) -> None:
        self.points.append(point)
        if len(self.points) >= MOST_POINTS:
            del self.points[1::2]
            self._pause_ns *= 2


class Growth:
    """What the processes of a launch, one after another, were seen to hold while they served.

    Attributes:
        counted: Finished requests of the launch after warm-up, by load step; those of turns and
            completes under the empty name.
        readable: Whether there are processes whose anonymous memory can be read; None before the
            first reading.
    """

    def __init__(self) -> None:
        self.counted: dict[str, int] = {}
        self.readable: bool | None = None
        self._finished = 0
        self._earlier = 0  # of the counted: by processes before this one
        self._series: dict[str | None, _Readings] = {None: _Readings()}

    @property
    def of_process(self) -> int:
        """Finished requests after warm-up since the last restart."""
        return sum(self.counted.values()) - self._earlier

    def restarted(self) -> None:
        """A fresh process serves from now on; what load steps did before it is kept."""
        self._earlier = sum(self.counted.values())
        self._finished = 0
        self._series[None] = _Readings()

    def points(self, step: str | None = None) -> list[GrowthPoint]:
        """Readings after finished requests, those of warm-up left out.

        Args:
            step: Of this load step; None is all since the last restart.
        """
        found = self._series.get(step)
        return [] if found is None else list(found.points)

    def finished(self, served: Served, sampler: MemorySampler | None) -> None:
        """Count a request, and read memory unless that was done just before."""
        self._finished += 1
        if served.warm_up:
            return
        step = served.labels.get("step")
        self.counted[step or ""] = self.counted.get(step or "", 0) + 1
        if sampler is None:
            return
        now_ns = time.monotonic_ns()
        own = [self._series[None]]
        if step is not None:
            own.append(self._series.setdefault(step, _Readings()))
        due = [series for series in own if series.is_due(now_ns)]
        if not due:
            return
        for series in due:
            series.tried(now_ns)
        reading = sampler.read()
        if reading is None or not reading.anon_bytes or reading.anon_bytes < 0:
            self.readable = bool(self.readable)
            return
        self.readable = True
        point = GrowthPoint(self._finished, step, reading.anon_bytes, reading.at_ns)
        for series in due:
            series.add(point)

    def add(self, point: GrowthPoint) -> None:
        """Keep a reading for the launch and for its load step."""
        for name in {None, point.step}:
            self._series.setdefault(name, _Readings()).add(point)
