"""Memory is the kernel's own figures, summed over processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchsuite.collect.process_memory import (
    RollupReading,
    Unreadable,
    parse_rollup,
    parse_status,
    read_memory,
    read_rollup,
)
from benchsuite.server.processes import tree_ids

STATUS = """Name:\tllama-server
VmPeak:\t  900000 kB
VmHWM:\t   70000 kB
VmRSS:\t   65000 kB
RssAnon:\t   50000 kB
VmSwap:\t     100 kB
Threads:\t8
"""


def test_status_fields_are_read_in_bytes() -> None:
    """Only the memory fields that we use, kB being KiB (proc(5))."""
    assert parse_status(STATUS) == {
        "VmHWM": 70000 * 1024,
        "VmRSS": 65000 * 1024,
        "RssAnon": 50000 * 1024,
        "VmSwap": 100 * 1024,
    }


@pytest.mark.parametrize("line", ["VmRSS: lots kB", "VmRSS:", "VmRSS: 5 MB", "VmRSS: -5 kB"])
def test_a_field_that_cannot_be_read_is_absent(line: str) -> None:
    """It is not 0."""
    assert parse_status(line) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_living_process_is_measured() -> None:
    """Ours has memory, and its peak is no lower than what it has now."""
    reading = read_memory([os.getpid()])
    assert reading is not None
    assert reading.rss_bytes is not None
    assert reading.peak_bytes is not None
    assert reading.anon_bytes is not None
    assert 0 < reading.anon_bytes <= reading.rss_bytes <= reading.peak_bytes


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_processes_that_are_gone_are_left_out() -> None:
    """A process that ended between listing and reading is not an error; none left is None."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    both = read_memory([os.getpid(), child.pid])
    assert both is not None
    assert both.processes == 1
    assert read_memory([child.pid]) is None


# of Linux 6.18
ROLLUP = """557cc3d03000-7ffe18190000 ---p 00000000 00:00 0                          [rollup]
Rss:                1760 kB
Pss:                 372 kB
Pss_Dirty:           112 kB
Pss_Anon:            112 kB
Private_Clean:        52 kB
Private_Dirty:       110 kB
Swap:                  8 kB
SwapPss:               4 kB
Locked:                0 kB
"""


def test_rollup_fields_are_read_in_bytes() -> None:
    """The head line has no name of a field."""
    assert parse_rollup(ROLLUP) == {
        "Pss": 372 * 1024,
        "Pss_Anon": 112 * 1024,
        "Private_Clean": 52 * 1024,
        "Private_Dirty": 110 * 1024,
        "Swap": 8 * 1024,
        "SwapPss": 4 * 1024,
    }


def _proc(folder: Path, rollups: dict[int, str]) -> Path:
    named = {str(pid): text for pid, text in rollups.items()}
    for name, text in {"self": "", **named}.items():
        process = folder / name
        process.mkdir(parents=True)
        (process / "status").write_text("")
        (process / "smaps_rollup").write_text(text)
    return folder


def test_a_tree_is_summed(tmp_path: Path) -> None:
    """A process that has ended is left out; a field that one kernel lacks is unknown for all."""
    old = "Pss: 100 kB\nPrivate_Clean: 1 kB\nPrivate_Dirty: 2 kB\nSwap: 0 kB\nSwapPss: 0 kB\n"
    found = read_rollup([7, 8, 9], _proc(tmp_path, {7: ROLLUP, 8: old, 9: ""}))
    assert found == RollupReading(
        processes=2,
        pss_bytes=472 * 1024,
        pss_anon_bytes=None,
        private_bytes=165 * 1024,
        swap_bytes=8 * 1024,
        swap_pss_bytes=4 * 1024,
    )


def test_a_kernel_without_rollup_says_so(tmp_path: Path) -> None:
    """That nothing is there is no fault; nor is a system without /proc."""
    proc = _proc(tmp_path, {7: ROLLUP})
    (proc / "7" / "smaps_rollup").unlink()
    found = read_rollup([7], proc)
    assert isinstance(found, Unreadable)
    assert found.is_lacking
    assert "before 4.14" in found.reason
    found = read_rollup([7], tmp_path / "absent")
    assert isinstance(found, Unreadable)
    assert found.is_lacking


def test_a_rollup_that_may_not_be_read_is_never_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's process: the sum of the others would be too small."""
    proc = _proc(tmp_path, {7: ROLLUP, 8: ROLLUP})
    read = Path.read_text

    def refuse(self: Path, *args: Any, **options: Any) -> str:
        if "8" in self.parts:
            raise PermissionError(13, "Permission denied")
        return read(self, *args, **options)

    monkeypatch.setattr(Path, "read_text", refuse)
    found = read_rollup([7, 8], proc)
    assert isinstance(found, Unreadable)
    assert not found.is_lacking
    assert "process 8 may not be read" in found.reason


def test_no_process_left_is_unreadable(tmp_path: Path) -> None:
    """It is not 0."""
    found = read_rollup([9], _proc(tmp_path, {}))
    assert isinstance(found, Unreadable)
    assert not found.is_lacking


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_proportional_memory_of_a_living_process() -> None:
    """No more than what is resident."""
    found, status = read_rollup([os.getpid()]), read_memory([os.getpid()])
    assert isinstance(found, RollupReading)
    assert status is not None
    assert status.rss_bytes is not None
    assert 0 < found.pss_bytes <= status.rss_bytes * 1.1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_rpc_server_beside_is_not_counted() -> None:
    """It is no child of the server: its memory belongs to another process."""
    wait = [sys.executable, "-c", "x = bytearray(64 << 20); input()"]
    with (
        subprocess.Popen(wait, stdin=subprocess.PIPE) as rpc,
        subprocess.Popen(["sleep", "30"]) as server,
    ):
        try:
            assert tree_ids(server.pid) == [server.pid]
            found = read_memory(tree_ids(server.pid))
            assert found is not None
            assert found.rss_bytes is not None
            assert found.rss_bytes < 32 << 20
        finally:
            server.kill()
            rpc.kill()
