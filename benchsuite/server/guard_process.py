"""The guard: a process that kills our servers when we are gone. Run by path, not imported.

It must start in a few milliseconds, so it imports nothing but built-in modules and runs isolated
(`python -I -S`). It reads lines from its standard input, a pipe from benchsuite:

    +GROUP     a process group to kill
    -GROUP     ended, or no longer ours
    .          we are leaving in good order

and blocks. When benchsuite ends, however it ends, the pipe closes; on Linux a descriptor of the
parent process fires too, which also works while some other child still holds the pipe open. Then
each group is killed, and on Linux also every process that carries the mark of this run in its
environment: a server that was started but not yet announced, or one that left its group.
"""

from __future__ import annotations

import os
import select
import signal
import sys

_LINGER_S = 1.0  # how long we look again after a parent's death, for a child that is being made


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
    rest = b""
    while True:
        ready = [handle for handle, _ in poll.poll()]
        if 0 in ready:
            part = os.read(0, 65536)
            if not part:
                break
            lines = (rest + part).split(b"\n")
            rest = lines.pop()
            for line in lines:
                if line == b".":
                    return
                group = int(line[1:])
                if line[:1] == b"+":
                    groups.add(group)
                else:
                    groups.discard(group)
        elif parent in ready:  # everything that it wrote has been read above
            break
    for group in groups:
        _kill_group(group)
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
