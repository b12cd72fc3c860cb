"""The processes of a launch, with plain programs instead of servers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from benchsuite.server import offspring as module
from benchsuite.server.guard import Guard
from benchsuite.server.offspring import LAUNCH_MARK, Offspring
from benchsuite.server.ports import free_port
from benchsuite.server.processes import is_alive, started_at

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")

NAME = "benchsuite-of-this-test"
LISTENER = (
    "import socket, sys, time\n"
    "one = socket.create_server(('127.0.0.1', int(sys.argv[-1])))\n"
    "time.sleep(300)\n"
)
Launch = Callable[..., Offspring]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Starts a shell's program as a launch; whatever it starts is ended after the test."""
    made: list[tuple[subprocess.Popen[bytes], Guard]] = []

    def start(script: str, *words: str, port: int = 1, marked: bool = True) -> Offspring:
        guard = Guard()
        command = ["sh", "-c", script, "sh", *words]
        env = {**os.environ, **guard.environment}
        process = subprocess.Popen(
            command,
            env={**env, LAUNCH_MARK: NAME} if marked else env,
            process_group=0,
        )
        made.append((process, guard))
        return Offspring(
            process,
            name=NAME,
            command=["sh", *words],
            log_path=tmp_path / "log",
            address=("127.0.0.1", port),
            guard=guard,
            is_container=False,
        )

    yield start
    for process, guard in made:
        process.kill()
        process.wait()
        guard.expect()  # as if a launch was under way: it kills by the mark
        guard.close()


def _told(path: Path) -> int:
    """The process id that a script writes to a file."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if path.exists() and path.read_text().endswith("\n"):
            return int(path.read_text())
        time.sleep(0.005)
    raise AssertionError(f"nothing in {path}")


def _end_root(one: Offspring) -> None:
    one._process.kill()
    one._process.wait()


def test_what_has_the_mark_is_ended_though_its_parents_are_gone(
    launch: Launch, tmp_path: Path
) -> None:
    """A server that makes itself a daemon was never seen below what was launched."""
    pid_file = tmp_path / "pid"
    one = launch(f"setsid sh -c 'echo $$ > {pid_file}; exec sleep 300' & sleep 300")
    pid = _told(pid_file)
    started = started_at(pid)
    assert started is not None
    _end_root(one)
    assert one.end(5) == ()
    assert not is_alive(pid, started)


def test_what_is_started_again_and_again_is_told_at_the_limit(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor that nothing leads to from its server: killing that has no end."""
    one = launch("exit 0")
    _end_root(one)
    begun: list[subprocess.Popen[bytes]] = []

    def another() -> dict[int, str]:
        for process in begun:
            process.poll()
        begun.append(subprocess.Popen(["sleep", "300"], process_group=0))
        pid = begun[-1].pid
        return {pid: started_at(pid) or ""}

    monkeypatch.setattr(one, "_left", another)
    monkeypatch.setattr(module, "_gone", lambda _left, _deadline: True)
    try:
        (told,) = one.end(0.05)
        assert told.startswith(f"process {begun[-1].pid} (")
    finally:
        for process in begun:
            process.kill()
            process.wait()


@pytest.mark.parametrize("error", [FileNotFoundError("/proc/net/tcp"), PermissionError("no")])
def test_who_listens_may_be_unknown(
    launch: Launch, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    """As where /proc is empty: nothing is ended for it, and nothing fails."""

    def unreadable(_kind: str) -> None:
        raise error

    with socket.create_server(("127.0.0.1", 0)) as other:
        one = launch("exit 0", port=other.getsockname()[1])
        _end_root(one)
        monkeypatch.setattr(psutil, "net_connections", unreadable)
        assert one.end(5) == ()


def test_what_was_seen_is_ended_though_it_shed_the_mark(launch: Launch, tmp_path: Path) -> None:
    """A wrapper may give the server a clean environment."""
    pid_file = tmp_path / "pid"
    shed = f"env -i setsid sh -c 'echo $$ > {pid_file}; exec sleep 300'"
    one = launch(f"{shed} & sleep 300", marked=False)
    pid = _told(pid_file)
    started = started_at(pid)
    assert started is not None
    assert pid in one.note()
    assert one.outside() == [pid]
    _end_root(one)
    assert not one.wait(0)
    assert one.end(5) == ()
    assert not is_alive(pid, started)


def test_who_listens_at_the_port_is_ended_though_never_seen(launch: Launch) -> None:
    """With the arguments of the launch, started after it, and no other launch's."""
    port = free_port("127.0.0.1")
    one = launch("sleep 300", "--port", str(port), port=port)
    shed = {name: text for name, text in os.environ.items() if name != LAUNCH_MARK}
    listener = subprocess.Popen([sys.executable, "-c", LISTENER, "--port", str(port)], env=shed)
    _await_listener(port)
    _end_root(one)
    assert one.end(5) == ()
    assert listener.wait(5) == -signal.SIGKILL


@pytest.mark.parametrize("why", ["other arguments", "another launch's", "older"])
def test_another_at_the_port_is_left_alone(launch: Launch, why: str) -> None:
    """Who was quicker, or has come since the server ended, has done nothing wrong."""
    port = free_port("127.0.0.1")
    words = ["--port", str(port)]
    if why == "other arguments":
        words = ["--threads", "2", str(port)]
    env = {**os.environ, LAUNCH_MARK: "another"} if why == "another launch's" else os.environ
    if why != "older":
        one = launch("sleep 300", "--port", str(port), port=port)
    listener = subprocess.Popen([sys.executable, "-c", LISTENER, *words], env=env)
    try:
        _await_listener(port)
        if why == "older":
            time.sleep(0.05)  # some ticks of the clock that starts are told in
            one = launch("sleep 300", "--port", str(port), port=port)
        _end_root(one)
        assert one.end(5) == ()
        assert listener.poll() is None
    finally:
        listener.kill()
        listener.wait()


def _await_listener(port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.01)
        else:
            return
    raise AssertionError("nobody listens")


def test_what_a_kill_does_not_end_is_named(
    launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device driver holds it, or it is another user's."""
    pid_file = tmp_path / "pid"
    one = launch(f"setsid sh -c 'echo $$ > {pid_file}; exec sleep 300' & sleep 300")
    pid = _told(pid_file)
    one.note()
    _end_root(one)
    monkeypatch.setattr(module, "KILL", 0)
    left = one.end(0.1)
    monkeypatch.undo()
    assert f"process {pid} (sleep 300)" in left


def test_a_number_that_is_another_s_by_now_is_not_killed(launch: Launch, tmp_path: Path) -> None:
    """A process is known by its number and its start."""
    one = launch("sleep 300")
    other = subprocess.Popen(["sleep", "300"])
    try:
        one._known[other.pid] = "1"  # as if ours had had this number, ages ago
        _end_root(one)
        assert one.end(5) == ()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
