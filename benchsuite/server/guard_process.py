"""The guard: a process that kills our servers when we are gone. Run by path, not imported.

It must start in a few milliseconds, so it imports nothing but built-in modules and runs isolated
(`python -I -S`). It reads lines from its standard input, a pipe from benchsuite:

    +GROUP     a process group to kill
    -GROUP     ended, or no longer ours
    !COMMAND   to be run: it ends a server that is no descendant of ours; words joined by NUL, as
               hexadecimal digits
    ~COMMAND   no longer needed
    .          we are leaving in good order

and blocks. When benchsuite ends, however it ends, the pipe closes; on Linux a descriptor of the
parent process fires too, which also works while some other child still holds the pipe open. Then
each group is killed, and on Linux also every process that carries the mark of this run in its
environment: a server that was started but not yet announced, or one that left its group. The
commands are run at once and twice again, since an engine may still be about to make the container
that its client asked for.
"""

from __future__ import annotations

import os
import select
import signal
import sys

_LINGER_S = 1.0  # how long we look again after a parent's death, for a child that is being made
_COMMAND_PAUSES_S = (0.0, 1.0, 3.0)  # before each time that the commands are run
_COMMAND_LIMIT_S = 10.0  # for all commands together, each time


def _kill_group(group: int) -> None:
    try:  # noqa: SIM105  # contextlib costs a third of the start-up time
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass


def _kill_marked(mark: bytes) -> None:
    """Kill the processes that were started with `mark` in their environment; Linux only."""
    try:
        names = os.listdir("/proc")  # noqa: PTH208  # pathlib costs more than all the rest
    except OSError:
        return
    for name in names:
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            handle = os.open("/proc/" + name + "/environ", os.O_RDONLY)
        except OSError:
            continue
        try:
            found = mark in _read_all(handle)
        except OSError:
            found = False
        finally:
            os.close(handle)
        if found:
            try:  # noqa: SIM105  # as above
                os.kill(int(name), signal.SIGKILL)
            except OSError:
                pass


def _read_all(handle: int) -> bytes:
    parts = []
    while part := os.read(handle, 65536):
        parts.append(part)
    return b"".join(parts)


def _run_commands(commands: set[bytes]) -> None:
    """Run every command at once, and wait for all of them."""
    running = []
    for packed in commands:
        words = bytes.fromhex(packed.decode()).split(b"\0")
        try:
            quiet = [
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
            ]
            defaults = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]
            running.append(
                os.posix_spawnp(words[0], words, os.environ, file_actions=quiet, setsigdef=defaults)
            )
        except OSError:
            continue
    waited = 0.0
    while running and waited < _COMMAND_LIMIT_S:
        running = [pid for pid in running if os.waitpid(pid, os.WNOHANG)[0] == 0]
        select.select([], [], [], 0.02)
        waited += 0.02
    for pid in running:
        try:  # noqa: SIM105  # as above
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def _took(line: bytes, groups: set[int], commands: set[bytes]) -> bool:
    """Do what a line says; False where it says that all is in good order."""
    kind, told = line[:1], line[1:]
    if kind == b".":
        return False
    if kind == b"!":
        commands.add(told)
    elif kind == b"~":
        commands.discard(told)
    elif kind == b"+":
        groups.add(int(told))
    else:
        groups.discard(int(told))
    return True


def _main(mark: bytes) -> None:
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGTSTP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)
    parent = -1
    if sys.platform == "linux" and hasattr(os, "pidfd_open"):
        try:
            parent = os.pidfd_open(os.getppid())
            poll.register(parent, select.POLLIN)
        except OSError:  # an older kernel, or the parent has gone and the pipe says so
            pass
    groups: set[int] = set()
    commands: set[bytes] = set()
    rest = b""
    while True:
        ready = [handle for handle, _ in poll.poll()]
        if 0 in ready:
            part = os.read(0, 65536)
            if not part:
                break
            lines = (rest + part).split(b"\n")
            rest = lines.pop()
            if not all(_took(line, groups, commands) for line in lines):
                return
        elif parent in ready:  # everything that it wrote has been read above
            break
    for group in groups:  # clients first: none may go on to start what is ended below
        _kill_group(group)
    if commands:
        _kill_marked(mark)
        for pause in _COMMAND_PAUSES_S:
            select.select([], [], [], pause)
            _run_commands(commands)
    # a child between fork and exec holds the pipe open and has no mark yet: look until it closes
    waited = 0.0
    while True:
        _kill_marked(mark)
        poll = select.poll()
        poll.register(0, select.POLLHUP)
        if waited >= _LINGER_S or poll.poll(0):
            break
        select.select([], [], [], 0.02)
        waited += 0.02
    _kill_marked(mark)


if __name__ == "__main__":
    _main(sys.argv[1].encode())
