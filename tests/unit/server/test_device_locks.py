"""Locks of devices, between processes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchsuite.errors import MachineError
from benchsuite.server.device_locks import HELD_VARIABLE, device_locks

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
        with device_locks(devices, alone=alone, environ=environ, say=lambda _: None, wait_s=0):
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

        with device_locks((), alone=True, environ=environ, say=say, wait_s=30):
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
        with device_locks((), alone=True, environ=child, say=print, wait_s=0):
            pass
        assert HELD_VARIABLE in os.environ
    assert HELD_VARIABLE not in os.environ


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
