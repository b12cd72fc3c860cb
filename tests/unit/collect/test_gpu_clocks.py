"""Clocks of GPUs: bits become words, and what is not supported is None."""

from __future__ import annotations

from collections.abc import Sequence

from benchsuite.collect.gpu import GpuDevice, GpuError
from benchsuite.collect.gpu_clocks import GpuClocks, read_gpus
from benchsuite.model.machine import GpuState


class Recorded:
    """NVML with two devices, as it answered."""

    def __init__(self, *clocks: GpuClocks) -> None:
        self._clocks = clocks

    def devices(self) -> Sequence[GpuDevice]:
        return [GpuDevice(str(i), f"00000000:0{i}:00.0", "H200") for i in range(len(self._clocks))]

    def clocks(self, uuid: str) -> GpuClocks:
        return self._clocks[int(uuid)]


def test_reasons_are_words() -> None:
    """Each bit of the mask that slows, in words."""
    found = read_gpus(lambda: Recorded(GpuClocks(1500, 1980, 0x44, 7, 8)))
    slowed = ("software power cap", "hardware thermal slowdown")
    assert found == (GpuState("H200", 1500, 1980, slowed, 7, 8),)


def test_an_idle_gpu_is_not_slowed() -> None:
    """Some cards report their power cap beside idling."""
    found = read_gpus(lambda: Recorded(GpuClocks(210, 1980, 0x5), GpuClocks()))
    assert found == (GpuState("H200", 210, 1980), GpuState("H200"))


def test_no_nvml_is_a_reason() -> None:
    """Not an empty list, which would be a machine without GPUs."""

    def absent() -> Recorded:
        raise GpuError("nvidia-ml-py is not installed")

    assert read_gpus(absent) == "nvidia-ml-py is not installed"


def test_a_gpu_that_is_lost_meanwhile_is_a_reason() -> None:
    """Nor is one left out that fell off the bus."""

    class Lost(Recorded):
        def clocks(self, uuid: str) -> GpuClocks:
            raise GpuError("GPU is lost")

    assert read_gpus(lambda: Lost(GpuClocks())) == "GPU is lost"
