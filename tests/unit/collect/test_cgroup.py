"""The cgroup of a server is found and read, version 1 and 2, and never taken for ours."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchsuite.collect.cgroup import (
    CgroupReading,
    Mount,
    Place,
    find_place,
    parse_memberships,
    parse_mounts,
    parse_stat,
    read_cgroup,
    server_place,
)
from benchsuite.collect.process_memory import Unreadable

V2_MOUNT = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNTS = (
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
)
V1_MEMBERS = "9:name=systemd:/\n4:memory:/docker/abc\n1:cpu,cpuacct:/docker/abc\n0::/\n"


class Tree:
    """A fake root: /proc and the mounts of cgroups."""

    def __init__(self, root: Path, mounts: str = V2_MOUNT) -> None:
        self.root = root
        self.mounts = mounts

    def process(self, pid: int | str, cgroup: str, mounts: str | None = None) -> None:
        """A process and where it is accounted."""
        folder = self.root / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "cgroup").write_text(cgroup)
        (folder / "mountinfo").write_text(self.mounts if mounts is None else mounts)

    def group(self, folder: str, **files: str) -> Path:
        """A cgroup and its files; two underscores stand for a point."""
        path = self.root / folder.lstrip("/")
        path.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (path / name.replace("__", ".")).write_text(text)
        return path


def test_memberships_of_both_versions() -> None:
    """Several controllers share a line, and a path may hold colons."""
    assert parse_memberships(V1_MEMBERS)["memory"] == "/docker/abc"
    assert parse_memberships(V1_MEMBERS)["cpuacct"] == "/docker/abc"
    assert parse_memberships("0::/a:b/c\n") == {"": "/a:b/c"}
    assert parse_memberships("nonsense\n\n") == {}


def test_mounts_of_both_versions() -> None:
    """Optional fields come before the dash, blanks are octal, other file systems are left out."""
    assert parse_mounts(V1_MOUNTS) == (
        Mount(1, "/", "/sys/fs/cgroup/cpu,cpuacct", ("rw", "cpu", "cpuacct")),
        Mount(1, "/", "/sys/fs/cgroup/memory", ("rw", "memory")),
        Mount(2, "/", "/sys/fs/cgroup/unified", ()),
    )
    assert parse_mounts("1 2 0:3 / /a\\040b rw - cgroup2 none rw\n")[0].point == "/a b"
    assert parse_mounts("1 2 - cgroup2\n1 2 0:3 / /x rw\n") == ()


def test_stat_keeps_only_numbers() -> None:
    """A line of another form is left out."""
    assert parse_stat("anon 10\nfile 5\nodd many\nx\n") == {"anon": 10, "file": 5}


def test_a_container_on_version_2(tmp_path: Path) -> None:
    """`max` is no limit; the peak is there since Linux 5.19."""
    tree = Tree(tmp_path)
    tree.process("self", "0::/user.slice/session.scope\n")
    tree.process(7, "0::/system.slice/docker-abc.scope\n")
    tree.group(
        "/sys/fs/cgroup/user.slice/session.scope", memory__current="1\n", memory__stat="anon 1\n"
    )
    tree.group(
        "/sys/fs/cgroup/system.slice/docker-abc.scope",
        memory__current="1000\n",
        memory__stat="anon 600\nfile 300\n",
        memory__max="max\n",
        memory__peak="2000\n",
    )
    place = server_place(7, tmp_path)
    assert isinstance(place, Place)
    found = read_cgroup(place)
    assert found == CgroupReading(2, 1000, 600, "anon", 300, 2000, None)
    assert isinstance(found, CgroupReading)
    assert found.current_source == "cgroup v2 memory.current"
    assert found.anon_source == "cgroup v2 memory.stat anon"


def test_a_container_on_version_1(tmp_path: Path) -> None:
    """Figures of children are in `total_`; a huge limit is none."""
    tree = Tree(tmp_path, V1_MOUNTS)
    tree.process("self", "4:memory:/\n0::/\n")
    tree.process(7, V1_MEMBERS)
    tree.group("/sys/fs/cgroup/memory", memory__usage_in_bytes="9\n")
    tree.group(
        "/sys/fs/cgroup/memory/docker/abc",
        memory__usage_in_bytes="1000\n",
        memory__max_usage_in_bytes="3000\n",
        memory__limit_in_bytes="9223372036854771712\n",
        memory__stat="rss 1\ncache 2\ntotal_rss 500\ntotal_cache 400\n",
    )
    place = server_place(7, tmp_path)
    assert isinstance(place, Place)
    found = read_cgroup(place)
    assert found == CgroupReading(1, 1000, 500, "total_rss", 400, 3000, None)
    assert isinstance(found, CgroupReading)
    assert found.current_source == "cgroup v1 memory.usage_in_bytes"


@pytest.mark.parametrize("theirs", ["/user.slice/a", "/user.slice", "/"])
def test_our_own_cgroup_is_not_the_servers(tmp_path: Path, theirs: str) -> None:
    """Nor one that holds ours: its memory counts us."""
    tree = Tree(tmp_path)
    tree.process("self", "0::/user.slice/a\n")
    tree.process(7, f"0::{theirs}\n")
    for folder in ("", "/user.slice", "/user.slice/a"):
        tree.group(f"/sys/fs/cgroup{folder}", memory__current="1\n")
    found = server_place(7, tmp_path)
    assert isinstance(found, Unreadable)
    assert found.is_lacking
    assert "own cgroup" in found.reason


def test_a_cgroup_within_ours_is_the_servers(tmp_path: Path) -> None:
    """As systemd-run --scope makes; `/user.slice/ab` is not within `/user.slice/a` either."""
    tree = Tree(tmp_path)
    tree.process("self", "0::/user.slice/a\n")
    tree.group("/sys/fs/cgroup/user.slice/a", memory__current="1\n")
    for pid, path in ((7, "/user.slice/a/server"), (8, "/user.slice/ab")):
        tree.process(pid, f"0::{path}\n")
        tree.group(f"/sys/fs/cgroup{path}", memory__current="5\n")
        assert isinstance(server_place(pid, tmp_path), Place)


def test_files_are_found_through_the_servers_own_root(tmp_path: Path) -> None:
    """Where our mounts do not reach them: its mount shows its own cgroup at the root."""
    tree = Tree(tmp_path, "")
    tree.process("self", "0::/ours\n", V2_MOUNT.replace("0:28 / ", "0:28 /ours "))
    tree.group("/sys/fs/cgroup", memory__current="1\n")
    mounts = V2_MOUNT.replace("0:28 / ", "0:28 /docker/abc ")
    tree.process(7, "0::/docker/abc\n", mounts)
    tree.group("/proc/7/root/sys/fs/cgroup", memory__current="77\n")
    place = server_place(7, tmp_path)
    assert isinstance(place, Place)
    found = read_cgroup(place)
    assert isinstance(found, CgroupReading)
    assert (found.current_bytes, found.anon_bytes, found.limit_bytes) == (77, None, None)


@pytest.mark.parametrize(
    ("cgroup", "words", "lacking"),
    [
        ("0::/../other\n", "not mounted here", False),
        ("0::/absent\n", "not mounted here", False),
        ("3:cpu:/a\n", "no cgroup accounts", True),
        (None, "has no cgroup", True),
    ],
)
def test_what_cannot_be_found_is_said(
    tmp_path: Path, cgroup: str | None, words: str, lacking: bool
) -> None:
    """It is not 0."""
    tree = Tree(tmp_path)
    tree.process("self", "0::/ours\n")
    tree.group("/sys/fs/cgroup/ours", memory__current="1\n")
    if cgroup is not None:
        tree.process(7, cgroup)
    found = server_place(7, tmp_path)
    assert isinstance(found, Unreadable)
    assert words in found.reason
    assert found.is_lacking is lacking


def test_files_that_vanish_are_unreadable(tmp_path: Path) -> None:
    """The container ended meanwhile."""
    assert isinstance(read_cgroup(Place(2, "/x", tmp_path / "absent")), Unreadable)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /sys/fs/cgroup")
def test_our_own_cgroup_on_this_machine() -> None:
    """Found and read where this machine accounts memory; ours is never a server's."""
    place = find_place("self")
    if isinstance(place, Unreadable):
        pytest.skip(place.reason)
    found = read_cgroup(place)
    assert isinstance(found, CgroupReading)
    assert found.current_bytes > 0
    if found.anon_bytes is not None:
        assert 0 < found.anon_bytes <= found.current_bytes + (64 << 20)
    import os

    assert isinstance(server_place(os.getpid()), Unreadable)
