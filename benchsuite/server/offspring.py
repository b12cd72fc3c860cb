"""What one launch has brought about on this machine, found again wherever it went, and ended.

A wrapper may start the server in a process group or session of its own, and with another
environment. So the processes of a launch are known in four ways: by its group (which `launch`
sees to), by a mark in their environment (Linux), by having been seen below the launched process
while that lived, and by holding the port that the server was to listen on.

Must not know what a server is, nor whose command started it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from benchsuite.server.guard import Guard
from benchsuite.server.processes import KILL, is_alive, marked_ids, started_at, tree_ids

LAUNCH_MARK = "BENCHSUITE_LAUNCH"
"""Environment variable of what we launch, by which what it starts on this machine is known."""

_CONNECT_S = 0.5
_LONGEST_PAUSE_S = 0.5  # between looks at a launch that is not ready yet
_LOOPBACK = ("127.", "localhost", "::1")


class Offspring:
    """The processes of one launch.

    Args:
        process: What was started, in a group of its own.
        name: The value of `LAUNCH_MARK` in its environment.
        command: As it was started; with host and port in it where it is a server's.
        log_path: Its outputs.
        address: Where the server is to listen.
        guard: Told of processes outside the group.
        is_container: Its processes are an engine's: then only the launched one and what is below
            it is looked at, and nothing is killed.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        *,
        name: str,
        command: Sequence[str],
        log_path: Path,
        address: tuple[str, int],
        guard: Guard,
        is_container: bool,
    ) -> None:
        self._process = process
        self._name = name
        self._arguments = list(command[1:])
        self._log_path = log_path
        self._address = address
        self._guard = guard
        self._is_container = is_container
        self._since = started_at(process.pid) or started_at(os.getpid()) or "0"
        self._known: dict[int, str] = {}  # process below the launched one -> when it was started
        self._made_s = time.monotonic()
        self._next_s = 0.0

    def note(self) -> list[int]:
        """Look who lives: the launched process, then those below it and those seen before.

        Reads a few files a process and thread; all processes of the machine are not looked at.
        """
        root = [] if self._process.returncode is not None else tree_ids(self._process.pid)
        if self._is_container:
            return root
        found = dict.fromkeys(root)
        for pid, started in list(self._known.items()):
            if pid in found:
                continue
            if is_alive(pid, started):
                found.update(dict.fromkeys(tree_ids(pid)))
            else:
                self._forget(pid)
        for pid in found:
            self._remember(pid)
        return list(found)

    def note_start(self) -> None:
        """As `note`, seldom enough to be called whenever a launch is looked at."""
        now = time.monotonic()
        if now >= self._next_s:
            self.note()
            self._next_s = now + min(now - self._made_s, _LONGEST_PAUSE_S)

    def note_ready(self) -> None:
        """Note the processes of a server that is ready, and who listens if none of them does."""
        living = self.note()
        if self._is_container or any(self._listens(pid) for pid in living):
            return
        owner = self._port_owner()
        if owner is not None:
            self._remember(owner)

    def outside(self) -> list[int]:
        """Those that live outside the group, and so do not hear of its signals."""
        self.note()
        if sys.platform == "win32":
            return list(self._known)
        found = []
        for pid in self._known:
            with suppress(OSError):
                if os.getpgid(pid) != self._process.pid:
                    found.append(pid)
        return found

    def wait(self, limit_s: float) -> bool:
        """Wait for the end of those outside the group; whether it came within the limit."""
        return self._is_container or _gone(
            {pid: self._known[pid] for pid in self.outside()}, time.monotonic() + limit_s
        )

    def end(self, limit_s: float) -> tuple[str, ...]:
        """Kill whatever is left; the launched process has ended, or cannot be ended.

        Args:
            limit_s: For the kernel to end what was killed.

        Returns:
            What still lives: process ids and commands.
        """
        if self._is_container:
            return ()
        deadline = time.monotonic() + limit_s
        left = self._left()
        while left:
            for pid, started in left.items():
                if is_alive(pid, started):
                    with suppress(OSError):
                        os.kill(pid, KILL)
            if not _gone(left, deadline):
                break
            left = self._left()  # one may have started another meanwhile
            if time.monotonic() >= deadline:
                break
        for pid in list(self._known):
            self._forget(pid)
        return tuple(
            f"process {pid} ({_command(pid)})"
            for pid, started in left.items()
            if is_alive(pid, started)
        )

    def _remember(self, pid: int) -> None:
        started = started_at(pid)
        if pid == self._process.pid or started is None or self._known.get(pid) == started:
            return
        self._forget(pid)
        self._known[pid] = started
        self._guard.add_process(pid, started)

    def _forget(self, pid: int) -> None:
        if pid in self._known:
            self._guard.drop_process(pid, self._known.pop(pid))

    def _left(self) -> dict[int, str]:
        found = self.note()
        found += marked_ids(f"{LAUNCH_MARK}={self._name}")
        owner = self._port_owner()
        if owner is not None:
            found.append(owner)
        told = {pid: started_at(pid) for pid in found}
        return {pid: started for pid, started in told.items() if started is not None}

    def _listens(self, pid: int) -> bool:
        try:
            held = psutil.Process(pid).net_connections("tcp")
        except (psutil.Error, OSError):
            return False
        return any(_listens_at(one, self._address[1]) for one in held)

    def _port_owner(self) -> int | None:
        """The process of this launch that listens at its address; None where none is known.

        Another may listen there by now, or have been quicker: only one is ours that was started
        after the launch by this user, is no other launch's, and has our log or our arguments.
        """
        host, port = self._address
        if not host.startswith(_LOOPBACK):
            return None
        try:
            socket.create_connection((host, port), _CONNECT_S).close()
        except OSError:  # the usual answer, and a quick one: nobody
            return None
        try:
            held = psutil.net_connections("tcp")
        except (psutil.Error, OSError):  # macOS tells root only; there may be no /proc
            return None
        for one in held:
            if one.pid and _listens_at(one, port):
                with suppress(psutil.Error, OSError):
                    if self._is_ours(one.pid):
                        return int(one.pid)
        return None

    def _is_ours(self, pid: int) -> bool:
        started = started_at(pid)
        if pid == os.getpid() or started is None or float(started) < float(self._since):
            return False
        process = psutil.Process(pid)
        if sys.platform != "win32" and process.uids().real != os.getuid():
            return False
        mark = process.environ().get(LAUNCH_MARK)
        if mark is not None:
            return mark == self._name
        return self._has_arguments(process.cmdline()) or self._has_log(pid)

    def _has_arguments(self, words: Sequence[str]) -> bool:
        """Whether a command line holds ours, as that of a server below a wrapper does."""
        ours = self._arguments
        if str(self._address[1]) not in ours:
            return False
        return any(list(words[at : at + len(ours)]) == ours for at in range(len(words)))

    def _has_log(self, pid: int) -> bool:
        for number in ("1", "2"):
            with suppress(OSError):
                if Path(f"/proc/{pid}/fd/{number}").samefile(self._log_path):
                    return True
        return False


def _listens_at(socket_: Any, port: int) -> bool:
    """Whether a socket as psutil tells of it listens at a port."""
    return bool(
        socket_.status == psutil.CONN_LISTEN and socket_.laddr and socket_.laddr.port == port
    )


def _gone(processes: dict[int, str], deadline_s: float) -> bool:
    """Wait until none of them lives; whether that came about before the deadline."""
    pause_s = 0.0005
    while any(is_alive(pid, started) for pid, started in processes.items()):
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.02)
    return True


def _command(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline()[:4]) or "no command line"
    except psutil.Error:
        return "its command cannot be read"
