"""Memory of a server's processes, from the kernel's own figures."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

_KIB = 1024
_FIELDS = ("VmRSS", "VmHWM", "RssAnon", "VmSwap")


class MemoryReading(msgspec.Struct, frozen=True):
    """Memory of a process tree at one moment, in bytes; None where this system does not tell."""

    at_ns: int  # monotonic
    processes: int
    rss_bytes: int | None  # sum of VmRSS
    peak_bytes: int | None  # sum of VmHWM, the kernel's high-water mark
    anon_bytes: int | None  # sum of RssAnon + VmSwap


def parse_status(text: str) -> dict[str, int]:
    """The memory fields of `/proc/PID/status` in bytes; fields that are absent are left out."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name in _FIELDS:
            words = rest.split()
            if len(words) == 2 and words[1] == "kB" and words[0].isdigit():
                found[name] = int(words[0]) * _KIB
    return found


def read_memory(pids: Iterable[int]) -> MemoryReading | None:
    """The memory of these processes together; None if none of them can be read any more.

    On Linux from `/proc/PID/status` (proc(5)); elsewhere through psutil, which knows no
    anonymous share, and a peak on Windows only.
    """
    read = _read_linux if sys.platform == "linux" else _read_elsewhere
    readings = [found for pid in pids if (found := read(pid)) is not None]
    if not readings:
        return None
    sums = [
        None if any(values[i] is None for values in readings) else sum(v[i] or 0 for v in readings)
        for i in range(3)
    ]
    return MemoryReading(time.monotonic_ns(), len(readings), sums[0], sums[1], sums[2])


_Figures = tuple[int | None, int | None, int | None]


def _read_linux(pid: int) -> _Figures | None:
    try:
        status = parse_status(Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return None
    if "VmRSS" not in status:  # a zombie has no memory left to speak of
        return None
    anon = status["RssAnon"] + status.get("VmSwap", 0) if "RssAnon" in status else None
    return status["VmRSS"], status.get("VmHWM"), anon


def _read_elsewhere(pid: int) -> _Figures | None:
    import psutil

    try:
        info = psutil.Process(pid).memory_info()
    except psutil.Error:
        return None
    return info.rss, getattr(info, "peak_wset", None), None


class MemorySampler:
    """Reads memory at a fixed pace while a task runs it, and hands each reading on.

    Args:
        pids: Gives the processes at each reading (a server may start helpers).
        keep: Takes each reading.
        interval_seconds: From one reading to the next.
    """

    def __init__(
        self,
        pids: Callable[[], Iterable[int]],
        keep: Callable[[MemoryReading], None],
        interval_seconds: float = 0.1,
    ) -> None:
        self._pids = pids
        self._keep = keep
        self._interval_seconds = interval_seconds

    def read(self) -> MemoryReading | None:
        """One reading now, also handed on; None if no process is left."""
        reading = read_memory(self._pids())
        if reading is not None:
            self._keep(reading)
        return reading

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            self.read()
            await asyncio.sleep(self._interval_seconds)
