"""A kill for want of memory is told from a person's by the kernel's counters."""

from __future__ import annotations

from pathlib import Path

from benchsuite.collect.oom import killer, read_oom_kills

_V2 = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


def _machine(root: Path, kills: int, *, cgroup: bool) -> Path:
    """A machine with a server of process id 7; its counters after so many kills."""
    for pid in ("self", "7"):
        (root / "proc" / pid).mkdir(parents=True, exist_ok=True)
        (root / "proc" / pid / "cgroup").write_text("0::/server\n")
        (root / "proc" / pid / "mountinfo").write_text(_V2)
    (root / "proc" / "vmstat").write_text(f"pgfault 9\noom_kill {kills}\n")
    folder = root / "sys" / "fs" / "cgroup" / "server"
    if cgroup:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.current").write_text("4096\n")
        (folder / "memory.events").write_text(f"low 0\noom 1\noom_kill {kills}\n")
    return root


def test_the_cgroup_tells(tmp_path: Path) -> None:
    """Its counter moved: the sentence names the file and the cgroup."""
    before = read_oom_kills(7, _machine(tmp_path, 2, cgroup=True))
    _machine(tmp_path, 3, cgroup=True)
    assert killer(before) == (
        "by the out-of-memory killer (memory.events of cgroup /server counts 1 kill since its "
        "launch)"
    )


def test_the_machine_tells_less(tmp_path: Path) -> None:
    """Its counter is of all processes, so it is no proof."""
    before = read_oom_kills(7, _machine(tmp_path, 2, cgroup=False))
    _machine(tmp_path, 4, cgroup=False)
    assert killer(before) == (
        "most likely by the out-of-memory killer (oom_kill of /proc/vmstat counts 2 kills since "
        "its launch, of the whole machine)"
    )


def test_a_counter_that_stood_still_tells_nothing(tmp_path: Path) -> None:
    """Nor does one that is absent, or went with its cgroup."""
    before = read_oom_kills(7, _machine(tmp_path, 2, cgroup=True))
    assert killer(before) is None
    (tmp_path / "sys/fs/cgroup/server/memory.events").unlink()
    assert killer(before) is None
    assert killer(read_oom_kills(7, tmp_path / "elsewhere")) is None
