"""The memory of a server at a named moment, from every source that this machine has.

Only what belongs to the server: its process tree, its cgroup if that is not ours too, and its
processes on NVIDIA devices. What RPC servers hold belongs to other processes; the log tells the KV
that is kept there (`kv_mib{device="RPC0"}`), and nothing of it is counted here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from benchsuite.collect.cgroup import CgroupReading, read_cgroup, server_place
from benchsuite.collect.gpu import GpuMiss, GpuProbe, Server, cuda_devices
from benchsuite.collect.log_follower import LogFollower
from benchsuite.collect.nvml import load_nvml
from benchsuite.collect.process_memory import (
    ROLLUP,
    STATUS,
    MemoryReading,
    MemorySampler,
    RollupReading,
    Unreadable,
    read_rollup,
)
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.record import Measurement, Unmeasured
from benchsuite.store.records import Keep
from benchsuite.units import MIB

Outcome = Literal["not_applicable", "missing", "inconclusive"]

_MEMORY = (
    ("rss_mib", "rss_bytes"),
    ("rss_peak_mib", "peak_bytes"),
    ("anon_mib", "anon_bytes"),
)
_CGROUP = ("cgroup_mib", "cgroup_anon_mib")


class Blind(msgspec.Struct, frozen=True):
    """Why no process of a server can be seen."""

    reason: str = "the memory of an attached server cannot be seen over HTTP"
    outcome: Outcome = "not_applicable"


class Beside(msgspec.Struct, frozen=True):
    """Memory beside a look at the server, in bytes; what is not known is left out."""

    cgroup_bytes: int | None = None  # None too where the server has no cgroup of its own
    gpu_bytes: dict[str, int] = {}  # by device


class Snapshots:
    """Reads a server's memory when told to.

    Args:
        variant: Name of the variant.
        trial: From 1.
        pids: Gives the server's process tree, its main process first; None where it cannot be
            seen.
        log: Tells which devices are in use; None where it cannot be seen.
        keep: The journal.
        owned: Whether we launched the server: what cannot be read is missing then, else it was
            declared observable and is inconclusive.
        unseen: Why there are no `pids`; None where the server is seen over HTTP only.
        gpu: Asks NVML.
        root: What stands before `/proc` and the mounts of cgroups.

    Attributes:
        warnings: Sentences for the record, each once.
    """

    def __init__(
        self,
        variant: str,
        trial: int,
        *,
        pids: Callable[[], Sequence[int]] | None,
        log: LogFollower | None,
        keep: Keep,
        owned: bool,
        unseen: Blind | None = None,
        gpu: GpuProbe | None = None,
        root: Path = Path("/"),
    ) -> None:
        self._variant = variant
        self._trial = trial
        self._pids = pids
        self._log = log
        self._keep = keep
        self._unread: Outcome = "missing" if owned else "inconclusive"
        self._gpu = gpu or GpuProbe(load_nvml)
        self._root = root
        self._blind = unseen or Blind()
        self._measured: list[Measurement] = []
        self._unmeasured: list[Unmeasured] = []
        self.sampler = None if pids is None else MemorySampler(pids, self._keep_reading)
        self.warnings: list[str] = []
        self._devices: tuple[Server, list[str]] | None = None  # of the process seen last

    def beside(self) -> Beside:
        """Memory of the server's cgroup and of its GPUs now, for those who look often.

        Which devices a process uses is asked of its log once.
        """
        pids = () if self._pids is None else tuple(self._pids())
        if not pids:
            return Beside()
        place = server_place(pids[0], self._root)
        charged = place if isinstance(place, Unreadable) else read_cgroup(place)
        known = self._devices
        if known is None or known[0].pids[0] != pids[0]:
            env = read_environ(pids[0], self._root / "proc")
            load = None if self._log is None else self._log.facts()
            devices = [] if load is None else cuda_devices(load.devices)
            buses = {} if load is None else load.load.buses
            known = self._devices = (Server(pids, env, buses), devices)
        server = msgspec.structs.replace(known[0], pids=pids)
        found = self._gpu.read(known[1], server, os.environ) if known[1] else []
        return Beside(
            None if isinstance(charged, Unreadable) else charged.current_bytes,
            {one.device: one.used_bytes for one in found if not isinstance(one, GpuMiss)},
        )

    def take(self, name: str) -> tuple[list[Measurement], list[Unmeasured]]:
        """Read memory now, labelled `at="NAME"`."""
        self._measured, self._unmeasured = [], []
        labels = {"at": name}
        pids = () if self._pids is None else tuple(self._pids())
        self._take_status(labels)
        self._take_rollup(labels, pids)
        self._take_cgroup(labels, pids)
        self._take_gpu(labels, pids)
        return self._measured, self._unmeasured

    def _take_status(self, labels: dict[str, str]) -> None:
        reading = None if self.sampler is None else self.sampler.read()
        for metric, field in _MEMORY:
            value = None if reading is None else getattr(reading, field)
            if value is not None:
                self._add(metric, value, labels, STATUS if sys.platform == "linux" else "psutil")
            elif self.sampler is None:
                self._miss(metric, labels, self._blind.reason, self._blind.outcome)
            elif reading is None:
                self._miss(metric, labels, "no process of the server could be read", self._unread)
            else:
                self._miss(metric, labels, "this system does not tell it", "not_applicable")

    def _take_rollup(self, labels: dict[str, str], pids: Sequence[int]) -> None:
        if self._pids is None:
            self._miss("pss_mib", labels, self._blind.reason, self._blind.outcome)
            return
        found = read_rollup(pids, self._root / "proc")
        if isinstance(found, RollupReading):
            self._add("pss_mib", found.pss_bytes, labels, ROLLUP)
            self._keep("rollup", variant=self._variant, trial=self._trial, reading=found)
        else:
            self._miss_unreadable("pss_mib", labels, found)

    def _take_cgroup(self, labels: dict[str, str], pids: Sequence[int]) -> None:
        if not pids:
            blind = Blind("no process of the server could be read", self._unread)
            if self._pids is None:
                blind = self._blind
            for metric in _CGROUP:
                self._miss(metric, labels, blind.reason, blind.outcome)
            return
        place = server_place(pids[0], self._root)
        found = place if isinstance(place, Unreadable) else read_cgroup(place)
        if isinstance(found, Unreadable):
            for metric in _CGROUP:
                self._miss_unreadable(metric, labels, found)
            return
        self._add("cgroup_mib", found.current_bytes, labels, found.current_source)
        if found.anon_bytes is not None:
            self._add("cgroup_anon_mib", found.anon_bytes, labels, found.anon_source)
        else:
            why = "memory.stat of the server's cgroup does not tell it"
            self._miss("cgroup_anon_mib", labels, why, self._unread)
        self._keep_cgroup(found)

    def _take_gpu(self, labels: dict[str, str], pids: Sequence[int]) -> None:
        if self._pids is None:
            self._miss("gpu_mib", labels, self._blind.reason, self._blind.outcome)
            return
        if self._log is None:
            why = "only a server's log tells which GPUs it uses, and this one's cannot be seen"
            self._miss("gpu_mib", labels, why, "not_applicable")
            return
        self._log.poll()
        facts = self._log.facts()
        devices = cuda_devices(facts.devices)
        if not devices:
            used = ", ".join(facts.devices) or "none is named in the log"
            why = f"no NVIDIA device is in use ({used})"
            known: Outcome = "not_applicable" if facts.devices else self._unread
            self._miss("gpu_mib", labels, why, known)
            return
        env = read_environ(pids[0], self._root / "proc") if pids else None
        server = Server(tuple(pids), env, facts.load.buses)
        for found in self._gpu.read(devices, server, os.environ):
            there = {**labels, "device": found.device}
            if isinstance(found, GpuMiss):
                self._miss("gpu_mib", there, found.reason, self._unread)
                continue
            self._add("gpu_mib", found.used_bytes, there, found.source)
            if found.warning and found.warning not in self.warnings:
                self.warnings.append(found.warning)

    def _add(self, name: str, value: int, labels: dict[str, str], source: str) -> None:
        if value <= 0:  # a running server holds something, so this was not read
            why = f"{source} tells {value} bytes, which no running server has"
            self._miss(name, labels, why, "inconclusive")
            return
        unit = CATALOGUE[name].unit
        self._measured.append(
            Measurement(name, value / MIB, unit, self._variant, self._trial, labels, source=source)
        )

    def _miss_unreadable(self, name: str, labels: dict[str, str], why: Unreadable) -> None:
        self._miss(name, labels, why.reason, "not_applicable" if why.is_lacking else self._unread)

    def _miss(self, name: str, labels: dict[str, str], reason: str, outcome: Outcome) -> None:
        self._unmeasured.append(
            Unmeasured(name, self._variant, reason, outcome, trial=self._trial, labels=labels)
        )

    def _keep_reading(self, reading: MemoryReading) -> None:
        self._keep("memory", variant=self._variant, trial=self._trial, reading=reading)

    def _keep_cgroup(self, reading: CgroupReading) -> None:
        self._keep("cgroup", variant=self._variant, trial=self._trial, reading=reading)


def read_environ(pid: int, proc: Path = Path("/proc")) -> dict[str, str] | None:
    """The environment that a process was started with; None where it may not be read."""
    if not (proc / "self").exists():
        return _read_environ_elsewhere(pid)
    try:
        raw = (proc / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    pairs = (entry.decode("utf-8", "replace").partition("=") for entry in raw.split(b"\0"))
    return {name: value for name, separator, value in pairs if separator}


def _read_environ_elsewhere(pid: int) -> dict[str, str] | None:
    import psutil

    try:
        return dict(psutil.Process(pid).environ())
    except (psutil.Error, OSError):
        return None
