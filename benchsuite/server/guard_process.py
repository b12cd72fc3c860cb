"""The guard: a process that kills our servers when we are gone. Run by path, not imported.

It must start in a few milliseconds, so it imports nothing but built-in modules and runs isolated
(`python -I -S`). It reads lines from its standard input, a pipe from benchsuite:

    +GROUP     a process group to kill
    -GROUP     ended, or no longer ours
    !COMMAND   to be run: it ends a server that is no descendant of ours; words joined by NUL, as
               hexadecimal digits
    ~COMMAND   no longer needed
    *PID START a process that left its group, and perhaps the mark; START as /proc/PID/stat has it
    /PID START ended
    .          we are leaving in good order

and blocks. When benchsuite ends, however it ends, the pipe closes; on Linux a descriptor of the
parent process fires too, which also works while some other child still holds the pipe open. Then
each group is killed, and on Linux also every process that was told and every one that carries the
mark of this run in its environment: a server that was started but not yet announced, or one that
left its group. The commands are run at once and twice again, since an engine may still be about to
make the container that its client asked for.

On Linux a second guard stands behind the first, in a session of its own: should the first be killed
together with benchsuite, it does the same by the mark, also for a server below a wrapper, which the
parent-death signal does not reach.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

_LINGER_S = 1.0  # how long we look again after a parent's death, for a child that is being made
_EXEC_S = 0.2  # so long after the last find: while a program replaces another, it has no mark
_MOST_S = 1.0  # for that, whatever is found
_PAUSE_S = 0.02  # between looks
_LOOKS = 5  # at least
_COMMAND_PAUSES_S = (0.0, 1.0, 3.0)  # before each time that the commands are run
_COMMAND_LIMIT_S = 10.0  # for all commands together, each time


def _kill_group(group: int) -> None:
    try:  # noqa: SIM105  # contextlib costs a third of the start-up time
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass


def _kill_process(told: bytes) -> None:
    """Kill the process `PID START`, unless its number is another's by now; Linux only."""
    pid, start = told.split()
    try:
        handle = os.open(b"/proc/" + pid + b"/stat", os.O_RDONLY)
    except OSError:
        return
    try:
        stat = _read_all(handle)
    except OSError:
        stat = b""
    finally:
        os.close(handle)
    # pid (name) state parent ...; the name may hold anything
    if stat.rpartition(b")")[2].split()[19:20] == [start]:
        try:  # noqa: SIM105  # as above
            os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass


def _kill_marked(mark: bytes) -> bool:
    """Kill what was started with `mark` in its environment; whether there was any. Linux only."""
    any_found = False
    try:
        names = os.listdir("/proc")  # noqa: PTH208  # pathlib costs more than all the rest
    except OSError:
        return False
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
            any_found = True
            try:  # noqa: SIM105  # as above
                os.kill(int(name), signal.SIGKILL)
            except OSError:
                pass
    return any_found


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
    until = time.monotonic() + _COMMAND_LIMIT_S
    while running and time.monotonic() < until:
        running = [pid for pid in running if os.waitpid(pid, os.WNOHANG)[0] == 0]
        select.select([], [], [], _PAUSE_S)
    for pid in running:
        try:  # noqa: SIM105  # as above
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def _took(line: bytes, groups: set[int], commands: set[bytes], processes: set[bytes]) -> bool:
    """Do what a line says; False where it says that all is in good order."""
    kind, told = line[:1], line[1:]
    if kind == b".":
        return False
    if kind == b"*":
        processes.add(told)
        return True
    if kind == b"/":
        processes.discard(told)
        return True
    if kind == b"!":
        commands.add(told)
    elif kind == b"~":
        commands.discard(told)
    elif kind == b"+":
        groups.add(int(told))
    else:
        groups.discard(int(told))
    return True


def _main(mark: bytes, benchsuite: int) -> None:
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGTSTP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)
    parent = -1
    if sys.platform == "linux" and hasattr(os, "pidfd_open"):
        try:
            handle = os.pidfd_open(benchsuite)
            if os.getppid() == benchsuite:
                parent = handle
                poll.register(parent, select.POLLIN)
        except OSError:  # an older kernel, or the parent has gone and the pipe says so
            pass
    second = _begin_second(parent, mark)
    groups: set[int] = set()
    commands: set[bytes] = set()
    processes: set[bytes] = set()
    rest = b""
    while True:
        ready = [handle for handle, _ in poll.poll()]
        if 0 in ready:
            part = os.read(0, 65536)
            if not part:
                break
            lines = (rest + part).split(b"\n")
            rest = lines.pop()
            _tell(second, lines)
            if not all(_took(line, groups, commands, processes) for line in lines):
                _dismiss(second)
                return
        elif parent in ready:  # everything that it wrote has been read above
            break
    for group in groups:  # clients first: none may go on to start what is ended below
        _kill_group(group)
    for told in processes:
        _kill_process(told)
    _run_for_all(commands, mark)
    _look_on(mark)
    _dismiss(second)


def _look_on(mark: bytes) -> None:
    """Kill what is marked until nothing more can come.

    A child between fork and exec holds the pipe open and has no mark yet: that is waited for. Then
    it is what we start it with (`setpriv`), which the server replaces a moment later.
    """
    poll = select.poll()
    poll.register(0, select.POLLHUP)
    until = time.monotonic() + _LINGER_S
    while time.monotonic() < until and not poll.poll(0):
        _kill_marked(mark)
        select.select([], [], [], _PAUSE_S)
    _look(mark, _EXEC_S, _MOST_S)


def _look(mark: bytes, quiet_s: float, most_s: float) -> None:
    """Kill what is marked until there was none for so long, and no longer than `most_s`.

    It looks some times at least, should we be held up ourselves.
    """
    began = seen = time.monotonic()
    looks = 0
    while True:
        found = _kill_marked(mark)
        looks += 1
        now = time.monotonic()
        seen = now if found else seen
        if looks >= _LOOKS and (now - seen >= quiet_s or now - began >= most_s):
            return
        select.select([], [], [], _PAUSE_S)


def _run_for_all(commands: set[bytes], mark: bytes) -> None:
    if not commands:
        return
    _kill_marked(mark)
    for pause in _COMMAND_PAUSES_S:
        select.select([], [], [], pause)
        _run_commands(commands)


def _begin_second(parent: int, mark: bytes) -> int:
    """Start the second guard; the pipe to it, or -1 where there is none."""
    if parent < 0:
        return -1
    try:
        reading, writing = os.pipe()
        child = os.fork()
    except OSError:  # the first is alone, then
        return -1
    if child:
        os.close(reading)
        return writing
    os.setsid()
    os.close(0)  # whether benchsuite is heard is told by the first guard alone
    os.close(writing)
    _stand_behind(reading, parent, mark)
    os._exit(0)


def _stand_behind(pipe: int, parent: int, mark: bytes) -> None:
    """Wait until the first guard has gone and then benchsuite; do what the first would have."""
    told = b""
    while part := os.read(pipe, 65536):
        told += part
    commands: set[bytes] = set()
    processes: set[bytes] = set()
    for line in told.splitlines():
        if line[:1] not in (b"+", b"-") and not _took(line, set(), commands, processes):
            return
    poll = select.poll()
    poll.register(parent, select.POLLIN)
    poll.poll()
    for process in processes:
        _kill_process(process)
    _run_for_all(commands, mark)
    _look(mark, _LINGER_S, _LINGER_S)


def _tell(second: int, lines: list[bytes]) -> None:
    if second < 0:
        return
    try:  # noqa: SIM105  # as above
        os.write(second, b"".join(line + b"\n" for line in lines))
    except OSError:  # it was killed
        pass


def _dismiss(second: int) -> None:
    """Send the second guard away, and wait for it, so that no process is left to be reaped."""
    if second < 0:
        return
    _tell(second, [b"."])
    os.close(second)
    try:  # noqa: SIM105  # as above
        os.wait()
    except OSError:
        pass


if __name__ == "__main__":
    _main(sys.argv[1].encode(), int(sys.argv[2]))
