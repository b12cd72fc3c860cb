"""What a machine was like while it measured, and what that makes of its figures; no I/O.

Rates are told by two readings: counters only grow, so what happened between them is a difference.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Grade = Literal["ok", "warn", "unknown"]
"""Of a fact: what cannot be read is unknown, never ok."""

Struck = Literal["latency", "memory"]
"""The kinds of metrics that a machine's state can falsify."""


class CpuTimes(msgspec.Struct, frozen=True):
    """Seconds of all cores that this process may use, summed, since the machine started."""

    busy_seconds: float  # idle, waiting for disks and stolen time left out
    # wanted here and given to others by the hypervisor; None where this system does not tell
    steal_seconds: float | None
    total_seconds: float


class CgroupState(msgspec.Struct, frozen=True):
    """Limits of this process' control group and those above it; None where there is no limit."""

    version: Literal[1, 2]
    cpu_seen: bool = True  # whether any group that could hold a CPU limit was seen
    quota_cores: float | None = None  # CPU time a period, as cores
    periods: int | None = None  # enforcement periods so far; None where not told
    throttled_periods: int | None = None  # of those, periods in which it stood still
    memory_limit_mib: float | None = None
    memory_used_mib: float | None = None  # page cache included, of the group with that limit


class GpuState(msgspec.Struct, frozen=True):
    """One GPU, as NVML tells it; None where it does not."""

    name: str
    clock_mhz: int | None = None  # of the SMs, now
    top_clock_mhz: int | None = None
    slowed_by: tuple[str, ...] = ()  # reasons in words that hold the clocks down now; idle is none
    # nanoseconds so far below the clocks that were asked for, for heat and for power
    thermal_ns: int | None = None
    power_ns: int | None = None


class MachineReading(msgspec.Struct, frozen=True):
    """A machine at one moment; None and empty where it cannot be read."""

    at_ns: int  # monotonic
    system: str = ""  # `Linux`, `Darwin`, `Windows`
    cores: int | None = None  # logical ones that are online
    allowed_cores: int | None = None  # that this process may use
    smt: bool | None = None  # whether cores share an execution unit with a sibling
    governors: tuple[str, ...] = ()  # each once
    clock_mhz: float | None = None  # of the slowest core, now
    clock_limit_mhz: float | None = None  # lowest that policy allows as the most
    top_clock_mhz: float | None = None  # what the hardware can do
    turbo: bool | None = None
    heat_events: int | None = None  # times that heat throttled a core or package, so far
    load_average: float | None = None  # of one minute
    cpu: CpuTimes | None = None
    own_cpu_seconds: float = 0.0  # of this process and its children that have ended
    swap_total_mib: float | None = None
    swap_used_mib: float | None = None
    swapped_mib: float | None = None  # moved into and out of swap, so far
    memory_total_mib: float | None = None
    memory_available_mib: float | None = None
    memory_stalled_seconds: float | None = None  # in which some task waited for memory, so far
    cgroup: CgroupState | None = None
    clock_source: str = ""  # `tsc`, ...
    clock_resolution_ns: float | None = None  # of the monotonic clock, as the system says
    gpus: tuple[GpuState, ...] | None = None
    gpus_unknown: str = ""  # why there are none to be seen


class MachineFinding(msgspec.Struct, frozen=True):
    """One fact of a machine, and what it means for measuring."""

    fact: str  # `cpu governor`
    value: str  # as printed; empty where it cannot be read
    grade: Grade
    sentence: str
    remedy: str = ""  # what would improve it
    strikes: tuple[Struck, ...] = ()  # what a warning makes doubtful
    voids: tuple[Struck, ...] = ()  # failing gates on these are inconclusive


class MachineState(msgspec.Struct, frozen=True):
    """A machine from the begin to the end of a run."""

    begin: MachineReading
    end: MachineReading | None = None  # None where the run was killed
    findings: tuple[MachineFinding, ...] = ()  # empty without an end

    @property
    def warnings(self) -> tuple[MachineFinding, ...]:
        """What makes it unfit."""
        return tuple(one for one in self.findings if one.grade == "warn")


class Noise(msgspec.Struct, frozen=True):
    """How much one metric differs between launches of the same server (A/A)."""

    metric: str
    unit: str
    launches: int  # that measured it; each counts by the median of its requests
    median: float
    cv_percent: float | None  # of the launches; None with fewer than 2
    # pairs -> percent: the smallest regression that so many pairs find with 80% probability;
    # None where it cannot be told
    smallest_found: dict[int, float | None]


class Diagnosis(msgspec.Struct, frozen=True):
    """Whether a machine is fit to measure, and by what."""

    machine: str  # its name, as baselines have it
    kernel: str
    findings: tuple[MachineFinding, ...]
    noise: tuple[Noise, ...] = ()
    pairs: int = 0  # of launches that the noise stands on
    server: str = ""  # that was launched for it
    no_noise: str = ""  # why noise was not measured
    failed: str = ""  # why it could not be measured though it was asked for
    hint: str = ""  # what to do then

    @property
    def unfit(self) -> tuple[MachineFinding, ...]:
        """What makes it unfit; what is unknown does not."""
        return tuple(one for one in self.findings if one.grade == "warn")
