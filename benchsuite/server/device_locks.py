"""One lock a device, so that a run whose numbers are noisy has its device to itself.

A lock is `flock` on a file in a folder that all users of the machine share, so a holder that was
killed holds nothing. Runs with exact gates only take it shared: their counts do not depend on who
else is busy. Windows has no such locks, and there nothing is locked.

Must not know scenarios: the caller says which devices, and whether alone.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import psutil

from benchsuite.errors import MachineError
from benchsuite.model.limits import limit_struck
from benchsuite.server.processes import started_at

HOST = "host"
"""The lock of the processors and of whatever device is not known by name."""

FOLDER_VARIABLE = "BENCHSUITE_LOCKS"
"""Names another folder for the locks, such as one that several containers share."""

HELD_VARIABLE = "BENCHSUITE_LOCKS_HELD"
"""Set for our children: which processes hold which locks, and how, as JSON of `_Holder`s.

A process believes it of itself and of those that it descends from while they live, since it may
have come down from a shell that a run was once started in.
"""


_How = Literal["shared", "alone"]


class _Holder(msgspec.Struct, frozen=True):
    """A process that holds locks."""

    pid: int
    started: str  # as `started_at` tells it: a number may be another's by now
    locks: dict[str, _How]  # device -> how


class LockWait(NamedTuple):
    """How long to wait for others: some runs take half an hour."""

    seconds: float = 1800.0  # 0: not at all
    limit: str = "lock"  # name of the limit that says so


_REMEDY = (
    "wait longer with --lock-limit SECONDS, or name other devices (CUDA_VISIBLE_DEVICES); runs "
    "with exact gates only share a device"
)

_PAUSE_S = 0.2


def lock_folder(environ: Mapping[str, str]) -> Path:
    """Where the locks of this machine are."""
    named = environ.get(FOLDER_VARIABLE)
    return Path(named) if named else Path(tempfile.gettempdir()) / "benchsuite-locks"


@contextlib.contextmanager
def device_locks(
    devices: Sequence[str] | None,
    *,
    alone: bool,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    wait: LockWait = LockWait(),  # noqa: B008  # immutable
) -> Iterator[tuple[str, ...]]:
    """Hold the locks of devices; the host's is always among them, shared where others are named.

    What a process that we descend from holds alone is ours too. What it shares we share: to wait
    until we are alone would be to wait for it, and so for ourselves.

    Args:
        devices: Their names; an empty list means that only the host, or what is not known, is used.
            None means that nothing of this machine is, and nothing is locked.
        alone: Whether nobody else may use them meanwhile.
        environ: For the folder, and for what a parent of ours holds already.
        say: Told, once, whom we wait for.
        wait: How long to wait at most.

    Yields:
        Sentences, one for each device that was to be ours alone and is shared.

    Raises:
        MachineError: Others hold one for longer, or the folder cannot be used.
    """
    if devices is None or sys.platform == "win32":
        yield ()
        return
    holders = _trusted(environ.get(HELD_VARIABLE, ""))
    wanted = [(HOST, alone and not devices)] + [(name, alone) for name in sorted(set(devices))]
    deadline = time.monotonic() + wait.seconds
    before = os.environ.get(HELD_VARIABLE)
    taken: dict[str, _How] = {}
    shared = []
    with contextlib.ExitStack() as locks:
        for name, exclusive in wanted:  # in one order for all, so that no two wait for each other
            above = {one.locks[name]: one.pid for one in holders if name in one.locks}
            if "alone" in above:
                continue
            if exclusive and "shared" in above:
                shared.append(_not_alone(name, above["shared"]))
            handle = _open(lock_folder(environ), name)
            locks.callback(os.close, handle)
            mine = exclusive and not above
            _acquire(handle, name, exclusive=mine, deadline=deadline, wait=wait, say=say)
            taken[name] = "alone" if mine else "shared"
        us = _Holder(os.getpid(), started_at(os.getpid()) or "", taken)
        os.environ[HELD_VARIABLE] = msgspec.json.encode([*holders, us]).decode()
        try:
            yield tuple(shared)
        finally:
            if before is None:
                del os.environ[HELD_VARIABLE]
            else:
                os.environ[HELD_VARIABLE] = before


def _trusted(text: str) -> list[_Holder]:
    """Those of the holders told that are this process or above it, and live."""
    try:
        told = msgspec.json.decode(text, type=list[_Holder])
    except msgspec.DecodeError:  # none, or not of our writing
        return []
    above = {os.getpid()}
    with contextlib.suppress(psutil.Error):
        above.update(parent.pid for parent in psutil.Process().parents())
    return [one for one in told if one.pid in above and started_at(one.pid) == one.started]


def _not_alone(name: str, pid: int) -> str:
    return (
        f"device '{name}' is shared by process {pid}, which this run was started in: others may "
        "use it meanwhile, so memory and latency are not measured alone"
    )


def _open(folder: Path, name: str) -> int:
    safe = "".join(one if one.isalnum() or one in "-." else "_" for one in name)
    path = folder / f"{safe}.lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):  # someone else's folder has these rights already
            folder.chmod(stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO | stat.S_ISVTX)
        handle = _open_file(path)
        with contextlib.suppress(OSError):
            os.fchmod(handle, 0o666)
        return handle
    except OSError as error:
        raise MachineError(
            f"the lock of device '{name}' cannot be opened: {error.strerror}: {path}",
            hint=f"name a folder for locks that can be written to with ${FOLDER_VARIABLE}",
        ) from error


def _open_file(path: Path) -> int:
    """A handle of the file, which is made where it is not there.

    Never with O_CREAT what another user made: fs.protected_regular of Linux, which systemd sets,
    refuses that (EACCES) in a folder where anyone may write. No link is followed for the same
    reason.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, flags)
        with contextlib.suppress(FileExistsError):  # made by another meanwhile
            return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)


def _acquire(
    handle: int,
    name: str,
    *,
    exclusive: bool,
    deadline: float,
    wait: LockWait,
    say: Callable[[str], None],
) -> None:
    import fcntl

    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    told = False
    while True:
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(handle)
            if time.monotonic() >= deadline:
                raise MachineError(
                    f"device '{name}' is in use by {holder}{_struck(wait)}",
                    hint=_REMEDY if wait.seconds else f"leave --no-wait out to wait; {_REMEDY}",
                ) from None
            if not told:
                say(f"waiting for {holder} to be done with device '{name}'")
                told = True
            time.sleep(_PAUSE_S)
        except OSError as error:
            raise MachineError(
                f"the lock of device '{name}' cannot be taken: {error.strerror}",
                hint=f"name a folder on a local disk with ${FOLDER_VARIABLE}",
            ) from error
        else:
            break
    with contextlib.suppress(OSError):  # for people alone: the kernel's lock is what counts
        text = f"process {os.getpid()}, since {time.strftime('%Y-%m-%dT%H:%M:%S')}\n".encode()
        os.pwrite(handle, text, 0)
        os.ftruncate(handle, len(text))


def _struck(wait: LockWait) -> str:
    return f"; {limit_struck(wait.limit, wait.seconds)}" if wait.seconds else ""


def _holder(handle: int) -> str:
    try:
        text = os.pread(handle, 200, 0).decode("utf-8", "replace").strip()
    except OSError:
        text = ""
    return f"another run ({text})" if text else "another run"
