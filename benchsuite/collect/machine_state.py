"""One reading of the machine that measures: Linux from its files, other systems through psutil."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from benchsuite.collect.fitness import assess
from benchsuite.collect.gpu_clocks import NvmlClocks, read_gpus
from benchsuite.collect.machine_linux import read_linux
from benchsuite.model.machine import CpuTimes, MachineReading, MachineState
from benchsuite.units import MIB

NO_GPU_ASKED = "no GPU was asked for"


def read_machine(
    *,
    gpus: Callable[[], NvmlClocks] | None = None,
    root: Path = Path("/"),
    system: str = sys.platform,
) -> MachineReading:
    """The machine now; some milliseconds, and with GPUs as long as NVML takes to come up.

    Args:
        gpus: Gives NVML; None asks no GPU.
        root: What stands before `/proc` and `/sys`.
        system: As in `sys.platform`.
    """
    reading = read_linux(root, _allowed()) if system.startswith("linux") else _read_elsewhere()
    own = os.times()
    states = NO_GPU_ASKED if gpus is None else read_gpus(gpus)
    return msgspec.structs.replace(
        reading,
        # a server that was started and has ended is a child, its own children included
        own_cpu_seconds=own.user + own.system + own.children_user + own.children_system,
        clock_resolution_ns=time.get_clock_info("monotonic").resolution * 1e9,
        gpus=None if isinstance(states, str) else states,
        gpus_unknown=states if isinstance(states, str) else "",
    )


def begin_state(*, gpus: Callable[[], NvmlClocks] | None = None) -> MachineState:
    """The machine at the begin of a run; `end_state` completes it."""
    return MachineState(read_machine(gpus=gpus))


def end_state(
    begun: MachineState, *, owned: bool = True, gpus: Callable[[], NvmlClocks] | None = None
) -> MachineState:
    """The machine from the begin to the end of a run; every server must have ended.

    Args:
        begun: From `begin_state`.
        owned: Whether the servers were our own; what others' servers take cannot be told from
            what anybody else takes.
        gpus: As at the begin.
    """
    end = read_machine(gpus=gpus)
    return MachineState(begun.begin, end, assess(begun.begin, end, owned=owned))


def _allowed() -> frozenset[int] | None:
    """The cores that this process, and so its servers, may use; None where nothing tells."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def _read_elsewhere() -> MachineReading:
    """What psutil tells on macOS, Windows and the BSDs; each by itself may be missing."""
    import psutil

    def told(question: Callable[[], object]) -> object:
        try:
            return question()
        except (psutil.Error, OSError, RuntimeError, AttributeError):
            return None

    times = told(psutil.cpu_times)
    swap, memory = told(psutil.swap_memory), told(psutil.virtual_memory)
    clock = told(lambda: psutil.cpu_freq())  # noqa: PLW0108  # absent on some systems
    load = told(psutil.getloadavg)
    cores = os.cpu_count()
    return MachineReading(
        at_ns=time.monotonic_ns(),
        system=platform.system(),
        cores=cores,
        allowed_cores=cores,
        smt=_siblings(cores, psutil.cpu_count(logical=False)),
        clock_mhz=_positive(getattr(clock, "current", None)),
        top_clock_mhz=_positive(getattr(clock, "max", None)),
        load_average=load[0] if isinstance(load, tuple) else None,
        cpu=_times(times),
        swap_total_mib=_mib(getattr(swap, "total", None)),
        swap_used_mib=_mib(getattr(swap, "used", None)),
        swapped_mib=_swapped(swap),
        memory_total_mib=_mib(getattr(memory, "total", None)),
        memory_available_mib=_mib(getattr(memory, "available", None)),
    )


def _times(times: object) -> CpuTimes | None:
    if not isinstance(times, tuple) or not hasattr(times, "idle"):
        return None
    # on Windows, interrupts and deferred calls are parts of system time
    counted = [n for n in getattr(times, "_fields", ()) if n not in ("interrupt", "dpc")]
    total = sum(float(getattr(times, name)) for name in counted)
    return CpuTimes(total - float(times.idle), None, total)


def _swapped(swap: object) -> float | None:
    moved = [getattr(swap, name, None) for name in ("sin", "sout")]
    if os.name == "nt":  # psutil has no such counters there, and gives 0
        return None
    counts = [count for count in moved if isinstance(count, int)]
    return sum(counts) / MIB if len(counts) == len(moved) else None


def _siblings(logical: int | None, physical: int | None) -> bool | None:
    return None if not logical or not physical else logical > physical


def _positive(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None


def _mib(count: object) -> float | None:
    return count / MIB if isinstance(count, int) else None
