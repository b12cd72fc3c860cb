"""Process trees and groups, and waiting for a process without polling where the kernel can tell.

Knows nothing of servers. Linux is read from `/proc`; elsewhere psutil does it.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

_LINUX = sys.platform == "linux"


def tree_ids(pid: int) -> list[int]:
    """The process and its descendants, itself first; empty once it has gone."""
    if not _LINUX:
        return _tree_ids_elsewhere(pid)
    found: list[int] = []
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        try:
            tasks = [task.name for task in Path(f"/proc/{one}/task").iterdir()]
        except OSError:
            continue
        found.append(one)
        for task in tasks:
            try:
                text = Path(f"/proc/{one}/task/{task}/children").read_text(encoding="ascii")
            except OSError:  # the thread ended meanwhile
                continue
            waiting.extend(int(child) for child in text.split())
    return found


def started_at(pid: int) -> str | None:
    """When a process was started, as the kernel keeps it: with its id a name that none else has.

    Linux's are ticks of the machine's running time, in digits; of two the later is the larger.
    None where there is no such process; one that has ended and is not reaped counts as none.
    """
    if not _LINUX:
        import psutil

        try:
            process = psutil.Process(pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return None
            return repr(process.create_time())
        except psutil.Error:
            return None
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def is_alive(pid: int, started: str) -> bool:
    """Whether the process that was started then still runs; its number may be another's."""
    return started_at(pid) == started


def _tree_ids_elsewhere(pid: int) -> list[int]:
    import psutil

    try:
        process = psutil.Process(pid)
        return [pid, *(child.pid for child in process.children(recursive=True))]
    except psutil.Error:
        return []


def group_ids(group: int) -> list[int]:
    """The living members of a process group; zombies do not count."""
    found = []
    if not _LINUX:
        import psutil

        for process in psutil.process_iter(["status"]):
            try:
                living = process.info["status"] != psutil.STATUS_ZOMBIE
                if living and os.getpgid(process.pid) == group:
                    found.append(process.pid)
            except (OSError, psutil.Error):
                continue
        return found
    for name in os.listdir("/proc"):  # noqa: PTH208  # thousands of entries, twice as quick
        if not name.isdigit():
            continue
        try:
            stat = Path(f"/proc/{name}/stat").read_bytes()
        except OSError:
            continue
        # pid (name) state parent group ...; the name may hold anything
        fields = stat[stat.rindex(b")") + 2 :].split()
        if int(fields[2]) == group and fields[0] not in (b"Z", b"X"):
            found.append(int(name))
    return found


def marked_ids(mark: str) -> list[int]:
    """The processes that were started with `NAME=VALUE` in their environment; Linux only."""
    found: list[int] = []
    if not _LINUX:
        return found
    wanted = mark.encode()
    for name in os.listdir("/proc"):  # noqa: PTH208  # as above
        if name.isdigit():
            try:
                environ = Path(f"/proc/{name}/environ").read_bytes()
            except OSError:  # another user's, or it has ended
                continue
            if wanted in environ.split(b"\0"):
                found.append(int(name))
    return found


def signal_group(group: int, number: int) -> bool:
    """Signal a process group; whether there was one to signal."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS, when only zombies are left
        return False
    return True


def wait_for_group(group: int, limit_s: float) -> bool:
    """Wait until the group has no living member; whether that came about within the limit."""
    end = time.monotonic() + limit_s
    pause_s = 0.0005
    while signal_group(group, 0) and group_ids(group):
        if time.monotonic() >= end:
            return False
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.02)
    return True


def wait_for_exit(process: subprocess.Popen[bytes], limit_s: float) -> bool:
    """Wait until the process has ended, reaping it; whether that came about within the limit."""
    if process.poll() is not None:
        return True
    if sys.platform == "linux" and hasattr(os, "pidfd_open"):
        try:
            handle = os.pidfd_open(process.pid)
        except OSError:  # kernel before 5.3, or a sandbox that forbids it
            handle = -1
        if handle >= 0:
            try:
                poll = select.poll()  # select() fails for descriptors from 1024 on
                poll.register(handle, select.POLLIN)
                poll.poll(max(limit_s, 0) * 1000)
            finally:
                os.close(handle)
            return process.poll() is not None
    end = time.monotonic() + limit_s
    pause_s = 0.0005
    while process.poll() is None:
        if time.monotonic() >= end:
            return False
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.01)
    return True


_death_prefix: tuple[str, ...] | None = None


def parent_death_prefix() -> tuple[str, ...]:
    """What to put before a command so that the kernel kills it when our main thread ends.

    Linux's `setpriv --pdeathsig KILL` replaces itself with the command: same process, 0.8 ms
    more. Empty where that program is absent or too old (it is tried once, 1.5 ms). Doing the same
    between fork and exec (`preexec_fn`) was rejected: it is unsafe once there are threads.
    """
    global _death_prefix
    if _death_prefix is None:
        _death_prefix = ()
        found = shutil.which("setpriv") if _LINUX else None
        if found is not None:
            prefix = (found, "--pdeathsig", "KILL")
            try:
                tried = subprocess.run(
                    [*prefix, "true"],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=5,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired):
                return _death_prefix
            if tried.returncode == 0:
                _death_prefix = prefix
    return _death_prefix


KILL = 9
"""The signal that cannot be refused."""
