"""Trees, groups and waiting."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from benchsuite.server import processes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX")


def start(script: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(["sh", "-c", script], process_group=0, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()  # it has started what it starts
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    processes.signal_group(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def test_a_tree_holds_children_and_grandchildren() -> None:
    """The process itself comes first."""
    process = start("(sleep 300 & sleep 300; :) & sleep 300 & echo; wait")
    try:
        deadline = time.monotonic() + 5
        while len(processes.tree_ids(process.pid)) < 5 and time.monotonic() < deadline:
            time.sleep(0.005)
        tree = processes.tree_ids(process.pid)
        assert tree[0] == process.pid
        assert len(tree) == 5
        assert set(tree) == set(processes.group_ids(process.pid))
    finally:
        end(process)
    assert processes.tree_ids(process.pid) == []


def test_a_group_outlives_its_leader_until_it_is_killed() -> None:
    """Zombies do not count as living."""
    process = start("sleep 300 & echo")
    process.wait()
    try:
        assert len(processes.group_ids(process.pid)) == 1
        assert not processes.wait_for_group(process.pid, 0.01)
    finally:
        end(process)
    assert processes.wait_for_group(process.pid, 5)


@pytest.mark.parametrize("by_kernel", [True, False])
def test_waiting_ends_when_the_process_does(
    by_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the kernel's notice, and by looking where there is none."""
    if not by_kernel:
        monkeypatch.delattr("os.pidfd_open", raising=False)
    process = start("echo; sleep 0.05")
    assert not processes.wait_for_exit(process, 0.001)
    started = time.monotonic()
    assert processes.wait_for_exit(process, 5)
    assert time.monotonic() - started < 2
    assert processes.wait_for_exit(process, 0)
    end(process)


def test_signalling_a_group_that_has_gone_is_no_error() -> None:
    """Whether there was one is the answer."""
    process = start("echo")
    process.wait()
    assert not processes.signal_group(process.pid, signal.SIGTERM)
    end(process)


def test_the_death_prefix_runs_the_command_in_its_own_place() -> None:
    """Same process id, whether this machine has the program or not."""
    prefix = processes.parent_death_prefix()
    process = subprocess.Popen([*prefix, "sh", "-c", "echo $$"], stdout=subprocess.PIPE)
    out, _ = process.communicate(timeout=5)
    assert int(out) == process.pid
