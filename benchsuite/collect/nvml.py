"""The seam to NVML itself, through nvidia-ml-py (the extra `gpu`); imported where it is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from benchsuite.collect.gpu import GpuDevice, GpuError, GpuProcess, Nvml

_Answer = TypeVar("_Answer")


def load_nvml() -> Nvml:
    """NVML, initialised for as long as this process lives.

    Raises:
        GpuError: nvidia-ml-py is not installed, or there is no driver.
    """
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
