"""The server behind a command's client: found, asked to stop, killed, and told of once it ended.

A client (`docker run`, `ssh`, `systemd-run`) is a process of ours; the server that it brings about
is not its child, does not die with it, and its memory is another's. The deployment says how to
reach it, here that is done. Knows nothing of HTTP, flags or the client's own process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
import psutil

from benchsuite.patterns import SlowExpressionError
from benchsuite.patterns import found as matches
from benchsuite.server.bounded import run_bounded
from benchsuite.server.ending import last_words
from benchsuite.server.engine import (
    Container,
    NoContainer,
    image_digest,
    inspect_container,
    pid_here,
)
from benchsuite.server.guard import Guard
from benchsuite.server.log_command import LogCommand
from benchsuite.server.offspring import LAUNCH_MARK
from benchsuite.server.processes import KILL, marked_ids, tree_ids

_RUN_LIMIT_S = 20.0  # for a command that stops or removes
_LOG_PAUSE_S = 0.25  # between attempts to follow a log that is not there yet
_LOG_END_S = 2.0  # for the last lines to come through
_TERM = 15


class Behind(msgspec.Struct, frozen=True):
    """How to reach the server of one launch; placeholders are filled in."""

    client: tuple[str, ...]  # as it was started
    name: str  # of the launch
    deployment: str  # its name, for messages
    stop: tuple[str, ...] = ()
    kill: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    engine: tuple[str, ...] = ()
    container: str | None = None
    pidfile: str | None = None
    process: str | None = None
    elsewhere: bool = False


class Unseen(msgspec.Struct, frozen=True):
    """Why no process of this machine is known to be the server."""

    reason: str
    outcome: Literal["not_applicable", "missing"]


class Ended(msgspec.Struct, frozen=True):
    """How the server behind a client ended."""

    exit_code: int | None
    signal: int | None
    words: str = ""  # what its exit alone does not tell


class ServerBehind:
    """The server behind one client, from its start to its end.

    Args:
        how: How it is reached.
        log_path: Where `how.log` is written to.
        guard: Runs `how.kill` and ends `how.log` if we die.

    Attributes:
        stop_fault: Why the server could not be asked to end; empty where it could.
        left: What may still run after `end`, and why that is not known; empty where it is gone.
    """

    def __init__(self, how: Behind, log_path: Path, guard: Guard) -> None:
        self.how = how
        self.stop_fault = ""
        self.left = ""
        self._was_stopped = False
        self._was_killed: bool | None = None  # None until it is tried
        self._log_path = log_path
        self._guard = guard
        self._client_pid = 0
        self._started_s = time.time()
        self._root: psutil.Process | None = None
        self._log: LogCommand | None = None
        self._log_next_s = 0.0
        self._log_settled = not how.log
        if how.kill:
            guard.add_command(how.kill)

    def started(self, client_pid: int) -> None:
        """Say that the client runs."""
        self._client_pid = client_pid

    def cancel(self) -> None:
        """Say that the client could not be started."""
        self._log_settled = True
        if self.how.kill:
            self._guard.drop_command(self.how.kill)

    def follow_log(self) -> None:
        """Keep the log command going; call it often.

        It is begun once the container is there; one that ends with an error is tried again.
        """
        if self._log_settled or (self._log is not None and self._log.poll() is None):
            return
        if self._log is not None:
            self._log_settled = self._log.poll() == 0  # it has told everything
            self._log.end(0)
            self._log = None
        if self._log_settled or time.monotonic() < self._log_next_s:
            return
        self._log_next_s = time.monotonic() + _LOG_PAUSE_S
        if self.how.container is not None:
            told = inspect_container(self.how.engine, self.how.container)
            if isinstance(told, NoContainer) or told.started_at is None:
                return
        self._start_log()

    def find(self) -> int | Unseen:
        """The server's main process on this machine; looked for once it is healthy."""
        found = self._find()
        if isinstance(found, int):
            try:
                self._root = psutil.Process(found)
            except psutil.Error:
                return Unseen("the server's process ended while it was looked for", "missing")
        return found

    def image(self) -> str:
        """The digest or id of the container's image; empty without one, or where it is not told."""
        if self.how.container is None:
            return ""
        told = inspect_container(self.how.engine, self.how.container)
        return "" if isinstance(told, NoContainer) else image_digest(self.how.engine, told.image)

    def process_ids(self) -> list[int]:
        """The server's process and its descendants; empty where it is not known or has ended."""
        root = self._root
        return [] if root is None or not root.is_running() else tree_ids(root.pid)

    def ask_to_stop(self, wait: Callable[[float], bool], limit_s: float) -> bool:
        """Ask the server to end.

        Args:
            wait: Waits for the client's end, seconds at most; whether it came.
            limit_s: For the asking and the waiting together.

        Returns:
            Whether there was a way to ask.
        """
        started = time.monotonic()
        if self.how.stop:
            self.stop_fault = _run(self.how.stop, limit_s)
            self._was_stopped = self._was_stopped or not self.stop_fault
        elif outside := self._outside():
            for pid in outside:
                _signal(pid, _TERM)
        else:
            return False
        wait(max(limit_s - (time.monotonic() - started), 0))
        return True

    def kill(self) -> None:
        """End the server by force, and remove what is left of it."""
        for root in self._outside():
            for pid in reversed(tree_ids(root)):
                _signal(pid, KILL)
        if self.how.kill:
            # once is enough: where the server is gone, another try may well fail
            self._was_killed = not _run(self.how.kill, _RUN_LIMIT_S) or bool(self._was_killed)

    def end(self, client_code: int | None, *, asked: bool) -> Ended:
        """See to it that the server is gone, and say how it ended.

        Args:
            client_code: The client's return code, negative for a signal; None where it still runs.
            asked: Whether we had asked it to end.
        """
        how = self.how
        code, signal = _split(client_code)
        words = ""
        if how.container is not None:
            told = inspect_container(how.engine, how.container)
            if isinstance(told, Container):
                code, signal, words = self._of_container(told, code, signal, asked=asked)
            elif not told.is_absent:
                words = f"how its container ended is not known: {told.reason}"
            elif code is not None and code > 128:  # engines hand a signal on in this way
                signal, code = code - 128, None
        elif not asked and (outside := self._outside()):
            words = f"the command ended while the server, process {outside[0]}, still ran"
        self._end_log()
        was_asked_only = self._was_stopped and self._was_killed is None
        self.kill()
        if how.container is not None:
            self.left = self._container_left()
            is_gone = not self.left
        else:  # where it cannot be asked for, a command that worked is believed
            is_gone = was_asked_only or bool(self._was_killed)
        if how.kill and is_gone:  # else the guard tries again when we leave
            self._guard.drop_command(how.kill)
        return Ended(code, signal, words)

    def _container_left(self) -> str:
        """That the container still runs, or may; empty where it does not."""
        name = self.how.container
        if name is None:
            return ""
        told = inspect_container(self.how.engine, name)
        if isinstance(told, Container):
            return f"container {name} still runs" if told.running else ""
        if told.is_absent or self._was_killed:
            return ""
        return f"container {name} may still run: {told.reason}"

    def _of_container(
        self, told: Container, code: int | None, signal: int | None, *, asked: bool
    ) -> tuple[int | None, int | None, str]:
        name = self.how.container
        if told.running:
            if asked:
                return code, signal, ""
            hint = ""
            if code == 0:
                hint = "; the client must stay as long as its container (leave out --detach)"
            return code, signal, f"its container {name} still ran, and was stopped{hint}"
        words = [told.error] if told.error else []
        if told.oom_killed:
            words.append("the container reached its memory limit (OOMKilled)")
        if told.started_at is None:
            return code, signal, "; ".join(words)  # it never ran: the client knows why
        if told.exit_code > 128:
            return None, told.exit_code - 128, "; ".join(words)
        return told.exit_code, None, "; ".join(words)

    def _find(self) -> int | Unseen:
        how = self.how
        if how.container is not None:
            told = inspect_container(how.engine, how.container)
            if isinstance(told, NoContainer):
                return Unseen(f"the server's container is not known: {told.reason}", "missing")
            pid = pid_here(told)
            if pid is None:
                why = f"container {how.container} has its processes on another host than this one"
                return Unseen(f"{why}, or outside its process namespace", "not_applicable")
            return pid
        if how.elsewhere:
            why = f"deployment '{how.deployment}' runs its server on another host"
            return Unseen(f"{why}, whose memory cannot be seen from here", "not_applicable")
        if how.pidfile is not None:
            return self._of_pidfile(Path(how.pidfile))
        if how.process is not None:
            return self._matching(how.process)
        return Unseen(
            f"deployment '{how.deployment}' says with neither 'container', 'pidfile' nor 'process' "
            "which process is the server, and the command's own memory is not the server's",
            "not_applicable",
        )

    def _of_pidfile(self, path: Path) -> int | Unseen:
        try:
            text = path.read_text().strip()
            started = psutil.Process(int(text)).create_time()
        except OSError as error:
            return Unseen(f"pidfile {path} cannot be read: {error.strerror}", "missing")
        except ValueError:
            return Unseen(f"pidfile {path} holds no process id", "missing")
        except psutil.Error:
            return Unseen(f"the process of pidfile {path} is not there: {text}", "missing")
        if started < self._started_s - 1:
            why = f"process {text} of pidfile {path} is older than the command"
            return Unseen(f"{why}: an earlier server's", "missing")
        return int(text)

    def _matching(self, pattern: str) -> int | Unseen:
        """The one process whose command line matches, without those of the client and ourselves."""
        others = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
        if self._log is not None:
            others.add(self._log.pid)
        found: dict[int, int] = {}  # process -> parent
        for one in psutil.process_iter(["pid", "ppid", "cmdline", "create_time"]):
            told = one.info
            words = told["cmdline"] or []
            if told["pid"] in others or (told["create_time"] or 0) < self._started_s - 1:
                continue
            try:
                if self._is_client(told["pid"], words) or not matches(pattern, " ".join(words)):
                    continue
            except SlowExpressionError as error:
                return Unseen(error.message, "missing")
            found[told["pid"]] = told["ppid"]
        roots = [pid for pid, parent in found.items() if parent not in found]
        if len(roots) == 1:
            return roots[0]
        if not roots:
            why = f"no process of this machine matches '{pattern}' since the command was started"
            return Unseen(why, "missing")
        listed = ", ".join(map(str, sorted(roots)))
        return Unseen(
            f"{len(roots)} processes match '{pattern}' ({listed}); write a pattern that only the "
            "server has, such as one with {port}",
            "missing",
        )

    def _is_client(self, pid: int, words: Sequence[str]) -> bool:
        """Whether it is the client as it was started; one that became the server is not."""
        arguments = list(self.how.client[1:])
        return pid == self._client_pid and list(words)[-len(arguments) :] == arguments

    def _outside(self) -> list[int]:
        """Processes that the command has started outside its process group; none in containers."""
        if self.how.container is not None:
            return []
        root = self._root
        found = [] if root is None or not root.is_running() else [root.pid]
        known = set(found)
        marked = marked_ids(f"{LAUNCH_MARK}={self.how.name}")
        found += [pid for pid in marked if pid not in known]
        if sys.platform == "win32":
            return found
        ours = []
        for pid in found:
            with suppress(OSError):
                if os.getpgid(pid) not in (self._client_pid, *self._log_group()):
                    ours.append(pid)
        return ours

    def _log_group(self) -> tuple[int, ...]:
        return () if self._log is None else (self._log.pid,)

    def _start_log(self) -> None:
        try:
            self._log = LogCommand(self.how.log, self._log_path, self._guard)
        except OSError:  # the program was looked for before; without it KV stays unknown, not 0
            self._log_settled = True

    def _end_log(self) -> None:
        """Let the last lines come through, then end the log command."""
        self._log_settled = True
        if self._log is not None:
            self._log.end(_LOG_END_S)
            self._log = None


def _run(command: Sequence[str], limit_s: float) -> str:
    """Run a command to its end; what it said where it failed, else nothing."""
    limit_s = max(limit_s, 0.1)
    try:
        done = run_bounded(command, limit_s)
    except OSError as error:
        return f"{command[0]} could not be started: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"{command[0]} took longer than {limit_s:g} s"
    if done.returncode == 0:
        return ""
    lines = (done.stdout + done.stderr).decode("utf-8", "replace").splitlines()
    said = last_words(lines) or "it gave no reason"
    return f"{Path(command[0]).name} exited with code {done.returncode}: {said}"


def _signal(pid: int, number: int) -> None:
    with suppress(OSError):
        os.kill(pid, number)


def _split(code: int | None) -> tuple[int | None, int | None]:
    if code is not None and code < 0:
        return None, -code
    return code, None
