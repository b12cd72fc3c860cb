"""Facts of a Linux machine from /proc and /sys, under a root that may be any folder.

Files as in proc(5) and the kernel's admin-guide: pm/cpufreq, cgroup-v1, cgroup-v2,
accounting/psi, ABI/testing/sysfs-devices-system-cpu.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

from benchsuite.collect.cgroup import parse_memberships, parse_mounts
from benchsuite.model.machine import CgroupState, CpuTimes, MachineReading
from benchsuite.units import MIB

_KIB_PER_MIB = 1024
_NO_LIMIT_V1 = 1 << 62
_TICKS = 100  # USER_HZ, the same on every architecture that Linux runs on today
_ISOLATED = re.compile(r"(\d+)(?:-(\d+))?")


def read_linux(root: Path = Path("/"), cores: Collection[int] | None = None) -> MachineReading:
    """Everything that files tell; takes some milliseconds.

    Args:
        root: What stands before `/proc` and `/sys`.
        cores: Numbers of the cores that this process may use; None is all.
    """
    cpu = root / "sys/devices/system/cpu"
    meminfo = _fields(_text(root / "proc/meminfo"))
    vmstat = _fields(_text(root / "proc/vmstat"))
    swap, free = meminfo.get("SwapTotal"), meminfo.get("SwapFree")
    online = parse_cores(_text(cpu / "online"))
    allowed = online if cores is None else frozenset(cores)
    speeds = list(_policies(cpu, allowed))
    return MachineReading(
        at_ns=time.monotonic_ns(),
        system="Linux",
        cores=len(online) or None,
        allowed_cores=len(allowed) or None,
        smt=_flag(_text(cpu / "smt/active")),
        governors=tuple(
            sorted({word for one in speeds if (word := _text(one / "scaling_governor").strip())})
        ),
        clock_mhz=_least_mhz(speeds, "scaling_cur_freq"),
        clock_limit_mhz=_least_mhz(speeds, "scaling_max_freq"),
        top_clock_mhz=_least_mhz(speeds, "cpuinfo_max_freq"),
        turbo=_turbo(cpu),
        heat_events=_heat_events(cpu, online),
        load_average=_first_number(_text(root / "proc/loadavg")),
        cpu=parse_times(_text(root / "proc/stat"), allowed),
        swap_total_mib=None if swap is None else swap / _KIB_PER_MIB,
        swap_used_mib=None if swap is None or free is None else (swap - free) / _KIB_PER_MIB,
        swapped_mib=_swapped(vmstat),
        memory_total_mib=_mib(meminfo.get("MemTotal")),
        memory_available_mib=_mib(meminfo.get("MemAvailable")),
        memory_stalled_seconds=parse_stalled(_text(root / "proc/pressure/memory")),
        cgroup=read_limits(root),
        clock_source=_text(
            root / "sys/devices/system/clocksource/clocksource0/current_clocksource"
        ).strip(),
    )


def parse_cores(text: str) -> frozenset[int]:
    """The numbers in a list of cores: `0-3,8`."""
    found: set[int] = set()
    for part in text.strip().split(","):
        match = _ISOLATED.fullmatch(part.strip())
        if match:
            found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(found)


def parse_times(text: str, cores: Collection[int]) -> CpuTimes | None:
    """The CPU times of these cores, of `/proc/stat`; None where it has none.

    Args:
        text: Of the file; seconds of 100 ticks.
        cores: Their numbers; of none of them, the line of all cores counts.
    """
    rows: dict[str, list[int]] = {}
    for line in text.splitlines():
        words = line.split()
        if words and words[0].startswith("cpu") and all(w.isdigit() for w in words[1:]):
            rows[words[0]] = [int(word) for word in words[1:9]]
    chosen = [rows[name] for core in cores if (name := f"cpu{core}") in rows]
    chosen = chosen or ([rows["cpu"]] if "cpu" in rows else [])
    if not chosen or any(len(row) < 8 for row in chosen):  # steal is there since Linux 2.6.11
        return None
    total = sum(map(sum, chosen))
    steal = sum(row[7] for row in chosen)
    unused = sum(row[3] + row[4] for row in chosen)  # idle, and waiting for disks
    return CpuTimes((total - unused - steal) / _TICKS, steal / _TICKS, total / _TICKS)


def parse_stalled(text: str) -> float | None:
    """Seconds in which some task waited, of a pressure file (Linux 4.20)."""
    match = re.search(r"^some .*\btotal=(\d+)", text, re.M)
    return int(match[1]) / 1e6 if match else None


def read_limits(root: Path = Path("/")) -> CgroupState | None:
    """The tightest limits of this process' cgroup and those above it, as far as they are mounted.

    Args:
        root: What stands before `/proc` and every mount point.
    """
    memberships = parse_memberships(_text(root / "proc/self/cgroup"))
    if not memberships:
        return None
    one = "cpu" in memberships or "memory" in memberships
    cpu = list(_folders(root, memberships, "cpu"))
    memory = list(_folders(root, memberships, "memory"))
    if not cpu and not memory:
        return None
    quotas = [(quota, folder) for folder in cpu if (quota := _quota(folder)) is not None]
    tightest = min(quotas, key=lambda pair: pair[0], default=None)
    stat = {} if tightest is None else _fields(_text(tightest[1] / "cpu.stat"))
    limits = [(limit, folder) for folder in memory if (limit := _memory_limit(folder)) is not None]
    least = min(limits, key=lambda pair: pair[0], default=None)
    used = None if least is None else _memory_used(least[1])
    return CgroupState(
        version=1 if one else 2,
        cpu_seen=bool(cpu),
        quota_cores=None if tightest is None else tightest[0],
        periods=stat.get("nr_periods"),
        throttled_periods=stat.get("nr_throttled"),
        memory_limit_mib=None if least is None else least[0] / MIB,
        memory_used_mib=None if used is None else used / MIB,
    )


def _folders(root: Path, memberships: dict[str, str], controller: str) -> Iterator[Path]:
    """The folder of the process' cgroup for a controller, and those above it that are mounted."""
    version = 1 if controller in memberships else 2
    path = memberships.get(controller if version == 1 else "")
    if path is None:
        return
    for mount in parse_mounts(_text(root / "proc/self/mountinfo")):
        if mount.version != version or (version == 1 and controller not in mount.controllers):
            continue
        inside = PurePosixPath(path)
        if ".." in inside.parts or not inside.is_relative_to(mount.root):
            inside = PurePosixPath(mount.root)  # a namespace of its own: its root is the mount
        top = root / mount.point.lstrip("/")
        folder = top / inside.relative_to(mount.root)
        while True:
            if folder.is_dir():
                yield folder
            if folder == top:
                return
            folder = folder.parent


def _quota(folder: Path) -> float | None:
    """CPU time a period, in cores; None where there is no limit."""
    words = _text(folder / "cpu.max").split()
    if not words:
        words = [
            _text(folder / "cpu.cfs_quota_us").strip(),
            _text(folder / "cpu.cfs_period_us").strip(),
        ]
    if len(words) != 2 or not words[0].isdigit() or not words[1].isdigit() or words[1] == "0":
        return None  # `max`, in version 1 -1
    return int(words[0]) / int(words[1])


def _memory_limit(folder: Path) -> int | None:
    for name in ("memory.max", "memory.limit_in_bytes"):
        limit = _whole(folder / name)
        if limit is not None:
            return None if limit >= _NO_LIMIT_V1 else limit
    return None


def _memory_used(folder: Path) -> int | None:
    now = _whole(folder / "memory.current")
    return now if now is not None else _whole(folder / "memory.usage_in_bytes")


def _policies(cpu: Path, cores: Collection[int]) -> Iterator[Path]:
    """The frequency folder of each core; cores of one policy share it."""
    seen: set[Path] = set()
    for core in sorted(cores):
        folder = cpu / f"cpu{core}/cpufreq"
        if folder.is_dir() and (target := folder.resolve()) not in seen:
            seen.add(target)
            yield target


def _turbo(cpu: Path) -> bool | None:
    """Whether cores may run above their nominal clock; None where no driver tells."""
    off = _flag(_text(cpu / "intel_pstate/no_turbo"))
    if off is not None:
        return not off
    return _flag(_text(cpu / "cpufreq/boost"))


def _heat_events(cpu: Path, cores: Collection[int]) -> int | None:
    """Intel's counters; of a package the largest of its cores, since each shows the same."""
    found, packages = [], dict[str, int]()
    for core in cores:
        folder = cpu / f"cpu{core}"
        count = _whole(folder / "thermal_throttle/core_throttle_count")
        if count is not None:
            found.append(count)
        count = _whole(folder / "thermal_throttle/package_throttle_count")
        if count is not None:
            package = _text(folder / "topology/physical_package_id").strip()
            packages[package] = max(packages.get(package, 0), count)
    return sum(found) + sum(packages.values()) if found or packages else None


def _least_mhz(folders: list[Path], name: str) -> float | None:
    values = [value / 1000 for folder in folders if (value := _whole(folder / name)) is not None]
    return min(values, default=None)


def _swapped(vmstat: dict[str, int]) -> float | None:
    pages = [vmstat.get(name) for name in ("pswpin", "pswpout")]
    if None in pages:
        return None
    return sum(page or 0 for page in pages) * _page_bytes() / MIB


def _page_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def _fields(text: str) -> dict[str, int]:
    """Lines of a name and a whole number; `/proc/meminfo` has a colon and kB besides."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        words = line.replace(":", " ").split()
        if len(words) >= 2 and words[1].isdigit():
            found[words[0]] = int(words[1])
    return found


def _mib(kib: int | None) -> float | None:
    return None if kib is None else kib / _KIB_PER_MIB


def _first_number(text: str) -> float | None:
    try:
        return float(text.split()[0])
    except (IndexError, ValueError):
        return None


def _flag(text: str) -> bool | None:
    return {"0": False, "1": True}.get(text.strip())


def _whole(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _text(path: Path) -> str:
    """The file's text; empty where it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
