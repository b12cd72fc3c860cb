"""Memory that the kernel charges to a server's cgroup, version 1 and 2.

A container has a cgroup of its own, so its figures are the server's. A server in our own cgroup
(a child of this process, a neighbour in one session or container) is not told apart from us, so
nothing is measured then. Files as in the kernel's admin-guide, cgroup-v1/memory and cgroup-v2.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Literal

import msgspec

from benchsuite.collect.process_memory import Unreadable

_NO_LIMIT_V1 = 1 << 62
"""Version 1 prints the largest multiple of a page for no limit."""

_CURRENT: dict[int, str] = {1: "memory.usage_in_bytes", 2: "memory.current"}
_PEAK: dict[int, str] = {1: "memory.max_usage_in_bytes", 2: "memory.peak"}
_LIMIT: dict[int, str] = {1: "memory.limit_in_bytes", 2: "memory.max"}
_ANON: dict[int, tuple[str, ...]] = {1: ("total_rss", "rss"), 2: ("anon",)}
_FILE: dict[int, tuple[str, ...]] = {1: ("total_cache", "cache"), 2: ("file",)}


class Mount(msgspec.Struct, frozen=True):
    """One mount of a cgroup file system."""

    version: Literal[1, 2]
    root: str  # the cgroup at the mount's root
    point: str  # where it is mounted
    controllers: tuple[str, ...]  # of version 1


class Place(msgspec.Struct, frozen=True):
    """Where a process is accounted."""

    version: Literal[1, 2]
    path: str  # of the cgroup
    folder: Path  # of its files


class CgroupReading(msgspec.Struct, frozen=True):
    """Memory of one cgroup, in bytes; None where this kernel does not tell."""

    version: Literal[1, 2]
    current_bytes: int  # everything charged, page cache included
    anon_bytes: int | None
    anon_field: str  # of `memory.stat`; empty where none
    file_bytes: int | None
    peak_bytes: int | None
    limit_bytes: int | None  # None also where there is no limit

    @property
    def current_source(self) -> str:
        """The name of the source of `current_bytes`."""
        return f"cgroup v{self.version} {_CURRENT[self.version]}"

    @property
    def anon_source(self) -> str:
        """The name of the source of `anon_bytes`."""
        return f"cgroup v{self.version} memory.stat {self.anon_field}"


def parse_memberships(text: str) -> dict[str, str]:
    """Controller -> cgroup, of `/proc/PID/cgroup`; version 2 has the controller `""`."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            for controller in parts[1].split(","):
                found[controller] = parts[2]
    return found


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """The cgroup mounts of `/proc/PID/mountinfo` (proc(5)), in order."""
    found: list[Mount] = []
    for line in text.splitlines():
        head, separator, tail = line.partition(" - ")
        fields, kind = head.split(" "), tail.split(" ")
        if not separator or len(fields) < 6 or len(kind) < 3:
            continue
        root, point = _unescape(fields[3]), _unescape(fields[4])
        if kind[0] == "cgroup2":
            found.append(Mount(2, root, point, ()))
        elif kind[0] == "cgroup":
            found.append(Mount(1, root, point, tuple(kind[2].split(","))))
    return tuple(found)


def parse_stat(text: str) -> dict[str, int]:
    """The fields of `memory.stat`."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[1].isdigit():
            found[words[0]] = int(words[1])
    return found


def find_place(pid: int | str, root: Path = Path("/")) -> Place | Unreadable:
    """Where a process' memory is accounted, as seen from here or else from within its own root.

    Args:
        pid: A process id, or `self`.
        root: What stands before `/proc` and every mount point.
    """
    proc = root / "proc"
    try:
        memberships = parse_memberships((proc / str(pid) / "cgroup").read_text())
    except FileNotFoundError:
        return Unreadable("this system or process has no cgroup", is_lacking=True)
    except OSError as error:
        return Unreadable(f"/proc/{pid}/cgroup cannot be read: {error.strerror}")
    version: Literal[1, 2] = 1 if "memory" in memberships else 2
    path = memberships.get("memory" if version == 1 else "")
    if path is None:
        return Unreadable("no cgroup accounts this process' memory", is_lacking=True)
    # mounts as we see them; those of its own mount namespace, through its root
    for reader, base in (("self", root), (str(pid), proc / str(pid) / "root")):
        try:
            mounts = parse_mounts((proc / reader / "mountinfo").read_text())
        except OSError:
            continue
        folder = _folder(mounts, version, path, base)
        if folder is not None:
            return Place(version, path, folder)
    return Unreadable(f"the files of cgroup {path} are not mounted here")


def server_place(pid: int, root: Path = Path("/")) -> Place | Unreadable:
    """Where a server's memory is accounted, if that is not where ours is, too.

    Args:
        pid: The server's main process.
        root: As of `find_place`.
    """
    place = find_place(pid, root)
    if isinstance(place, Unreadable):
        return place
    ours = find_place("self", root)
    if isinstance(ours, Unreadable):
        return Unreadable(f"whether it is benchsuite's own is not known: {ours.reason}")
    same_tree = ours.version == place.version
    if same_tree and PurePosixPath(ours.path).is_relative_to(PurePosixPath(place.path)):
        return Unreadable(
            "the server runs in benchsuite's own cgroup, whose memory would count benchsuite",
            is_lacking=True,
        )
    return place


def read_cgroup(place: Place) -> CgroupReading | Unreadable:
    """The memory of a cgroup now."""
    version = place.version
    current = _number(place.folder / _CURRENT[version])
    if current is None:
        return Unreadable(f"{_CURRENT[version]} of cgroup {place.path} cannot be read")
    try:
        stat = parse_stat((place.folder / "memory.stat").read_text())
    except OSError:
        stat = {}
    anon = next((name for name in _ANON[version] if name in stat), "")
    file = next((name for name in _FILE[version] if name in stat), "")
    limit = _number(place.folder / _LIMIT[version])
    return CgroupReading(
        version=version,
        current_bytes=current,
        anon_bytes=stat.get(anon),
        anon_field=anon,
        file_bytes=stat.get(file),
        peak_bytes=_number(place.folder / _PEAK[version]),  # version 2: since Linux 5.19
        limit_bytes=None if limit is not None and limit >= _NO_LIMIT_V1 else limit,
    )


def _folder(mounts: tuple[Mount, ...], version: int, path: str, base: Path) -> Path | None:
    """The folder of a cgroup under the mounts of one mount namespace."""
    for mount in mounts:
        if mount.version != version or (version == 1 and "memory" not in mount.controllers):
            continue
        inside = PurePosixPath(path)
        if ".." in inside.parts or not inside.is_relative_to(PurePosixPath(mount.root)):
            continue  # outside what is mounted
        folder = base / mount.point.lstrip("/") / inside.relative_to(mount.root)
        try:
            if (folder / _CURRENT[version]).exists():
                return folder
        except OSError:
            continue
    return None


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None  # `max` stands for no limit


def _unescape(text: str) -> str:
    """Blanks and the like are octal in mountinfo."""
    for code, character in _OCTAL.items():
        text = text.replace(code, character)
    return text


_OCTAL: Mapping[str, str] = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}
