"""`ci/gpu-check` prints what recorded answers of NVML and a recorded run tell."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchsuite.collect.gpu import GpuDevice, GpuError, GpuProcess
from benchsuite.collect.gpu_clocks import GpuClocks

A = GpuDevice("GPU-aaaa", "00000000:01:00.0", "NVIDIA H200")
B = GpuDevice("GPU-bbbb", "00000000:41:00.0", "NVIDIA H200")
MIB = 1 << 20


class Recorded:
    """Two GPUs; the second tells less."""

    def devices(self) -> list[GpuDevice]:
        return [A, B]

    def processes(self, uuid: str) -> list[GpuProcess]:
        return [GpuProcess(7, 500 * MIB)] if uuid == A.uuid else [GpuProcess(8, None)]

    def used_bytes(self, uuid: str) -> int:
        if uuid == B.uuid:
            raise GpuError("NVML does not tell the memory of GPU-bbbb: Insufficient Permissions")
        return 900 * MIB

    def clocks(self, uuid: str) -> GpuClocks:
        return GpuClocks(1500, 1980, 0x20, 9, 0) if uuid == A.uuid else GpuClocks()


def _record(**server: Any) -> dict[str, Any]:
    return {
        "launches": [
            {"variant": "B", "server": {"devices": ["CUDA0", "CPU"], **server}},
        ],
        "measurements": [
            {"name": "gpu_mib", "value": 512.0, "source": "nvml process",
             "labels": {"device": "CUDA0", "at": "end"}},
        ],
        "fingerprint": {"machine": "X, 1 x NVIDIA H200"},
        "verdict": {"outcome": "pass"},
    }  # fmt: skip


@pytest.fixture
def script() -> ModuleType:
    path = Path(__file__).parents[3] / "ci" / "gpu-check"
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(path))
    spec = importlib.util.spec_from_loader("gpu_check", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_each_device_is_listed_with_what_it_tells(script: ModuleType) -> None:
    """What one does not tell is said to be unknown, and is no 0."""
    lines = list(script.seen_by_nvml(Recorded(), {"CUDA_VISIBLE_DEVICES": "1"}))
    assert lines[0] == "CUDA_VISIBLE_DEVICES: 1"
    text = "\n".join(lines)
    assert "NVML 0: NVIDIA H200, GPU-aaaa, bus 00000000:01:00.0" in text
    assert "1500 of 1980 MHz, held down by: software thermal slowdown" in text
    assert "memory in use: 900 MiB" in text
    assert "processes: 7: 500 MiB" in text
    assert "memory in use: not known: NVML does not tell the memory of GPU-bbbb" in text
    assert "processes: 8: not told" in text
    assert "clocks: not told of not told MHz, held down by: not told" in text
    assert "None" not in text


def test_a_run_s_device_is_matched_by_mask_and_by_bus(script: ModuleType) -> None:
    """By the deployment's mask; the log's bus address decides where it is printed."""
    by_mask = _record(env={"CUDA_VISIBLE_DEVICES": "GPU-bbbb"})
    text = "\n".join(script.seen_by_run(by_mask, Recorded(), {}))
    assert "CUDA0 by number and mask: GPU-bbbb" in text
    assert "gpu_mib at=end, device=CUDA0: 512 MiB (nvml process)" in text
    assert "verdict: pass" in text
    by_bus = _record()
    by_bus["launches"][0]["buses"] = {"CUDA0": "0000:41:00.0"}
    assert "  CUDA0 by bus 0000:41:00.0: GPU-bbbb" in script.seen_by_run(by_bus, Recorded(), {})


def test_without_a_gpu_nothing_was_checked(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """That is said, and is not exit 0."""

    def none() -> Recorded:
        raise GpuError("NVML cannot be initialised: Driver Not Loaded")

    assert script.main([], {}, none) == script.NOTHING_CHECKED == 3
    assert "nothing was checked" in capsys.readouterr().out
