"""The seam to NVML itself, through nvidia-ml-py (the extra `gpu`); imported where it is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from benchsuite.collect.gpu import GpuDevice, GpuError, GpuProcess, Nvml
from benchsuite.collect.gpu_clocks import GpuClocks, NvmlClocks

_Answer = TypeVar("_Answer")


_SM_CLOCK = 1  # NVML_CLOCK_SM
_POWER, _THERMAL = 0, 1  # NVML_PERF_POLICY_*
_REASONS = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",  # its name before driver 535
)


def load_nvml() -> Nvml:
    """NVML, initialised for as long as this process lives.

    Raises:
        GpuError: nvidia-ml-py is not installed, or there is no driver.
    """
    return _load()


def load_nvml_clocks() -> NvmlClocks:
    """The same, for the questions about clocks."""
    return _load()


def _load() -> _Nvml:
    try:
        import pynvml
    except ImportError as error:
        raise GpuError(
            "nvidia-ml-py is not installed; type pip install 'benchsuite[gpu]'"
        ) from error
    return _Nvml(pynvml)


class _Nvml:
    """NVML through the module `pynvml`.

    Args:
        library: The module.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        self._ask("cannot be initialised", library.nvmlInit)

    def devices(self) -> Sequence[GpuDevice]:
        """All devices, in the order of the PCI bus."""
        return self._ask("does not list its devices", self._devices)

    def processes(self, uuid: str) -> Sequence[GpuProcess]:
        """The compute processes on a device or MIG instance."""
        return self._ask(f"does not list the processes on {uuid}", lambda: self._processes(uuid))

    def used_bytes(self, uuid: str) -> int:
        """The memory in use on a device or MIG instance."""
        return self._ask(f"does not tell the memory of {uuid}", lambda: self._used(uuid))

    def clocks(self, uuid: str) -> GpuClocks:
        """Clocks and throttling of a device; what it does not support is None."""
        library = self._library
        handle = self._ask(f"does not know {uuid}", lambda: self._handle(uuid))

        def told(names: Sequence[str], *arguments: Any) -> Any:
            for name in names:
                try:
                    return getattr(library, name)(handle, *arguments)
                except (AttributeError, library.NVMLError):
                    continue  # neither this version nor this device needs to have it
            return None

        def slowed_ns(policy: int) -> int | None:
            status = told(("nvmlDeviceGetViolationStatus",), policy)
            return None if status is None else int(status.violationTime)

        return GpuClocks(
            clock_mhz=told(("nvmlDeviceGetClockInfo",), _SM_CLOCK),
            top_clock_mhz=told(("nvmlDeviceGetMaxClockInfo",), _SM_CLOCK),
            reasons=told(_REASONS),
            thermal_ns=slowed_ns(_THERMAL),
            power_ns=slowed_ns(_POWER),
        )

    def _devices(self) -> list[GpuDevice]:
        library = self._library
        found = []
        for index in range(library.nvmlDeviceGetCount()):
            handle = library.nvmlDeviceGetHandleByIndex(index)
            found.append(
                GpuDevice(
                    uuid=_text(library.nvmlDeviceGetUUID(handle)),
                    bus=_text(library.nvmlDeviceGetPciInfo(handle).busId),
                    name=_text(library.nvmlDeviceGetName(handle)),
                )
            )
        return found

    def _processes(self, uuid: str) -> list[GpuProcess]:
        library = self._library
        rows = library.nvmlDeviceGetComputeRunningProcesses(self._handle(uuid))
        return [GpuProcess(row.pid, row.usedGpuMemory) for row in rows]

    def _used(self, uuid: str) -> int:
        return int(self._library.nvmlDeviceGetMemoryInfo(self._handle(uuid)).used)

    def _handle(self, uuid: str) -> Any:
        return self._library.nvmlDeviceGetHandleByUUID(uuid.encode())

    def _ask(self, failing: str, question: Callable[[], _Answer]) -> _Answer:
        try:
            return question()
        except self._library.NVMLError as error:
            raise GpuError(f"NVML {failing}: {error}") from error


def _text(value: Any) -> str:
    """Bytes in older versions of nvidia-ml-py, text in newer ones."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
