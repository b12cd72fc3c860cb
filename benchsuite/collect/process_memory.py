"""Memory of a server's processes, from the kernel's own figures.

What the tree of the server's own process holds, and nothing else: an RPC server is a process of
its own, even on this machine, and its memory is not in these figures. The server's log tells what
it keeps there (`kv_mib{device="RPC0"}`).
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

_KIB = 1024
_FIELDS = ("VmRSS", "VmHWM", "RssAnon", "VmSwap")
_ROLLUP = ("Pss", "Pss_Anon", "Private_Clean", "Private_Dirty", "Swap", "SwapPss")

STATUS = "/proc/PID/status"
"""The name of this source in measurements; psutil where there is no /proc."""

ROLLUP = "/proc/PID/smaps_rollup"
"""The name of this source in measurements."""


class MemoryReading(msgspec.Struct, frozen=True):
    """Memory of a process tree at one moment, in bytes; None where this system does not tell."""

    at_ns: int  # monotonic
    processes: int
    rss_bytes: int | None  # sum of VmRSS
    peak_bytes: int | None  # sum of VmHWM, the kernel's high-water mark
    anon_bytes: int | None  # sum of RssAnon + VmSwap


def parse_status(text: str) -> dict[str, int]:
    """The memory fields of `/proc/PID/status` in bytes; fields that are absent are left out."""
    return _parse_kib(text, _FIELDS)


def parse_rollup(text: str) -> dict[str, int]:
    """The fields of `/proc/PID/smaps_rollup` in bytes; fields that are absent are left out.

    `Pss_Anon` came with Linux 5.1, `SwapPss` with 4.3.
    """
    return _parse_kib(text, _ROLLUP)


def _parse_kib(text: str, fields: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name in fields:
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


class RollupReading(msgspec.Struct, frozen=True):
    """Proportional memory of a process tree, in bytes; None where this kernel does not tell."""

    processes: int
    pss_bytes: int
    pss_anon_bytes: int | None
    private_bytes: int | None
    swap_bytes: int | None
    swap_pss_bytes: int | None


class Unreadable(msgspec.Struct, frozen=True):
    """Why there is no reading."""

    reason: str
    is_lacking: bool = False  # this system does not have it; else it is there and cannot be read


def read_rollup(pids: Iterable[int], proc: Path = Path("/proc")) -> RollupReading | Unreadable:
    """The proportional memory of these processes together, never of a part of them.

    Slow: the kernel walks every mapping (about 1 ms a GiB that is resident), so it is read at
    snapshots only.

    Args:
        pids: The processes; those that have ended are left out.
        proc: Where the proc file system is mounted.
    """
    if not (proc / "self").exists():
        return Unreadable("this system has no /proc", is_lacking=True)
    figures: list[dict[str, int]] = []
    for pid in pids:
        try:
            found = parse_rollup((proc / str(pid) / "smaps_rollup").read_text())
        except PermissionError:
            return Unreadable(f"{ROLLUP} of process {pid} may not be read by this user")
        except FileNotFoundError:
            if (proc / str(pid) / "status").exists():
                reason = "this kernel has no smaps_rollup (Linux before 4.14)"
                return Unreadable(reason, is_lacking=True)
            continue
        except OSError:  # it ended meanwhile
            continue
        if "Pss" in found:  # a zombie has none
            figures.append(found)
    if not figures:
        return Unreadable("no process of the server could be read")

    def total(*names: str) -> int | None:
        if any(name not in one for one in figures for name in names):
            return None
        return sum(one[name] for one in figures for name in names)

    return RollupReading(
        processes=len(figures),
        pss_bytes=sum(one["Pss"] for one in figures),
        pss_anon_bytes=total("Pss_Anon"),
        private_bytes=total("Private_Clean", "Private_Dirty"),
        swap_bytes=total("Swap"),
        swap_pss_bytes=total("SwapPss"),
    )


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


_QUICK = 600
"""Readings at the set pace; from then on a second or more lies between two, since whatever lasts so
long changes slowly, and each is a line of the journal."""

_SLOW_SECONDS = 1.0


class MemorySampler:
    """Reads memory at a set pace while a task runs it, and hands each reading on.

    Args:
        pids: Gives the processes at each reading (a server may start helpers).
        keep: Takes each reading.
        interval_seconds: From one reading to the next, for the first 600 of them.
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
        taken = 0
        while True:
            self.read()
            taken += 1
            slow = _SLOW_SECONDS if taken > _QUICK else 0.0
            await asyncio.sleep(max(self._interval_seconds, slow))
