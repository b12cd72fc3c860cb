"""Starting a server that is ours, watching it, and stopping it.

The server gets its own process group, a port of 127.0.0.1, a random API key through the
environment, and one log file for both of its outputs. Nothing here reads HTTP or log lines: the
caller says what healthy means, and `ending` puts an end into words.

The log file is written by the server itself, so that no pipe can slow it down or hold it up. A
server that logs without end would fill the disk: `poll` looks at the file's size, and kills a
server whose log has outgrown the cap. (A limit in the kernel, RLIMIT_FSIZE, was rejected: it
would also strike the files that slots are saved to.)
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, cast

from benchsuite.errors import MachineError, ServerStartError
from benchsuite.logform.facts import LogFacts
from benchsuite.model.record import ServerEnd
from benchsuite.redact import hide_in_file, new_key
from benchsuite.scenario.templates import KEY_VARIABLE
from benchsuite.server.behind import ServerBehind
from benchsuite.server.ending import CRASH_SIGNALS, NO_REASON, describe_end, last_words, read_tail
from benchsuite.server.environment import server_environment
from benchsuite.server.guard import Guard
from benchsuite.server.locate import ServerBinary
from benchsuite.server.offspring import LAUNCH_MARK, Offspring
from benchsuite.server.ports import check_port, free_port
from benchsuite.server.processes import (
    KILL,
    group_ids,
    parent_death_prefix,
    signal_group,
    wait_for_exit,
    wait_for_group,
)
from benchsuite.server.start_faults import PortTakenError, start_error, start_hang
from benchsuite.units import MIB

__all__ = [
    "LOG_CAP_BYTES",
    "LaunchedServer",
    "Place",
    "PortTakenError",
    "launch",
    "read_tail",
    "start_process",
    "wait_until_healthy",
]

LOG_CAP_BYTES = 1024 * MIB
"""How large a server's log may grow before the server is killed."""

_FORCE_S = 5.0  # for the kernel to end a killed process; longer means it hangs in a device
_CONNECT_S = 1.0
_TERM = 15


class LaunchedServer:
    """A server that we started and own. Made by `launch`.

    Attributes:
        url: `http://HOST:PORT`, without a slash at the end.
        host, port: What it listens on.
        pid: Of the process that we started: the server, or a wrapper around it.
        api_key: For `Authorization: Bearer`; it is in no command line and no record.
        command: What was started, as one would type it; the key is not part of it.
        log_path: Both outputs of the server.
        client_log_path: Both outputs of a command's client; the same where it prints the log.
        started_ns: Monotonic clock just before it was started.
        asked: Whether we asked it to end, so that its end is no death.
        behind: The server behind it, where it is a command's client; None where it is the server.
        survivors: Processes of the launch that not even a kill ended, with their commands.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        *,
        command: tuple[str, ...],
        host: str,
        port: int,
        port_is_ours: bool,
        api_key: str,
        log_path: Path,
        log_cap_bytes: int,
        started_ns: int,
        guard: Guard,
        offspring: Offspring,
        behind: ServerBehind | None = None,
        client_log_path: Path | None = None,
    ) -> None:
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        self.host = host
        self.port = port
        self.port_is_ours = port_is_ours
        self.pid = process.pid
        self.api_key = api_key
        self.command = command
        self.log_path = log_path
        self.client_log_path = log_path if client_log_path is None else client_log_path
        self.started_ns = started_ns
        self._process = process
        self._log_cap_bytes = log_cap_bytes
        self._guard = guard
        self._end: ServerEnd | None = None
        self.asked = False
        self.behind = behind
        self.survivors: tuple[str, ...] = ()
        self._offspring = offspring
        self._is_ready = False

    def poll(self) -> ServerEnd | None:
        """How the server ended; None while it runs. Costs a few microseconds while it does.

        Call it often: it is also what kills a server whose log outgrows the cap.
        """
        if self._end is not None:
            return self._end
        if self._process.poll() is not None:
            self._finish("died")
        elif self._log_bytes() > self._log_cap_bytes:
            self._kill()
            cap = f"{self._log_cap_bytes // MIB} MiB"
            self._finish("forced", f"its log outgrew {cap}, so it was killed: {self.log_path}")
        else:
            if not self._is_ready:
                self._offspring.note_start()
            if self.behind is not None:
                self.behind.follow_log()
        return self._end

    def note_ready(self) -> None:
        """Say that the server answers; takes note of its processes, some milliseconds."""
        self._is_ready = True
        if self._end is None:
            self._offspring.note_ready()

    def stop(self, limit_s: float) -> ServerEnd:
        """Stop the server: ask, ask again after half of the limit, then kill its whole group.

        An idle llama-server ends within about 5 ms of being asked. One that still serves a
        request waits for that client (build 10434), so close the connections first.

        Args:
            limit_s: Seconds from asking politely to force.

        Returns:
            How it ended: `stopped`, `forced`, or `died` where it had ended by itself before.
        """
        if (end := self.poll()) is not None:
            return end
        started = time.monotonic()
        self.asked = True
        self._ask_to_stop(limit_s / 2)
        if not self._wait(limit_s / 2 - (time.monotonic() - started)):
            # a second request makes llama-server leave at once: "Received second interrupt"
            self._ask_to_stop(limit_s / 2)
            self._wait(limit_s - (time.monotonic() - started))
        if self._process.poll() is None:
            self._kill()
            return self._finish("forced")
        # a wrapper ends before the server that it wraps: that one may still be cleaning up
        left_s = limit_s - (time.monotonic() - started)
        polite = sys.platform == "win32" or wait_for_group(self.pid, max(left_s, 0))
        polite = polite and self._offspring.wait(0)
        return self._finish("stopped" if polite else "forced")

    def process_ids(self) -> list[int]:
        """Process ids of the server and its descendants; empty once it has ended."""
        if self._end is not None:
            return []
        living = self._offspring.note()  # at every sample, so that what leaves is known
        return living if self.behind is None else self.behind.process_ids()

    def left_behind(self) -> bool:
        """Whether a command's server still answers once its client has ended."""
        if self.behind is None or self._end is None:
            return False
        try:
            socket.create_connection((self.host, self.port), _CONNECT_S).close()
        except OSError:
            return False
        return True

    def evidence(self) -> LogFacts:
        """What the end of the log tells as it is now."""
        return read_tail(self.log_path)

    def _ask_to_stop(self, limit_s: float) -> None:
        behind = self.behind
        if behind is not None and behind.ask_to_stop(
            partial(wait_for_exit, self._process), limit_s
        ):
            return
        if sys.platform == "win32":
            import signal

            self._process.send_signal(signal.CTRL_BREAK_EVENT)
        else:
            # the group, since a shell does not pass the signal on to the server that it waits for
            signal_group(self._process.pid, _TERM)
            for pid in self._offspring.outside():
                with suppress(OSError):
                    os.kill(pid, _TERM)

    def _wait(self, limit_s: float) -> bool:
        """Wait for the end of the process and of what left its group; whether it came."""
        end_s = time.monotonic() + limit_s
        return wait_for_exit(self._process, limit_s) and self._offspring.wait(
            end_s - time.monotonic()
        )

    def _kill(self) -> None:
        if self.behind is not None:
            self.behind.kill()
        if sys.platform == "win32":
            self._process.kill()
        else:
            signal_group(self._process.pid, KILL)
        wait_for_exit(self._process, _FORCE_S)

    def _finish(
        self, how: Literal["stopped", "forced", "died"], crash: str | None = None
    ) -> ServerEnd:
        """Kill what is left of the launch, let the guard forget it, and keep how it ended."""
        told = ""
        if sys.platform != "win32" and signal_group(self.pid, 0) and group_ids(self.pid):
            signal_group(self.pid, KILL)
            wait_for_group(self.pid, _FORCE_S)
        code = self._process.returncode
        signal = -code if code is not None and code < 0 else None
        exit_code = None if signal is not None else code
        if self.behind is not None:
            ended = self.behind.end(code, asked=self.asked or how == "forced")
            exit_code, signal, told = ended.exit_code, ended.signal, ended.words
        self.survivors = self._offspring.end(_FORCE_S)
        self._guard.release(self.pid)
        if code is None:  # killed, and still not gone: a device driver holds it
            crash = crash or f"process {self.pid} did not end within {_FORCE_S:g} s of being killed"
        elif how == "died" or (how == "stopped" and _is_crash(exit_code, signal)):
            how = "died"
            crash = describe_end(exit_code, signal, self.evidence())
            if self.behind is not None:
                crash = self._words_of_client(crash, told)
        for path in {self.log_path, self.client_log_path}:
            hide_in_file(path)  # what a server may have printed of its key, or of a token of ours
        self._end = ServerEnd(exit_code=exit_code, signal=signal, how=how, crash=crash)
        return self._end

    def _words_of_client(self, crash: str, told: str) -> str:
        """How a command's client ended, with what its engine told, else with its last words."""
        if told:
            return f"{crash.removesuffix(NO_REASON)}; {told}"
        if crash.endswith(NO_REASON):
            said = last_words(read_tail(self.client_log_path).last_lines)
            if said is not None:
                return f"{crash.removesuffix(NO_REASON)}: {said}"
        return crash

    def _log_bytes(self) -> int:
        try:
            return self.log_path.stat().st_size
        except OSError:  # someone removed it; the server writes on, and nothing can be measured
            return 0


def launch(
    binary: ServerBinary,
    flags: Sequence[str],
    *,
    model: str | None,
    log_path: Path,
    env: Mapping[str, str],
    guard: Guard,
    host: str = "127.0.0.1",
    port: int | None = None,
    log_cap_bytes: int = LOG_CAP_BYTES,
    append: bool = False,
) -> LaunchedServer:
    """Start a server and return at once; it is not healthy yet.

    Call it from the main thread: the kernel takes the end of the launching thread for our death.

    Args:
        binary: What to start.
        flags: Ready arguments. Host, port, model and key are added here.
        model: Path of the model; None where the flags name one, or the server needs none.
        log_path: Made or emptied; gets both outputs.
        env: Set for the server in addition, as the deployment says.
        guard: Told of the server at once.
        host: Address to listen on.
        port: A port of the user's choice; None picks a free one.
        log_cap_bytes: Size of the log beyond which `poll` kills the server.
        append: Keep what the log holds, of the server that this one replaces.

    Raises:
        MachineError: The port is in use, no port is free, or the log cannot be written.
        ServerStartError: The binary could not be executed after all.
    """
    chosen = free_port(host) if port is None else check_port(host, port)
    arguments = [] if model is None else ["--model", model]
    command = (*binary.argv, *flags, *arguments, "--host", host, "--port", str(chosen))
    return start_process(
        command,
        place=Place(host, chosen, port is None),
        log_path=log_path,
        env=binary.env | dict(env),
        guard=guard,
        log_cap_bytes=log_cap_bytes,
        append=append,
    )


class Place(NamedTuple):
    """Where a server is to listen."""

    host: str
    port: int
    is_ours: bool  # chosen by us, so that another may be chosen


def start_process(
    command: tuple[str, ...],
    *,
    place: Place,
    log_path: Path,
    env: Mapping[str, str],
    guard: Guard,
    log_cap_bytes: int = LOG_CAP_BYTES,
    append: bool = False,
    behind: ServerBehind | None = None,
    client_log_path: Path | None = None,
) -> LaunchedServer:
    """Start a ready command as `launch` does: in a group of its own, with a random key.

    Args:
        command: With host and port in it.
        place: Where it is to listen.
        log_path: Made or emptied; gets both outputs, unless there is a `client_log_path`.
        env: Set for it in addition.
        guard: Told of it at once.
        log_cap_bytes, append: As of `launch`.
        behind: The server, where the command is only its client.
        client_log_path: Gets both outputs of such a client.

    Raises:
        MachineError: A log cannot be written.
        ServerStartError: The command could not be executed after all.
    """
    api_key = new_key()
    mark = f"benchsuite-{os.urandom(6).hex()}" if behind is None else behind.how.name
    environment = server_environment(
        os.environ,
        env,
        # a crash handler that attaches a debugger keeps port and memory (build 10434)
        {KEY_VARIABLE: api_key, "GGML_NO_BACKTRACE": "1"},
        guard.environment,
        {LAUNCH_MARK: mark},
    )
    with ExitStack() as logs:
        mode = "ab" if append else "wb"
        outputs = [
            logs.enter_context(_open_log(path, mode))
            for path in (log_path, client_log_path)
            if path is not None
        ]
        prefixed = [*parent_death_prefix(), *command]
        guard.expect()
        started_ns = time.monotonic_ns()
        try:
            process = _start(prefixed, environment, outputs[-1].fileno())
        except OSError as error:
            guard.cancel()
            if behind is not None:
                behind.cancel()
            raise ServerStartError(
                f"{command[0]} could not be started: {error.strerror}"
            ) from error
    server = LaunchedServer(
        process,
        command=command,
        host=place.host,
        port=place.port,
        port_is_ours=place.is_ours,
        api_key=api_key,
        log_path=log_path,
        log_cap_bytes=log_cap_bytes,
        started_ns=started_ns,
        guard=guard,
        offspring=Offspring(
            process,
            name=mark,
            command=command,
            log_path=log_path,
            address=(place.host, place.port),
            guard=guard,
            is_container=behind is not None and behind.how.container is not None,
        ),
        behind=behind,
        client_log_path=client_log_path,
    )
    try:
        if behind is not None:
            behind.started(process.pid)
        guard.register(process.pid)
    except BaseException:
        server.stop(0)
        raise
    return server


def _open_log(path: Path, mode: str) -> BinaryIO:
    try:
        return cast("BinaryIO", path.open(mode, buffering=0))
    except OSError as error:
        raise MachineError(
            f"the server's log cannot be written: {error.strerror}: {path}",
            hint="give a folder that can be written to with --out",
        ) from error


def _is_crash(exit_code: int | None, signal: int | None) -> bool:
    """Whether a server that was asked to stop ended by something else than our asking.

    Other exit codes are taken as they come: wrappers choose theirs, and llama-server leaves with
    1 when asked twice.
    """
    by_wrapper = exit_code is not None and exit_code - 128 in CRASH_SIGNALS
    return by_wrapper or (signal is not None and signal != _TERM)


def _start(
    command: Sequence[str], environment: Mapping[str, str], log: int
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        process_group=None if sys.platform == "win32" else 0,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # Windows only
    )


async def wait_until_healthy(
    server: LaunchedServer,
    is_healthy: Callable[[], Awaitable[bool]],
    limit_s: float,
    evidence: Callable[[], LogFacts] | None = None,
) -> None:
    """Wait until the server is healthy.

    Args:
        server: Just launched.
        is_healthy: Asks the server once; False while it cannot be reached or is loading (503).
        limit_s: Seconds since the launch; the user's `--start-limit`.
        evidence: What the log tells; None reads the log's end.

    Raises:
        PortTakenError: A port that we chose was taken by someone else meanwhile.
        MachineError: The same with a port that the user chose.
        ServerStartError: It ended before it was healthy; the message says how.
        ServerHangError: The limit was reached; the server still runs and is the caller's to stop.
    """
    end_s = server.started_ns / 1e9 + limit_s
    while True:
        if (ended := server.poll()) is not None:
            raise start_error(server, ended, (evidence or server.evidence)())
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            raise start_hang(server, limit_s, (evidence or server.evidence)())
        try:
            # one question must not outlast the server's death by much
            healthy = await asyncio.wait_for(is_healthy(), min(left_s, 5.0))
        except TimeoutError:
            continue
        if healthy and server.poll() is None:  # else someone else answered on its port
            return
        # a twentieth of the time so far: never late by more than that, and few questions in all
        elapsed_s = time.monotonic() - server.started_ns / 1e9
        await asyncio.sleep(min(max(elapsed_s / 20, 0.002), 0.05))
