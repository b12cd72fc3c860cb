"""Whether a run's machine state includes its GPUs: NVML takes a while to come up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchsuite.collect.gpu_clocks import NvmlClocks
from benchsuite.model.plan import Plan

_DRIVER = Path("/proc/driver/nvidia/version")


def gpu_source(plan: Plan, driver: Path = _DRIVER) -> Callable[[], NvmlClocks] | None:
    """What gives NVML, where a server of this plan may use an NVIDIA GPU; None elsewhere.

    Args:
        plan: Whose servers; one that was started by others runs wherever it runs.
        driver: Is there while the driver is loaded.
    """
    if plan.deployment.attached or not driver.exists():
        return None
    if all(variant.flags.get("n-gpu-layers") == "0" for variant in plan.variants):
        return None
    return load


def load() -> NvmlClocks:
    """NVML; imported when it is asked for."""
    from benchsuite.collect.nvml import load_nvml_clocks

    return load_nvml_clocks()
