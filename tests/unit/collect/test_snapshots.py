"""A snapshot measures what belongs to the server, says where it read it, and what it could not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchsuite.collect.gpu import GpuDevice, GpuError, GpuProbe, GpuProcess, Nvml
from benchsuite.collect.log_follower import LogFollower
from benchsuite.collect.process_memory import MemoryReading, MemorySampler
from benchsuite.collect.snapshots import Snapshots, read_environ
from benchsuite.model.record import Measurement, Unmeasured
from tests.unit.collect.test_cgroup import Tree

CUDA_LOG = (
    "llama_prepare_model_devices: using device CUDA0 (NVIDIA H200) (0000:01:00.0) - 9000 MiB free\n"
    "load_tensors:        CUDA0 model buffer size =     5.00 MiB\n"
    "llama_kv_cache:      CUDA0 KV buffer size =    12.00 MiB\n"
    "llama_kv_cache:      RPC0[127.0.0.1:50952] KV buffer size =     4.00 MiB\n"
    "llama_kv_cache: size =   16.00 MiB (  4096 cells,   4 layers,  2/2 seqs), K (f16):    8.00 "
    "MiB, V (f16):    8.00 MiB\n"
    "sched_reserve:      CUDA0 compute buffer size =     3.00 MiB\n"
)
CPU_LOG = "load_tensors:          CPU model buffer size =     5.00 MiB\n"
ROLLUP = "Pss: 2048 kB\n"
DEVICE = GpuDevice("GPU-1", "00000000:01:00.0", "NVIDIA H200")


class OneGpu:
    """NVML with one device that the server uses."""

    def __init__(self, processes: Sequence[GpuProcess] = (GpuProcess(7, 64 << 20),)) -> None:
        self._processes = processes

    def devices(self) -> Sequence[GpuDevice]:
        return [DEVICE]

    def processes(self, uuid: str) -> Sequence[GpuProcess]:
        return self._processes

    def used_bytes(self, uuid: str) -> int:
        return 900 << 20


def _refuse() -> Nvml:
    raise AssertionError("NVML was loaded")


def _missing() -> Nvml:
    raise GpuError("nvidia-ml-py is not installed")


class Case:
    """A server with process id 7 in a container of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept: list[str] = []
        self.tree = Tree(folder / "root")
        self.tree.process("self", "0::/ours\n")
        self.tree.process(7, "0::/docker/abc\n")
        self.tree.group("/sys/fs/cgroup/ours", memory__current="1\n")
        self.tree.group(
            "/sys/fs/cgroup/docker/abc",
            memory__current=f"{100 << 20}\n",
            memory__stat=f"anon {60 << 20}\n",
        )
        process = folder / "root" / "proc" / "7"
        (process / "smaps_rollup").write_text(ROLLUP)
        (process / "environ").write_bytes(b"A=1\0CUDA_VISIBLE_DEVICES=0\0broken\0")
        self.log = folder / "log"
        reading = MemoryReading(0, 1, rss_bytes=3 << 20, peak_bytes=4 << 20, anon_bytes=1 << 20)
        monkeypatch.setattr(MemorySampler, "read", lambda self: reading)

    def keep(self, kind: str, **fields: Any) -> None:
        self.kept.append(kind)

    def take(
        self, log: str | None, gpu: GpuProbe, *, owned: bool = True, seen: bool = True
    ) -> tuple[dict[str, Measurement], dict[str, Unmeasured], Snapshots]:
        follower = None
        if log is not None:
            self.log.write_text(log)
            follower = LogFollower(self.log)
        snapshots = Snapshots(
            "B",
            2,
            pids=(lambda: [7]) if seen else None,
            log=follower,
            keep=self.keep,
            owned=owned,
            gpu=gpu,
            root=self.tree.root,
        )
        measured, unmeasured = snapshots.take("end")
        if follower is not None:
            follower.close()
        return {m.name: m for m in measured}, {u.name: u for u in unmeasured}, snapshots


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    return Case(tmp_path, monkeypatch)


def test_every_source_is_measured_and_named(case: Case) -> None:
    """Process, cgroup and GPU, each with its label, trial and source."""
    measured, unmeasured, snapshots = case.take(CUDA_LOG, GpuProbe(OneGpu))
    assert unmeasured == {}
    assert snapshots.warnings == []
    expected: dict[str, tuple[float, set[str]]] = {
        "rss_mib": (3, {"/proc/PID/status", "psutil"}),
        "rss_peak_mib": (4, {"/proc/PID/status", "psutil"}),
        "anon_mib": (1, {"/proc/PID/status", "psutil"}),
        "pss_mib": (2, {"/proc/PID/smaps_rollup"}),
        "cgroup_mib": (100, {"cgroup v2 memory.current"}),
        "cgroup_anon_mib": (60, {"cgroup v2 memory.stat anon"}),
        "gpu_mib": (64, {"nvml process"}),
    }
    assert set(measured) == set(expected)
    for name, (value, sources) in expected.items():
        one = measured[name]
        assert (one.value, one.unit, one.variant, one.trial) == (value, "MiB", "B", 2)
        assert one.source in sources
        assert one.labels["at"] == "end"
    assert measured["gpu_mib"].labels == {"at": "end", "device": "CUDA0"}


def test_memory_of_rpc_devices_is_no_gpu_memory(case: Case) -> None:
    """It belongs to another process; only CUDA0 is asked for, and its KV stays in the log."""
    measured, unmeasured, _ = case.take(CUDA_LOG, GpuProbe(OneGpu))
    devices = [m.labels["device"] for m in measured.values() if "device" in m.labels]
    assert devices == ["CUDA0"]
    assert "RPC0" not in str(unmeasured)


def test_the_devices_total_is_warned_of(case: Case) -> None:
    """Its source says so as well."""
    probe = GpuProbe(lambda: OneGpu(processes=()))
    measured, _, snapshots = case.take(CUDA_LOG, probe)
    assert measured["gpu_mib"].value == 900
    assert measured["gpu_mib"].source == "nvml device total"
    assert "every process" in snapshots.warnings[0]
    snapshots.take("later")
    assert len(snapshots.warnings) == 1


@pytest.mark.parametrize(("owned", "outcome"), [(True, "missing"), (False, "inconclusive")])
def test_a_gpu_in_use_that_cannot_be_read_is_no_pass(case: Case, owned: bool, outcome: str) -> None:
    """Never 'not applicable', which only a server without NVIDIA devices is."""
    measured, unmeasured, _ = case.take(CUDA_LOG, GpuProbe(_missing), owned=owned)
    assert "gpu_mib" not in measured
    assert unmeasured["gpu_mib"].outcome == outcome
    assert unmeasured["gpu_mib"].labels == {"at": "end", "device": "CUDA0"}
    assert "not installed" in unmeasured["gpu_mib"].reason


def test_a_cpu_run_never_loads_nvml(case: Case) -> None:
    """And says that no NVIDIA device is in use."""
    _, unmeasured, _ = case.take(CPU_LOG, GpuProbe(_refuse))
    assert unmeasured["gpu_mib"].outcome == "not_applicable"
    assert "no NVIDIA device is in use (CPU)" in unmeasured["gpu_mib"].reason


def test_a_log_that_names_no_device_says_nothing_of_gpus(case: Case) -> None:
    """At a low verbosity buffers are not printed: unknown, not 'no GPU'."""
    _, unmeasured, _ = case.take("srv: hello\n", GpuProbe(_refuse))
    assert unmeasured["gpu_mib"].outcome == "missing"


def test_over_http_alone_nothing_is_applicable(case: Case) -> None:
    """All seven metrics say why."""
    measured, unmeasured, _ = case.take(None, GpuProbe(_refuse), owned=False, seen=False)
    assert measured == {}
    assert len(unmeasured) == 7
    assert {one.outcome for one in unmeasured.values()} == {"not_applicable"}


def test_a_rollup_that_is_gone_is_missing(case: Case) -> None:
    """The process ended: its memory is unknown, not 0."""
    (case.tree.root / "proc" / "7" / "smaps_rollup").write_text("")
    measured, unmeasured, _ = case.take(CPU_LOG, GpuProbe(_refuse))
    assert "pss_mib" not in measured
    assert unmeasured["pss_mib"].outcome == "missing"


def test_the_environment_of_a_process_is_read(case: Case, tmp_path: Path) -> None:
    """Entries without `=` are left out; what may not be read is None."""
    proc = case.tree.root / "proc"
    assert read_environ(7, proc) == {"A": "1", "CUDA_VISIBLE_DEVICES": "0"}
    assert read_environ(8, proc) is None


@pytest.mark.parametrize("value", [0, -1])
def test_memory_that_no_running_server_has_was_not_read(
    case: Case, monkeypatch: pytest.MonkeyPatch, value: int
) -> None:
    """It is inconclusive with the figure, and never a measurement."""
    reading = MemoryReading(0, 1, rss_bytes=3 << 20, peak_bytes=4 << 20, anon_bytes=value)
    monkeypatch.setattr(MemorySampler, "read", lambda self: reading)
    measured, unmeasured, _ = case.take(CUDA_LOG, GpuProbe(OneGpu))
    assert "anon_mib" not in measured
    assert "rss_mib" in measured
    assert unmeasured["anon_mib"].outcome == "inconclusive"
    assert f"{value} bytes, which no running server has" in unmeasured["anon_mib"].reason
