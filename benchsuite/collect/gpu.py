"""GPU memory of a server's processes on NVIDIA devices; what NVML is asked, and what it means.

The log names devices `CUDA0`, `CUDA1` in CUDA's order, NVML in the order of the PCI bus. They are
matched by the bus address that the log prints (`using device CUDA0 (...) (0000:01:00.0)`, builds
of late 2025 on), else by `CUDA_VISIBLE_DEVICES` of the server's process and CUDA's order, which is
the bus order only where the devices are alike or `CUDA_DEVICE_ORDER=PCI_BUS_ID`.

NVML may not tell a process' memory: under WDDM and WSL it is not available, and in a container
the ids of processes may be those of the host. Then the device's total is taken, and marked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import msgspec

PROCESS = "nvml process"
"""Source of what the server's own processes hold."""

TOTAL = "nvml device total"
"""Source of what all processes on the device hold together."""

_CUDA = re.compile(r"CUDA(\d+)")
_BUS = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.[0-9a-f]+)?", re.I)
_OUTER_MASK = "NVIDIA_VISIBLE_DEVICES"


class GpuError(Exception):
    """NVML, or the way to it, failed; the text says how."""


class GpuDevice(msgspec.Struct, frozen=True):
    """One device, as NVML lists it."""

    uuid: str  # `GPU-...`
    bus: str  # `00000000:01:00.0`
    name: str


class GpuProcess(msgspec.Struct, frozen=True):
    """One process on a device."""

    pid: int
    used_bytes: int | None  # None where NVML says NOT_AVAILABLE


class Nvml(Protocol):
    """What is asked of NVML; each may raise GpuError."""

    def devices(self) -> Sequence[GpuDevice]:
        """All devices, in the order of the PCI bus."""

    def processes(self, uuid: str) -> Sequence[GpuProcess]:
        """The compute processes on a device or MIG instance."""

    def used_bytes(self, uuid: str) -> int:
        """The memory in use on a device or MIG instance, whoever uses it."""


class Server(msgspec.Struct, frozen=True):
    """What is known of the server whose memory is wanted."""

    pids: tuple[int, ...]  # its process tree
    # of its main process; None where it cannot be read
    env: dict[str, str] | None
    buses: dict[str, str] = {}  # device -> bus address, where the log prints it


class GpuReading(msgspec.Struct, frozen=True):
    """Memory on one device."""

    device: str  # `CUDA0`
    used_bytes: int
    source: str  # PROCESS or TOTAL
    warning: str = ""  # why it is only the total


class GpuMiss(msgspec.Struct, frozen=True):
    """A device whose memory is not known."""

    device: str
    reason: str


def cuda_devices(devices: Sequence[str]) -> list[str]:
    """Those of the devices in a log that are NVIDIA's: `CUDA0`, and not `CUDA_Host` or `RPC0`."""
    return [device for device in devices if _CUDA.fullmatch(device)]


class GpuProbe:
    """Asks NVML, which is loaded when a server first uses an NVIDIA device and not before.

    Args:
        load: Loads it; raises GpuError where it is not there.
    """

    def __init__(self, load: Callable[[], Nvml]) -> None:
        self._load = load
        self._nvml: Nvml | None = None

    def read(
        self, devices: Sequence[str], server: Server, our_env: Mapping[str, str]
    ) -> list[GpuReading | GpuMiss]:
        """The server's memory on each device, or why it is not known.

        Args:
            devices: As of `cuda_devices`.
            server: Whose memory.
            our_env: Our own environment, for what hides devices from us as well.
        """
        if not devices:
            return []
        try:
            if self._nvml is None:
                self._nvml = self._load()
            nvml, listed = self._nvml, self._nvml.devices()
        except GpuError as error:
            return [GpuMiss(device, str(error)) for device in devices]
        found: list[GpuReading | GpuMiss] = []
        for device in devices:
            try:
                uuid = find_uuid(device, listed, server, our_env)
                found.append(_read_one(nvml, device, uuid, server.pids))
            except GpuError as error:
                found.append(GpuMiss(device, str(error)))
        return found


def find_uuid(
    device: str, listed: Sequence[GpuDevice], server: Server, our_env: Mapping[str, str]
) -> str:
    """The UUID of a device that the log names.

    Raises:
        GpuError: It cannot be told which one it is.
    """
    bus = _bus_key(server.buses.get(device, ""))
    at_bus = [one.uuid for one in listed if bus is not None and _bus_key(one.bus) == bus]
    if len(at_bus) == 1 and not _names_mig(server.env):
        return at_bus[0]
    match = _CUDA.fullmatch(device)
    index = -1 if match is None else int(match[1])
    if server.env is None:
        if len(listed) == 1 and index == 0:
            return listed[0].uuid
        raise GpuError(
            f"which GPU is {device} is not known: the environment of the server's process, with "
            "its CUDA_VISIBLE_DEVICES, cannot be read"
        )
    visible = _visible(listed, server.env, our_env)
    if not 0 <= index < len(visible):
        raise GpuError(
            f"the log names {device}, but NVML and CUDA_VISIBLE_DEVICES leave {len(visible)} "
            "devices to the server"
        )
    return visible[index]


def _visible(
    listed: Sequence[GpuDevice], env: Mapping[str, str], our_env: Mapping[str, str]
) -> list[str]:
    """The UUIDs that CUDA shows to the server, in its order."""
    listed = _mounted(listed, env.get(_OUTER_MASK), our_env.get(_OUTER_MASK))
    alike = len({one.name for one in listed}) <= 1
    in_bus_order = alike or env.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    mask = env.get("CUDA_VISIBLE_DEVICES")
    if mask is None:
        _need_order(in_bus_order)
        return [one.uuid for one in listed]
    visible: list[str] = []
    for entry in (part.strip() for part in mask.split(",")):
        if entry.startswith("MIG-"):
            visible.append(entry)
        elif entry.startswith("GPU-"):
            matching = [one.uuid for one in listed if one.uuid.startswith(entry)]
            if len(matching) != 1:
                break
            visible.append(matching[0])
        elif entry.isdigit() and int(entry) < len(listed):
            _need_order(in_bus_order)
            visible.append(listed[int(entry)].uuid)
        else:
            break  # CUDA stops at the first entry that is none
    return visible


def _mounted(
    listed: Sequence[GpuDevice], outer: str | None, ours: str | None
) -> Sequence[GpuDevice]:
    """The devices that the server's container has, by NVML's numbers or by UUID.

    Where we are in a container with a mask of its own, `listed` is only what that one has, and the
    numbers of another mask cannot be told.
    """
    if outer in (None, "all", ours) or len(listed) <= 1:
        return listed
    entries = [part.strip() for part in (outer or "").split(",")]
    found = [
        index
        for index, one in enumerate(listed)
        if any(one.uuid.startswith(entry) for entry in entries if entry.startswith("GPU-"))
        or (str(index) in entries and ours in (None, "all"))
    ]
    if len(found) != len(entries):
        raise GpuError(
            f"which GPUs the server's container sees ({_OUTER_MASK}={outer}) is not known here"
        )
    return [listed[index] for index in found]


def _need_order(in_bus_order: bool) -> None:
    if not in_bus_order:
        raise GpuError(
            "CUDA numbers unlike GPUs by speed, so their numbers in the log are not NVML's; set "
            "CUDA_DEVICE_ORDER=PCI_BUS_ID for the server, or name GPUs by UUID in "
            "CUDA_VISIBLE_DEVICES"
        )


def _names_mig(env: Mapping[str, str] | None) -> bool:
    """A MIG instance has its parent's bus address, and a part of its memory."""
    return env is not None and "MIG-" in env.get("CUDA_VISIBLE_DEVICES", "")


def _read_one(nvml: Nvml, device: str, uuid: str, pids: Collection[int]) -> GpuReading:
    ours = [one for one in nvml.processes(uuid) if one.pid in pids]
    known = [one.used_bytes for one in ours if one.used_bytes is not None]
    if ours and len(known) == len(ours):
        return GpuReading(device, sum(known), PROCESS)
    why = (
        "NVML does not tell the memory of a process here (WDDM, WSL)"
        if ours
        else "NVML lists no process of the server there (as within a container)"
    )
    warning = f"gpu_mib of {device} is the device's total, of every process on it: {why}"
    return GpuReading(device, nvml.used_bytes(uuid), TOTAL, warning)


def _bus_key(text: str) -> tuple[int, int, int] | None:
    """Domain, bus and slot: `0000:01:00.0` and `00000000:01:00.0` are one."""
    match = _BUS.fullmatch(text.strip())
    if match is None:
        return None
    return int(match[1] or "0", 16), int(match[2], 16), int(match[3], 16)
