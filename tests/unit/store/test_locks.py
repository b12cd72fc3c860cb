"""One writer at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchsuite.errors import MachineError
from benchsuite.store.locks import LOCK_FILE, locked

HOLD = """
import sys
from pathlib import Path
from benchsuite.store.locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_nothing_is_left(tmp_path: Path) -> None:
    """Neither the lock's file nor a folder that was made for it; what was written stays."""
    folder = tmp_path / "a" / "b"
    with locked(folder):
        assert (folder / LOCK_FILE).exists()
    assert not folder.exists()
    with locked(folder):
        (folder / "file").touch()
    assert [p.name for p in folder.iterdir()] == ["file"]


def test_the_next_waits_for_its_limit_and_says_who_holds_it(tmp_path: Path) -> None:
    """With an injected clock: the process and since when, and what to do."""
    now = [0.0]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    with (
        locked(tmp_path),
        pytest.raises(MachineError, match=f"process {os.getpid()} on .* since 2") as caught,
        locked(tmp_path, wait_s=3, clock=lambda: now[0], sleep=sleep),
    ):
        pass
    assert "for 3 s" in caught.value.message
    assert sum(slept) == pytest.approx(3, abs=0.1)
    assert caught.value.exit_code == 5


def test_who_waits_gets_it_once_it_is_free(tmp_path: Path) -> None:
    """Without losing it to a file that was removed meanwhile."""
    other = holder(tmp_path)

    def sleep(seconds: float) -> None:
        other.communicate()  # it ends, and lets go

    with locked(tmp_path, sleep=sleep):
        assert other.returncode == 0
        with pytest.raises(MachineError), locked(tmp_path, wait_s=0):
            pass


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    """Its file is left, its lock is not."""
    other = holder(tmp_path)
    with pytest.raises(MachineError, match=f"process {other.pid}"), locked(tmp_path, wait_s=0):
        pass
    other.kill()
    other.communicate()
    assert (tmp_path / LOCK_FILE).exists()
    with locked(tmp_path, wait_s=0):
        pass
    assert list(tmp_path.iterdir()) == []


def test_an_error_lets_go(tmp_path: Path) -> None:
    """So that the next command works."""
    with pytest.raises(ZeroDivisionError), locked(tmp_path):
        _ = 1 / 0
    with locked(tmp_path, wait_s=0):
        pass


def test_a_folder_that_cannot_be_made_is_the_machines_failure(tmp_path: Path) -> None:
    """Named with the lock's place."""
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match="cannot lock it"), locked(tmp_path / "file" / "x"):
        pass
