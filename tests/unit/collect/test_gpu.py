"""GPU memory of a server, driven by recorded answers of NVML."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchsuite.collect.gpu import (
    PROCESS,
    TOTAL,
    GpuDevice,
    GpuError,
    GpuMiss,
    GpuProbe,
    GpuProcess,
    GpuReading,
    Nvml,
    Server,
    cuda_devices,
    find_uuid,
)

A = GpuDevice("GPU-aaaa1111-0000", "00000000:01:00.0", "NVIDIA GeForce RTX 3090")
B = GpuDevice("GPU-bbbb2222-0000", "00000000:41:00.0", "NVIDIA GeForce RTX 3090")
SLOW = GpuDevice("GPU-cccc3333-0000", "00000000:81:00.0", "NVIDIA T4")
MIB = 1 << 20


class Recorded:
    """NVML as it answered."""

    def __init__(
        self,
        devices: Sequence[GpuDevice],
        processes: dict[str, Sequence[GpuProcess] | GpuError] | None = None,
        used: dict[str, int] | None = None,
    ) -> None:
        self._devices = devices
        self._processes = processes or {}
        self._used = used or {}

    def devices(self) -> Sequence[GpuDevice]:
        return self._devices

    def processes(self, uuid: str) -> Sequence[GpuProcess]:
        found = self._processes.get(uuid, ())
        if isinstance(found, GpuError):
            raise found
        return found

    def used_bytes(self, uuid: str) -> int:
        if uuid not in self._used:
            raise GpuError(f"NVML does not tell the memory of {uuid}: Insufficient Permissions")
        return self._used[uuid]


def _read(
    nvml: Nvml, *devices: str, env: dict[str, str] | None = None, pids: tuple[int, ...] = (7, 8)
) -> list[GpuReading | GpuMiss]:
    return GpuProbe(lambda: nvml).read(devices, Server(pids, env or {}), {})


def test_only_nvidia_devices_are_asked_for() -> None:
    """Host memory, other backends and RPC servers are none, whatever stands behind them."""
    named = ["CUDA0", "CUDA_Host", "CPU", "RPC0[127.0.0.1:50952]", "ROCm0", "CUDA1", "Vulkan0"]
    assert cuda_devices(named) == ["CUDA0", "CUDA1"]


def test_processes_of_the_tree_are_summed() -> None:
    """Others on the same device are left out; there is no warning."""
    nvml = Recorded(
        [A],
        {A.uuid: [GpuProcess(7, 500 * MIB), GpuProcess(8, 20 * MIB), GpuProcess(99, 4000 * MIB)]},
        {A.uuid: 4600 * MIB},
    )
    assert _read(nvml, "CUDA0") == [GpuReading("CUDA0", 520 * MIB, PROCESS)]


@pytest.mark.parametrize(
    ("processes", "words"),
    [
        ([GpuProcess(7, None)], "does not tell the memory of a process"),
        ([GpuProcess(7, 5 * MIB), GpuProcess(8, None)], "does not tell the memory of a process"),
        ([GpuProcess(31337, 500 * MIB)], "lists no process of the server"),
        ([], "lists no process of the server"),
    ],
)
def test_the_devices_total_is_marked_as_such(processes: list[GpuProcess], words: str) -> None:
    """WDDM and WSL do not tell a process' memory; a container has ids of its own."""
    found = _read(Recorded([A], {A.uuid: processes}, {A.uuid: 900 * MIB}), "CUDA0")
    assert isinstance(found[0], GpuReading)
    assert (found[0].used_bytes, found[0].source) == (900 * MIB, TOTAL)
    assert words in found[0].warning
    assert "every process" in found[0].warning


def test_two_gpus_are_told_apart() -> None:
    """Each device has its own figure."""
    nvml = Recorded(
        [A, B], {A.uuid: [GpuProcess(7, 100 * MIB)], B.uuid: [GpuProcess(7, 200 * MIB)]}
    )
    assert _read(nvml, "CUDA0", "CUDA1") == [
        GpuReading("CUDA0", 100 * MIB, PROCESS),
        GpuReading("CUDA1", 200 * MIB, PROCESS),
    ]


@pytest.mark.parametrize(
    ("mask", "device", "uuid"),
    [
        ("1", "CUDA0", B.uuid),
        ("1,0", "CUDA1", A.uuid),
        (" 1 , 0 ", "CUDA0", B.uuid),
        ("GPU-bbbb", "CUDA0", B.uuid),
        (f"{B.uuid},{A.uuid}", "CUDA1", A.uuid),
        ("MIG-5555", "CUDA0", "MIG-5555"),
        ("0,9,1", "CUDA0", A.uuid),
    ],
)
def test_the_mask_of_visible_devices_is_followed(mask: str, device: str, uuid: str) -> None:
    """By index, by UUID or its beginning, in the mask's order."""
    server = Server((7,), {"CUDA_VISIBLE_DEVICES": mask})
    assert find_uuid(device, [A, B], server, {}) == uuid


@pytest.mark.parametrize("mask", ["", "-1", "0", "0,9,1", "GPU-zzzz", "GPU-"])
def test_a_device_beyond_the_mask_is_not_guessed(mask: str) -> None:
    """CUDA stops at the first entry that is none, so there is no second device."""
    with pytest.raises(GpuError, match="leave"):
        find_uuid("CUDA1", [A, B], Server((7,), {"CUDA_VISIBLE_DEVICES": mask}), {})


def test_unlike_gpus_are_matched_only_where_their_order_is_known() -> None:
    """CUDA puts the fastest first, NVML goes by the bus; a UUID or PCI_BUS_ID settles it."""
    unlike = [SLOW, A]
    for env in ({}, {"CUDA_VISIBLE_DEVICES": "0,1"}):
        with pytest.raises(GpuError, match="CUDA_DEVICE_ORDER=PCI_BUS_ID"):
            find_uuid("CUDA0", unlike, Server((7,), env), {})
    ordered = Server((7,), {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert find_uuid("CUDA0", unlike, ordered, {}) == SLOW.uuid
    named = Server((7,), {"CUDA_VISIBLE_DEVICES": A.uuid})
    assert find_uuid("CUDA0", unlike, named, {}) == A.uuid


def test_the_logs_bus_address_settles_it() -> None:
    """Domains are printed with 4 digits by the log and with 8 by NVML."""
    server = Server((7,), None, {"CUDA0": "0000:01:00.0", "CUDA1": "0000:81:00.0"})
    assert find_uuid("CUDA0", [SLOW, A], server, {}) == A.uuid
    assert find_uuid("CUDA1", [SLOW, A], server, {}) == SLOW.uuid


def test_a_mig_instance_is_not_its_parent() -> None:
    """Both have one bus address; the mask names the instance."""
    env = {"CUDA_VISIBLE_DEVICES": "MIG-5555"}
    server = Server((7,), env, {"CUDA0": "0000:01:00.0"})
    assert find_uuid("CUDA0", [A], server, {}) == "MIG-5555"


def test_an_environment_that_cannot_be_read_leaves_only_a_single_gpu() -> None:
    """With two, a mask that nobody sees may have swapped them."""
    assert find_uuid("CUDA0", [A], Server((7,), None), {}) == A.uuid
    with pytest.raises(GpuError, match="cannot be read"):
        find_uuid("CUDA0", [A, B], Server((7,), None), {})


def test_a_containers_own_view_is_not_ours() -> None:
    """NVIDIA_VISIBLE_DEVICES numbers devices before CUDA does; the same for us, it changes none."""
    server = Server((7,), {"NVIDIA_VISIBLE_DEVICES": "1"})
    assert find_uuid("CUDA0", [A, B], server, {}) == B.uuid
    assert find_uuid("CUDA0", [A, B], server, {"NVIDIA_VISIBLE_DEVICES": "1"}) == A.uuid
    every = Server((7,), {"NVIDIA_VISIBLE_DEVICES": "all"})
    assert find_uuid("CUDA0", [A, B], every, {}) == A.uuid


@pytest.mark.parametrize(
    ("mask", "inner", "device", "uuid"),
    [
        ("GPU-bbbb2222-0000", None, "CUDA0", B.uuid),
        ("GPU-bbbb", None, "CUDA0", B.uuid),
        ("0,1", None, "CUDA1", B.uuid),
        ("1,0", None, "CUDA0", A.uuid),  # the mask orders nothing: CUDA does
        ("0,1", "1", "CUDA0", B.uuid),  # and a mask within the container counts what it has
    ],
)
def test_the_devices_of_a_container_are_counted_from_its_own(
    mask: str, inner: str | None, device: str, uuid: str
) -> None:
    """What `--gpus` gave it, by NVML's number or by UUID."""
    env = {"NVIDIA_VISIBLE_DEVICES": mask}
    env |= {} if inner is None else {"CUDA_VISIBLE_DEVICES": inner}
    assert find_uuid(device, [A, B], Server((7,), env), {}) == uuid


@pytest.mark.parametrize(
    ("mask", "ours"),
    [
        ("void", None),  # CDI: the devices are named elsewhere
        ("2", None),
        ("MIG-1/2/3", None),
        ("1", "0,1"),  # we are in another container: its numbers are not ours
        ("GPU-", None),  # could be either
    ],
)
def test_a_container_s_devices_that_cannot_be_told_are_said_to_be_unknown(
    mask: str, ours: str | None
) -> None:
    """A wrong device's memory would be worse than none."""
    our_env = {} if ours is None else {"NVIDIA_VISIBLE_DEVICES": ours}
    with pytest.raises(GpuError, match="not known here"):
        find_uuid("CUDA0", [A, B], Server((7,), {"NVIDIA_VISIBLE_DEVICES": mask}), our_env)


def test_an_error_on_one_device_leaves_the_other() -> None:
    """A MIG handle that may not be read, a GPU that fell off the bus."""
    nvml = Recorded(
        [A, B],
        {
            A.uuid: GpuError("NVML does not list the processes on GPU-aaaa: GPU is lost"),
            B.uuid: [GpuProcess(7, 5 * MIB)],
        },
    )
    found = _read(nvml, "CUDA0", "CUDA1")
    assert found[0] == GpuMiss("CUDA0", "NVML does not list the processes on GPU-aaaa: GPU is lost")
    assert found[1] == GpuReading("CUDA1", 5 * MIB, PROCESS)
    nothing = _read(Recorded([A]), "CUDA0", env={"CUDA_VISIBLE_DEVICES": "MIG-5"})
    assert isinstance(nothing[0], GpuMiss)
    assert "Insufficient Permissions" in nothing[0].reason


def test_nvml_is_not_loaded_for_other_devices() -> None:
    """A CPU run never touches the driver."""

    def load() -> Nvml:
        raise AssertionError("loaded")

    assert GpuProbe(load).read([], Server((7,), {}), {}) == []


def test_a_library_that_is_missing_is_said_for_each_device() -> None:
    """It is tried again at the next snapshot."""
    tries: list[int] = []

    def load() -> Nvml:
        tries.append(1)
        raise GpuError("nvidia-ml-py is not installed")

    probe = GpuProbe(load)
    for _ in range(2):
        found = probe.read(["CUDA0", "CUDA1"], Server((7,), {}), {})
        assert [one.device for one in found] == ["CUDA0", "CUDA1"]
        assert all(isinstance(one, GpuMiss) and "not installed" in one.reason for one in found)
    assert len(tries) == 2
