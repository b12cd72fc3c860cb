"""The seam to nvidia-ml-py: its objects become ours, its errors one error."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from benchsuite.collect.gpu import GpuDevice, GpuError, GpuProcess
from benchsuite.collect.gpu_clocks import GpuClocks
from benchsuite.collect.nvml import load_nvml, load_nvml_clocks


class NvmlError(Exception):
    """As `pynvml.NVMLError`."""


class Library:
    """`pynvml` with one device, as nvidia-ml-py 12 answers."""

    NVMLError = NvmlError

    def __init__(self, *, failing: str = "", as_bytes: bool = False) -> None:
        self._failing = failing
        self._as_bytes = as_bytes

    def __getattr__(self, name: str) -> Any:
        if name == self._failing:
            return self._fail
        answers: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetHandleByUUID": "handle",
            "nvmlDeviceGetUUID": self._text("GPU-1"),
            "nvmlDeviceGetName": self._text("NVIDIA H100"),
            "nvmlDeviceGetPciInfo": SimpleNamespace(busId=self._text("00000000:01:00.0")),
            "nvmlDeviceGetComputeRunningProcesses": [
                SimpleNamespace(pid=7, usedGpuMemory=1024),
                SimpleNamespace(pid=8, usedGpuMemory=None),
            ],
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=4096, total=8192),
            "nvmlDeviceGetClockInfo": 1500,
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlDeviceGetCurrentClocksEventReasons": 4,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 4,
            "nvmlDeviceGetViolationStatus": SimpleNamespace(referenceTime=5, violationTime=9),
        }
        return lambda *args: answers[name]

    def _text(self, text: str) -> str | bytes:
        return text.encode() if self._as_bytes else text

    def _fail(self, *args: object) -> None:
        raise NvmlError("GPU is lost")


@pytest.mark.parametrize("as_bytes", [False, True])
def test_answers_become_ours(monkeypatch: pytest.MonkeyPatch, as_bytes: bool) -> None:
    """Texts are bytes in older versions; memory that is not available is None."""
    monkeypatch.setitem(sys.modules, "pynvml", Library(as_bytes=as_bytes))
    nvml = load_nvml()
    assert nvml.devices() == [GpuDevice("GPU-1", "00000000:01:00.0", "NVIDIA H100")]
    assert nvml.processes("GPU-1") == [GpuProcess(7, 1024), GpuProcess(8, None)]
    assert nvml.used_bytes("GPU-1") == 4096


@pytest.mark.parametrize(
    ("failing", "words"),
    [
        ("nvmlInit", "cannot be initialised"),
        ("nvmlDeviceGetCount", "does not list its devices"),
        ("nvmlDeviceGetHandleByUUID", "does not list the processes"),
        ("nvmlDeviceGetComputeRunningProcesses", "does not list the processes on GPU-1"),
        ("nvmlDeviceGetMemoryInfo", "does not tell the memory of GPU-1"),
    ],
)
def test_every_error_names_what_failed(
    monkeypatch: pytest.MonkeyPatch, failing: str, words: str
) -> None:
    """Also those that come mid-run."""
    monkeypatch.setitem(sys.modules, "pynvml", Library(failing=failing))

    def ask() -> None:
        nvml = load_nvml()
        nvml.devices()
        nvml.processes("GPU-1")
        nvml.used_bytes("GPU-1")

    with pytest.raises(GpuError, match=f"NVML {words}.*: GPU is lost"):
        ask()


@pytest.mark.parametrize(
    ("failing", "clocks"),
    [
        ("", GpuClocks(1500, 1980, 4, 9, 9)),
        ("nvmlDeviceGetClockInfo", GpuClocks(None, 1980, 4, 9, 9)),
        ("nvmlDeviceGetCurrentClocksEventReasons", GpuClocks(1500, 1980, 4, 9, 9)),
        ("nvmlDeviceGetViolationStatus", GpuClocks(1500, 1980, 4, None, None)),
    ],
)
def test_clocks_that_a_device_does_not_tell_are_none(
    monkeypatch: pytest.MonkeyPatch, failing: str, clocks: GpuClocks
) -> None:
    """Each question by itself; the throttle reasons also by their older name."""
    monkeypatch.setitem(sys.modules, "pynvml", Library(failing=failing))
    assert load_nvml_clocks().clocks("GPU-1") == clocks


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to type is in the message."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(GpuError, match=r"pip install 'benchsuite\[gpu\]'"):
        load_nvml()


def test_the_real_library_on_this_machine() -> None:
    """With a driver it lists devices; without one it says so."""
    pynvml = pytest.importorskip("pynvml")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        with pytest.raises(GpuError, match="NVML cannot be initialised"):
            load_nvml()
    else:
        assert all(one.uuid.startswith("GPU-") for one in load_nvml().devices())
