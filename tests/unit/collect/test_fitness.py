"""What a machine's readings mean: recorded machines, and each threshold from both sides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchsuite.collect.fitness import assess, worse_of
from benchsuite.model.machine import (
    CgroupState,
    CpuTimes,
    GpuState,
    MachineFinding,
    MachineReading,
)
from tests.unit.collect.machine_trees import readings

FACTS = (
    "cores",
    "cpu governor",
    "cpu clock",
    "turbo",
    "load from others",
    "steal time",
    "swap",
    "free memory",
    "memory pressure",
    "cpu quota",
    "cpu throttling",
    "cpu heat",
    "gpu clocks",
    "clock",
)
SECOND = 1_000_000_000


def graded(findings: tuple[MachineFinding, ...], grade: str) -> dict[str, tuple[str, ...]]:
    """Facts of a grade, each with what it voids."""
    return {one.fact: one.voids for one in findings if one.grade == grade}


@pytest.mark.parametrize(
    ("machine", "warnings"),
    [
        ("healthy_server", {}),
        ("laptop", {"cpu governor": (), "cpu clock": (), "cpu heat": ("latency",)}),
        (
            "container_quota",
            {"free memory": (), "load from others": (), "cpu quota": ()}
            | {"cpu throttling": ("latency",)},
        ),
        ("container_v1", {"load from others": ("latency",), "cpu quota": ()}),
        ("steal_vm", {"load from others": ("latency",), "steal time": ("latency",)}),
        (
            "swapping_host",
            {
                "swap": ("latency", "memory"),
                "free memory": (),
                "memory pressure": ("latency",),
                "clock": (),
            },
        ),
    ],
)
def test_recorded_machines(
    machine: str, warnings: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    """Each recorded machine warns of what is wrong with it and of nothing else."""
    begin, end = readings(machine, tmp_path)
    if machine == "container_quota":  # of the 1.2 s in which its cores were busy
        end = msgspec.structs.replace(end, own_cpu_seconds=0.9)
    found = assess(begin, end)
    assert tuple(one.fact for one in found) == FACTS
    assert graded(found, "warn") == warnings
    for one in found:
        assert one.sentence
        assert bool(one.value) != (one.grade == "unknown")
        if one.grade == "warn":
            assert one.remedy
            assert one.strikes
            assert set(one.voids) <= set(one.strikes)


def test_nothing_readable_is_all_unknown() -> None:
    """Not one fact is ok where nothing could be read."""
    found = assess(MachineReading(0), MachineReading(SECOND))
    assert set(graded(found, "unknown")) == set(FACTS)


def other(**changes: Any) -> tuple[MachineReading, MachineReading]:
    """A machine of two cores over a second, with changes to its second reading."""
    begin = MachineReading(
        0,
        cores=2,
        allowed_cores=2,
        cpu=CpuTimes(0.0, 0.0, 0.0),
        swap_total_mib=100.0,
        swapped_mib=0.0,
        memory_total_mib=1000.0,
        memory_available_mib=900.0,
        memory_stalled_seconds=0.0,
        cgroup=CgroupState(2, True, 1.0, 0, 0),
        heat_events=0,
        gpus=(GpuState("H200", 1980, 1980, (), 0, 0),),
    )
    end = msgspec.structs.replace(begin, at_ns=SECOND, cpu=CpuTimes(0.0, 0.0, 2.0))
    return begin, msgspec.structs.replace(end, **changes)


@pytest.mark.parametrize(
    ("fact", "changes", "grade", "voids"),
    [
        ("load from others", {"cpu": CpuTimes(0.098, 0.0, 2.0)}, "ok", ()),
        ("load from others", {"cpu": CpuTimes(0.11, 0.0, 2.0)}, "warn", ()),
        ("load from others", {"cpu": CpuTimes(0.21, 0.0, 2.0)}, "warn", ("latency",)),
        (
            "load from others",
            {"cpu": CpuTimes(1.9, 0.0, 2.0), "own_cpu_seconds": 1.85},
            "ok",
            (),
        ),
        ("load from others", {"cpu": CpuTimes(0.3, 0.0, 0.39)}, "unknown", ()),
        ("load from others", {"cpu": None}, "unknown", ()),
        ("steal time", {"cpu": CpuTimes(0.0, 0.018, 2.0)}, "ok", ()),
        ("steal time", {"cpu": CpuTimes(0.0, 0.022, 2.0)}, "warn", ()),
        ("steal time", {"cpu": CpuTimes(0.0, 0.11, 2.0)}, "warn", ("latency",)),
        ("steal time", {"cpu": CpuTimes(0.0, None, 2.0)}, "unknown", ()),
        ("swap", {"swapped_mib": 1.0}, "ok", ()),
        ("swap", {"swapped_mib": 1.1}, "warn", ("latency", "memory")),
        ("swap", {"swapped_mib": None}, "unknown", ()),
        ("swap", {"swap_total_mib": 0.0, "swapped_mib": None}, "ok", ()),
        ("free memory", {"memory_available_mib": 100.0}, "ok", ()),
        ("free memory", {"memory_available_mib": 99.0}, "warn", ()),
        ("memory pressure", {"memory_stalled_seconds": 0.009}, "ok", ()),
        ("memory pressure", {"memory_stalled_seconds": 0.02}, "warn", ()),
        ("memory pressure", {"memory_stalled_seconds": 0.06}, "warn", ("latency",)),
        ("cpu quota", {"cgroup": CgroupState(2, True, 2.0, 9, 0)}, "ok", ()),
        ("cpu quota", {"cgroup": CgroupState(2)}, "ok", ()),
        ("cpu quota", {"cgroup": CgroupState(2, cpu_seen=False)}, "unknown", ()),
        ("cpu quota", {"cgroup": CgroupState(2, True, 1.9, 9, 0)}, "warn", ()),
        ("cpu throttling", {"cgroup": CgroupState(2, True, 1.0, 10, 0)}, "ok", ()),
        ("cpu throttling", {"cgroup": CgroupState(2, True, 1.0, 100, 5)}, "warn", ()),
        ("cpu throttling", {"cgroup": CgroupState(2, True, 1.0, 100, 6)}, "warn", ("latency",)),
        ("cpu throttling", {"cgroup": CgroupState(2, True, 1.0)}, "unknown", ()),
        ("cpu throttling", {"cgroup": CgroupState(2, cpu_seen=False)}, "unknown", ()),
        ("cpu heat", {"heat_events": 1}, "warn", ()),
        ("cpu heat", {"heat_events": 2}, "warn", ("latency",)),
        ("cores", {"allowed_cores": 1}, "warn", ()),
        ("clock", {"clock_resolution_ns": 1.0, "clock_source": "tsc"}, "ok", ()),
        ("clock", {"clock_resolution_ns": 15_600_000.0}, "warn", ()),
        ("gpu clocks", {"gpus": (GpuState("H200", 1980, 1980, (), 0, 0),)}, "ok", ()),
        ("gpu clocks", {"gpus": (GpuState("H200", 900, 1980, (), 20_000_000, 0),)}, "warn", ()),
        (
            "gpu clocks",
            {"gpus": (GpuState("H200", 900, 1980, (), 60_000_000, 0),)},
            "warn",
            ("latency",),
        ),
        ("gpu clocks", {"gpus": (GpuState("H200", 900, 1980, (), 0, SECOND),)}, "warn", ()),
        ("gpu clocks", {"gpus": (GpuState("H200", 9, 9, ("power brake",), 0, 0),)}, "warn", ()),
        ("gpu clocks", {"gpus": (GpuState("GTX", 900, 1980),)}, "unknown", ()),
        ("gpu clocks", {"gpus": ()}, "ok", ()),
    ],
)
def test_thresholds(fact: str, changes: dict[str, Any], grade: str, voids: tuple[str, ...]) -> None:
    """Just below and just above each."""
    found = next(one for one in assess(*other(**changes)) if one.fact == fact)
    assert (found.grade, found.voids) == (grade, voids), found


def test_an_attached_server_is_not_taken_for_others() -> None:
    """What it takes cannot be told from what anybody takes, so nothing is said."""
    begin, end = other(cpu=CpuTimes(1.9, 0.0, 2.0))
    found = next(one for one in assess(begin, end, owned=False) if one.fact == "load from others")
    assert found.grade == "unknown"


def test_the_worse_of_two_findings_stays() -> None:
    """A warning beats what is ok, and what is known beats what is not."""
    ok, warn = MachineFinding("a", "1", "ok", "s"), MachineFinding("a", "2", "warn", "s")
    unknown, more = MachineFinding("a", "", "unknown", "s"), MachineFinding("b", "3", "ok", "s")
    assert worse_of((ok,), (warn, more)) == (warn, more)
    assert worse_of((warn,), (ok,)) == (warn,)
    assert worse_of((unknown,), (ok,)) == (ok,)
    assert worse_of((ok,), (unknown,)) == (ok,)
