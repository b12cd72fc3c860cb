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

from benchsuite.errors import MachineError

HOST = "host"
"""The lock of the processors and of whatever device is not known by name."""

FOLDER_VARIABLE = "BENCHSUITE_LOCKS"
"""Names another folder for the locks, such as one that several containers share."""

HELD_VARIABLE = "BENCHSUITE_LOCKS_HELD"
"""Set for our children: the process that holds the locks, and which; they take none of them."""

WAIT_S = 1800.0
"""How long to wait for others: some runs take this long."""

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
    wait_s: float = WAIT_S,
) -> Iterator[None]:
    """Hold the locks of devices; the host's is always among them, shared where others are named.

    Args:
        devices: Their names; an empty list means that only the host, or what is not known, is used.
            None means that nothing of this machine is, and nothing is locked.
        alone: Whether nobody else may use them meanwhile.
        environ: For the folder, and for what a parent of ours holds already.
        say: Told, once, whom we wait for.
        wait_s: How long to wait at most.

    Raises:
        MachineError: Others hold one for longer, or the folder cannot be used.
    """
    if devices is None or sys.platform == "win32":
        yield
        return
    held = set(environ.get(HELD_VARIABLE, "").split())
    wanted = [(HOST, alone and not devices)] + [(name, alone) for name in sorted(set(devices))]
    deadline = time.monotonic() + wait_s
    before = os.environ.get(HELD_VARIABLE)
    with contextlib.ExitStack() as locks:
        for name, exclusive in wanted:  # in one order for all, so that no two wait for each other
            if name not in held:
                handle = _open(lock_folder(environ), name)
                locks.callback(os.close, handle)
                _acquire(handle, name, exclusive=exclusive, deadline=deadline, say=say)
        os.environ[HELD_VARIABLE] = " ".join(sorted(held | {name for name, _ in wanted}))
        try:
            yield
        finally:
            if before is None:
                del os.environ[HELD_VARIABLE]
            else:
                os.environ[HELD_VARIABLE] = before


def _open(folder: Path, name: str) -> int:
    safe = "".join(one if one.isalnum() or one in "-." else "_" for one in name)
    path = folder / f"{safe}.lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):  # someone else's folder has these rights already
            folder.chmod(stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO | stat.S_ISVTX)
        # no link is followed: anyone may write to a folder for temporary files
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        with contextlib.suppress(OSError):
            os.fchmod(handle, 0o666)
        return handle
    except OSError as error:
        raise MachineError(
            f"the lock of device '{name}' cannot be opened: {error.strerror}: {path}",
            hint=f"name a folder for locks that can be written to with ${FOLDER_VARIABLE}",
        ) from error


def _acquire(
    handle: int, name: str, *, exclusive: bool, deadline: float, say: Callable[[str], None]
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
                    f"device '{name}' is in use by {holder}",
                    hint="wait for that run, or name other devices (CUDA_VISIBLE_DEVICES)",
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


def _holder(handle: int) -> str:
    try:
        text = os.pread(handle, 200, 0).decode("utf-8", "replace").strip()
    except OSError:
        text = ""
    return f"another run ({text})" if text else "another run"
