"""Locks of devices, between processes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from benchsuite.errors import MachineError
from benchsuite.server.device_locks import HELD_VARIABLE, LockWait, device_locks
from benchsuite.server.processes import started_at

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no shared locks")

_HOLDER = """
import os, sys
from benchsuite.server.device_locks import device_locks
devices, alone = sys.argv[1].split(), sys.argv[2] == "alone"
with device_locks(devices, alone=alone, environ=os.environ, say=print):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def _held(folder: Path, *devices: str, alone: bool) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the locks."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_HOLDER), " ".join(devices), "alone" * alone],
        env={**os.environ, "BENCHSUITE_LOCKS": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with process:
        yield process
        process.kill()


def _can(folder: Path, *devices: str, alone: bool) -> bool:
    """Whether the locks can be had at once."""
    environ = {"BENCHSUITE_LOCKS": str(folder)}
    try:
        with device_locks(
            devices, alone=alone, environ=environ, say=lambda _: None, wait=LockWait(0)
        ):
            return True
    except MachineError as error:
        return "in use by another run (process" not in error.message


def test_exact_runs_share_and_a_noisy_one_is_alone(tmp_path: Path) -> None:
    """Counts do not depend on who else is busy; memory and latency do."""
    with _held(tmp_path, alone=False):
        assert _can(tmp_path, alone=False)
        assert not _can(tmp_path, alone=True)
    with _held(tmp_path, alone=True):
        assert not _can(tmp_path, alone=False)
        assert not _can(tmp_path, "gpu-0", alone=False)


def test_noisy_runs_on_two_gpus_go_side_by_side(tmp_path: Path) -> None:
    """Each has its own; a third on either must wait, and so must one on the whole host."""
    with _held(tmp_path, "gpu-0", alone=True):
        assert _can(tmp_path, "gpu-1", alone=True)
        assert not _can(tmp_path, "gpu-0", alone=False)
        assert not _can(tmp_path, "gpu-1", "gpu-0", alone=True)
        assert not _can(tmp_path, alone=True)


def test_the_lock_of_a_killed_run_is_free(tmp_path: Path) -> None:
    """The kernel takes it back."""
    with _held(tmp_path, alone=True) as process:
        process.kill()
        process.wait()
        assert _can(tmp_path, alone=True)


def test_a_run_waits_and_says_for_whom(tmp_path: Path) -> None:
    """Once, and goes on when the other is done."""
    said: list[str] = []
    environ = {"BENCHSUITE_LOCKS": str(tmp_path)}
    with _held(tmp_path, alone=True) as process:

        def say(words: str) -> None:
            said.append(words)
            process.kill()

        with device_locks((), alone=True, environ=environ, say=say, wait=LockWait(30)):
            pass
        assert said == [
            f"waiting for another run ({_since(said[0])}) to be done with device 'host'"
        ]
        assert f"process {process.pid}," in said[0]


def _since(words: str) -> str:
    return words.partition("(")[2].partition(")")[0]


def test_children_of_a_holder_take_what_it_holds_for_theirs(tmp_path: Path) -> None:
    """Else a suite would wait for itself."""
    environ = {"BENCHSUITE_LOCKS": str(tmp_path)}
    with device_locks((), alone=True, environ=environ, say=print):
        child = {**environ, HELD_VARIABLE: os.environ[HELD_VARIABLE]}
        with device_locks((), alone=True, environ=child, say=print, wait=LockWait(0)):
            pass
        assert HELD_VARIABLE in os.environ
    assert HELD_VARIABLE not in os.environ


def test_a_child_process_takes_what_its_parent_holds_for_its_own(tmp_path: Path) -> None:
    """Also a process below a shell of the parent's."""
    with device_locks((), alone=True, environ={"BENCHSUITE_LOCKS": str(tmp_path)}, say=print):
        said = _nested(tmp_path, os.environ[HELD_VARIABLE], alone=True)
    assert said == "had alone ()\n"


_NESTED = """
import os, sys
from benchsuite.server.device_locks import LockWait, device_locks
alone = sys.argv[1] == "alone"
wait = LockWait(0)
with device_locks((), alone=alone, environ=os.environ, say=print, wait=wait) as shared:
    print("had", sys.argv[1], shared)
"""


def _nested(folder: Path, held: str, *, alone: bool) -> str:
    """What a process below a shell of ours says that takes the host's lock at once."""
    mode = "alone" if alone else "shared"
    return subprocess.run(
        ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", _NESTED, mode],
        env={**os.environ, "BENCHSUITE_LOCKS": str(folder), HELD_VARIABLE: held},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def test_a_child_of_a_run_that_shares_is_not_alone_and_says_so(tmp_path: Path) -> None:
    """It does not wait for its own parent, nor take shared for alone."""
    with device_locks((), alone=False, environ={"BENCHSUITE_LOCKS": str(tmp_path)}, say=print):
        said = _nested(tmp_path, os.environ[HELD_VARIABLE], alone=True)
        assert f"device 'host' is shared by process {os.getpid()}, which this run" in said
        assert _nested(tmp_path, os.environ[HELD_VARIABLE], alone=False) == "had shared ()\n"


def test_what_another_process_was_told_to_hold_is_not_believed(tmp_path: Path) -> None:
    """A variable may have come down from a run that has ended, or from one that is not above us."""
    held = msgspec.json.encode
    me = started_at(os.getpid())
    with _held(tmp_path, alone=True) as process:
        for stale in (
            "host",
            "{",
            held([{"pid": os.getpid(), "started": "1", "locks": {"host": "alone"}}]).decode(),
            held(
                [
                    {
                        "pid": process.pid,
                        "started": started_at(process.pid),
                        "locks": {"host": "alone"},
                    }
                ]
            ).decode(),
            held([{"pid": os.getpid(), "started": me, "locks": {"gpu-0": "alone"}}]).decode(),
        ):
            environ = {"BENCHSUITE_LOCKS": str(tmp_path), HELD_VARIABLE: stale}
            with (
                pytest.raises(MachineError, match="in use by another run"),
                device_locks((), alone=False, environ=environ, say=print, wait=LockWait(0)),
            ):
                pass


def test_links_are_not_followed(tmp_path: Path) -> None:
    """Anyone may put one into a folder that all share."""
    (tmp_path / "host.lock").symlink_to(tmp_path / "victim")
    environ = {"BENCHSUITE_LOCKS": str(tmp_path)}
    with (
        pytest.raises(MachineError, match="cannot be opened"),
        device_locks((), alone=True, environ=environ, say=print),
    ):
        pass
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("there", [True, False])
def test_what_another_user_made_is_opened_and_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """Linux refuses to make it (fs.protected_regular); also where it comes just before ours."""
    path = tmp_path / "gpu.lock"
    if there:
        path.touch()
    opened = os.open

    def protected(name: Path, flags: int, mode: int = 0o777) -> int:
        if name == path and flags & os.O_CREAT:
            os.close(opened(path, os.O_RDWR | os.O_CREAT, 0o666))
            if not flags & os.O_EXCL:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(name, flags, mode)

    monkeypatch.setattr(os, "open", protected)
    environ = {"BENCHSUITE_LOCKS": str(tmp_path)}
    with device_locks(["gpu"], alone=True, environ=environ, say=print, wait=LockWait(0)):
        assert not _can(tmp_path, "gpu", alone=True)
