"""The guard process, with plain programs instead of servers."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchsuite.server import guard_process
from benchsuite.server.guard import Guard
from benchsuite.server.processes import started_at

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no guard on Windows")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A program in a group of its own that ends by itself only after minutes."""
    process = subprocess.Popen(["sleep", "300"], process_group=0)
    yield process
    process.kill()
    process.wait()


def lose(guard: Guard) -> None:
    """Close the pipe as our death would."""
    process = guard._process
    assert process is not None
    assert process.stdin is not None
    process.stdin.close()
    process.wait(5)


def test_groups_are_killed_when_the_pipe_closes(sleeper: subprocess.Popen[bytes]) -> None:
    """That is what our death looks like from the guard."""
    guard = Guard()
    guard.expect()
    guard.register(sleeper.pid)
    lose(guard)
    assert sleeper.wait(5) == -signal.SIGKILL


def test_released_groups_are_left_alone(sleeper: subprocess.Popen[bytes]) -> None:
    """Their numbers may belong to others by then."""
    guard = Guard()
    guard.expect()
    guard.register(sleeper.pid)
    guard.release(sleeper.pid)
    lose(guard)
    assert sleeper.poll() is None


def test_closing_in_good_order_kills_nothing_and_leaves_no_process(
    sleeper: subprocess.Popen[bytes],
) -> None:
    """Every launch has ended, so nothing is looked for."""
    with Guard() as guard:
        pid = guard.pid
        assert pid is not None
    assert guard.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert sleeper.poll() is None


def test_closing_in_the_middle_of_a_launch_kills_what_carries_the_mark() -> None:
    """After an interrupt between start and announcement."""
    if sys.platform != "linux":
        pytest.skip("marks are read from /proc")
    with Guard() as guard:
        guard.expect()
        env = {**os.environ, **guard.environment}
        marked = subprocess.Popen(["sleep", "300"], env=env, start_new_session=True)
    assert marked.wait(5) == -signal.SIGKILL


def test_a_killed_guard_is_replaced_and_knows_all_groups(
    sleeper: subprocess.Popen[bytes],
) -> None:
    """The next message finds it gone and starts another."""
    guard = Guard()
    first = guard._process
    assert first is not None
    guard.expect()
    guard.register(sleeper.pid)
    first.kill()
    first.wait()
    guard.expect()
    guard.register(2**22 + 1)  # no such group: beyond Linux's highest process id
    assert guard.pid != first.pid
    lose(guard)
    assert sleeper.wait(5) == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="marks are read from /proc")
def test_what_has_no_mark_yet_as_the_pipe_closes_is_killed_too() -> None:
    """While a program replaces another its environment reads as empty, after its files are shut."""
    guard = Guard()
    name, mark = next(iter(guard.environment.items()))
    env = {name: value for name, value in os.environ.items() if name not in guard.environment}
    late = ["sh", "-c", f"sleep 0.05; exec env {name}={mark} sleep 300"]
    process = subprocess.Popen(late, env=env, start_new_session=True)
    try:
        lose(guard)
        assert process.wait(5) == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("finds_until", "left"), [(0.0, 0.2), (0.15, 0.35), (0.5, 0.7), (9.0, 1.0)]
)
def test_the_guard_looks_on_until_it_was_quiet(
    monkeypatch: pytest.MonkeyPatch, finds_until: float, left: float
) -> None:
    """For 0.2 s, counted from the last find, and for a second at most."""
    now = 0.0

    def pause(*_: object) -> None:
        nonlocal now
        now += 0.02

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(select, "select", pause)
    monkeypatch.setattr(guard_process, "_kill_marked", lambda _: 0 < now <= finds_until)
    guard_process._look(b"", 0.2, 1.0)
    assert now == pytest.approx(left, abs=0.03)


@pytest.mark.skipif(sys.platform != "linux", reason="the second guard watches a pidfd")
def test_a_second_guard_is_left_where_the_first_is_killed_with_us() -> None:
    """It kills what carries the mark, once we have gone too."""
    program = (
        "import os, psutil, signal, subprocess\n"
        "from benchsuite.server.guard import Guard\n"
        "guard = Guard()\n"
        "guard.expect()\n"
        "env = {**os.environ, **guard.environment}\n"
        "sleeper = subprocess.Popen(['sleep', '300'], env=env, process_group=0)\n"
        "guard.register(sleeper.pid)\n"
        "while not psutil.Process(guard.pid).children():\n"
        "    pass\n"
        "print(sleeper.pid, flush=True)\n"
        "os.kill(guard.pid, signal.SIGKILL)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=30)
    pid = int(told.stdout)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and _lives(pid):
        time.sleep(0.02)
    assert not _lives(pid)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def _told(guard: Guard, pid: int, started: str | None) -> None:
    assert started is not None
    guard.add_process(pid, started)


@pytest.mark.skipif(sys.platform != "linux", reason="starts are read from /proc")
def test_told_processes_are_killed_when_the_pipe_closes(
    sleeper: subprocess.Popen[bytes],
) -> None:
    """They have left the group and shed the mark; a successor knows them too."""
    guard = Guard()
    first = guard._process
    assert first is not None
    _told(guard, sleeper.pid, started_at(sleeper.pid))
    first.kill()
    first.wait()
    guard.register(2**22 + 1)
    lose(guard)
    assert sleeper.wait(5) == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="starts are read from /proc")
@pytest.mark.parametrize("why", ["dropped", "of another start"])
def test_processes_that_ended_are_not_killed(sleeper: subprocess.Popen[bytes], why: str) -> None:
    """Their numbers may belong to others by then."""
    guard = Guard()
    started = started_at(sleeper.pid)
    assert started is not None
    _told(guard, sleeper.pid, started if why == "dropped" else "1")
    if why == "dropped":
        guard.drop_process(sleeper.pid, started)
    lose(guard)
    assert sleeper.poll() is None


def test_it_ignores_what_ends_other_programs() -> None:
    """Its only way out is the pipe."""
    with Guard() as guard:
        assert guard._process is not None
        guard.register(2**22 + 1)
        time.sleep(0.1)  # until it has set its handlers
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(guard._process.pid, number)
        time.sleep(0.02)
        assert guard._process.poll() is None


def test_two_guards_have_different_marks() -> None:
    """One run must not kill another's servers."""
    with Guard() as one, Guard() as other:
        assert one.environment != other.environment


def _marker(folder: Path) -> list[str]:
    """A command that notes that it was run."""
    return ["sh", "-c", f"echo run >> {folder}/ran"]


def test_commands_are_run_when_the_pipe_closes(tmp_path: Path) -> None:
    """At once and twice again, for a container that is only being made."""
    guard = Guard()
    guard.add_command(_marker(tmp_path))
    process = guard._process
    assert process is not None
    assert process.stdin is not None
    process.stdin.close()
    process.wait(30)
    assert (tmp_path / "ran").read_text() == "run\n" * 3


def test_dropped_commands_are_not_run(tmp_path: Path) -> None:
    """What they end has ended, and its name may be another's."""
    guard = Guard()
    guard.add_command(_marker(tmp_path))
    guard.drop_command(_marker(tmp_path))
    lose(guard)
    assert not (tmp_path / "ran").exists()


def test_closing_with_a_command_left_runs_it(tmp_path: Path) -> None:
    """As after an interrupt in the middle of a stop."""
    with Guard() as guard:
        guard.add_command(_marker(tmp_path))
    assert (tmp_path / "ran").exists()


def test_a_killed_guard_s_successor_knows_the_commands(tmp_path: Path) -> None:
    """The next message finds it gone and starts another, which is told everything."""
    guard = Guard()
    first = guard._process
    assert first is not None
    guard.add_command(_marker(tmp_path))
    first.kill()
    first.wait()
    guard.register(2**22 + 1)
    guard.close()
    assert (tmp_path / "ran").exists()


def test_a_command_that_is_not_there_keeps_no_other_from_running(tmp_path: Path) -> None:
    """Each is started by itself."""
    guard = Guard()
    guard.add_command(["/nowhere/docker", "rm"])
    guard.add_command(_marker(tmp_path))
    guard.close()
    assert (tmp_path / "ran").exists()
