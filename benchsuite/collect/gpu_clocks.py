"""Clocks of NVIDIA GPUs and what holds them down; what NVML is asked, and what it means.

Reasons and counters as in nvml.h: `nvmlClocksEventReason*`, `nvmlDeviceGetViolationStatus`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from benchsuite.collect.gpu import GpuDevice, GpuError
from benchsuite.model.machine import GpuState

IDLE = 0x1
"""Nothing runs on it."""

REASONS: dict[int, str] = {
    0x2: "application clocks are set",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost with another GPU",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clock setting",
}
"""Bit -> why the clocks are lower than they could be."""


class GpuClocks(msgspec.Struct, frozen=True):
    """What NVML tells of one device; None where it does not support the question."""

    clock_mhz: int | None = None  # of the SMs
    top_clock_mhz: int | None = None
    reasons: int | None = None  # bits of `REASONS`
    thermal_ns: int | None = None  # so far
    power_ns: int | None = None


class NvmlClocks(Protocol):
    """What is asked of NVML; each may raise GpuError."""

    def devices(self) -> Sequence[GpuDevice]:
        """All devices, in the order of the PCI bus."""

    def clocks(self, uuid: str) -> GpuClocks:
        """Clocks and throttling of a device."""


def read_gpus(load: Callable[[], NvmlClocks]) -> tuple[GpuState, ...] | str:
    """The state of every GPU, or why none can be seen.

    Args:
        load: Gives NVML; raises GpuError where there is none.
    """
    try:
        nvml = load()
        return tuple(_state(device, nvml.clocks(device.uuid)) for device in nvml.devices())
    except GpuError as error:
        return str(error)


def _state(device: GpuDevice, clocks: GpuClocks) -> GpuState:
    reasons = clocks.reasons or 0
    if reasons & IDLE:
        reasons = 0  # beside it, the others tell of clocks that nobody wants
    return GpuState(
        name=device.name,
        clock_mhz=clocks.clock_mhz,
        top_clock_mhz=clocks.top_clock_mhz,
        slowed_by=tuple(words for bit, words in REASONS.items() if reasons & bit),
        thermal_ns=clocks.thermal_ns,
        power_ns=clocks.power_ns,
    )
