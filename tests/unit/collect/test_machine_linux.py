"""Facts of a Linux machine are read from its files; what is not there is None."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.collect.machine_linux import (
    parse_cores,
    parse_stalled,
    parse_times,
    read_limits,
    read_linux,
)
from benchsuite.model.machine import CgroupState, CpuTimes, MachineReading
from tests.unit.collect.machine_trees import readings, unfold


def test_a_laptop_tells_its_clocks_and_heat(tmp_path: Path) -> None:
    """The slowest core's clock, the policy's limit, and each package's heat counted once."""
    begin, end = readings("laptop", tmp_path)
    assert begin.cores == begin.allowed_cores == 8
    assert begin.smt is True
    assert begin.turbo is True
    assert begin.governors == ("powersave",)
    assert (begin.clock_mhz, begin.clock_limit_mhz, begin.top_clock_mhz) == (400, 2600, 4800)
    assert begin.heat_events == sum(range(8)) + 40
    assert end.heat_events == sum(range(8)) + 43
    assert begin.swap_used_mib == pytest.approx(100_000 / 1024)


def test_a_container_of_version_2_tells_its_limits(tmp_path: Path) -> None:
    """Its own group is the root of the mount; quota in cores, memory in MiB."""
    _, end = readings("container_quota", tmp_path)
    assert end.cgroup is not None
    assert end.cgroup.version == 2
    assert end.cgroup.quota_cores == 1.5
    assert (end.cgroup.periods, end.cgroup.throttled_periods) == (1010, 28)
    assert end.cgroup.memory_limit_mib == 2048
    assert end.cgroup.memory_used_mib == pytest.approx(1945.6, abs=0.1)


def test_a_container_of_version_1_tells_its_limits(tmp_path: Path) -> None:
    """The largest number stands for no limit of memory."""
    begin, _ = readings("container_v1", tmp_path)
    assert begin.cgroup == CgroupState(1, True, 2.0, 50, 3)


def test_the_tightest_group_above_counts(tmp_path: Path) -> None:
    """A slice above may be narrower than the service's own group."""
    unfold(
        "== proc/self/cgroup\n0::/a/b\n"
        "== proc/self/mountinfo\n31 23 0:28 / /cg rw - cgroup2 cgroup2 rw\n"
        "== cg/a/cpu.max\n50000 100000\n== cg/a/cpu.stat\nnr_periods 7\nnr_throttled 2\n"
        "== cg/a/b/cpu.max\n300000 100000\n== cg/a/b/cpu.stat\nnr_periods 9\nnr_throttled 0\n",
        tmp_path,
    )
    found = read_limits(tmp_path)
    assert found is not None
    assert (found.quota_cores, found.periods, found.throttled_periods) == (0.5, 7, 2)


def test_a_group_whose_cpu_files_are_not_mounted_is_not_unlimited(tmp_path: Path) -> None:
    """Version 1 with the memory controller alone in sight."""
    unfold(
        "== proc/self/cgroup\n4:memory:/a\n1:cpu:/a\n"
        "== proc/self/mountinfo\n35 31 0:32 / /cg rw - cgroup cgroup rw,memory\n"
        "== cg/a/memory.limit_in_bytes\n9223372036854771712\n",
        tmp_path,
    )
    assert read_limits(tmp_path) == CgroupState(1, cpu_seen=False)


def test_times_are_those_of_the_cores_we_may_use(tmp_path: Path) -> None:
    """Steal apart, waiting for disks not busy; one core of two."""
    begin, _ = readings("steal_vm", tmp_path)
    assert begin.cpu == CpuTimes(24.2, 10.0, 1836.2)
    one = read_linux(tmp_path, [1])
    assert one.cpu == CpuTimes(12.44, 5.1, 919.1)  # at the end
    assert one.allowed_cores == 1
    assert one.cores == 2


def test_nothing_readable_is_nothing_known(tmp_path: Path) -> None:
    """An empty root: no fact is made up."""
    found = read_linux(tmp_path)
    assert found == MachineReading(at_ns=found.at_ns, system="Linux")


def test_files_of_other_shapes_are_unknown(tmp_path: Path) -> None:
    """Cut, empty and foreign files are as if they were absent."""
    unfold(
        "== proc/stat\ncpu 1 2\ncpu0 x\n== proc/loadavg\n\n== proc/meminfo\nMemTotal\n"
        "== proc/vmstat\npswpin 3\n== proc/pressure/memory\nfull total=3\n"
        "== proc/self/cgroup\nrubbish\n== sys/devices/system/cpu/online\n0-\n",
        tmp_path,
    )
    found = read_linux(tmp_path)
    assert found == MachineReading(at_ns=found.at_ns, system="Linux")


@pytest.mark.parametrize(
    ("text", "cores"), [("0\n", {0}), ("0-3,8", {0, 1, 2, 3, 8}), ("", set()), ("x-2,5", {5})]
)
def test_lists_of_cores(text: str, cores: set[int]) -> None:
    """Ranges and single ones; what is no number is left out."""
    assert parse_cores(text) == cores


@given(st.text(alphabet="cpu0123456789 \n=.some full total-", max_size=200))
def test_parsers_take_anything(text: str) -> None:
    """No text makes them raise, and times are never negative."""
    times = parse_times(text, parse_cores(text))
    assert times is None or times.total_seconds >= times.busy_seconds >= 0
    stalled = parse_stalled(text)
    assert stalled is None or stalled >= 0


def test_a_reading_of_this_machine_is_quick() -> None:
    """Far below the 100 ms that a run may spend on it; the best of five, since others run too."""
    best = 1.0
    for _ in range(5):
        started = time.perf_counter()
        read_linux()
        best = min(best, time.perf_counter() - started)
    assert best < 0.1
