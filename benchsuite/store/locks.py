"""One writer at a time for a folder: a lock on a file in it, which the OS lets go with its holder.

The OS's own lock on an open file is what counts (`flock` on Linux and macOS, `LockFile` through
`msvcrt` on Windows), so a holder that was killed leaves a file but no lock. The file's text, which
says who holds it, is for people alone. Knows nothing of what is written under the lock.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchsuite.errors import MachineError

LOCK_FILE = ".accept.lock"
WAIT_S = 60.0
"""How long a writer waits for another: an `accept` takes well under a second."""

_PAUSE_S = 0.05
_FAR = 1 << 30  # the byte that Windows locks: locked bytes cannot be read, and the text must be
_REFUSED = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


@contextlib.contextmanager
def locked(
    folder: Path,
    *,
    wait_s: float = WAIT_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[None]:
    """Hold the lock of a folder; the folder is made, and goes again if it stays empty.

    Args:
        folder: What may have one writer at a time.
        wait_s: How long to wait for another holder, in seconds; 0 does not wait.
        clock: Seconds, never going back.
        sleep: Waits so many seconds.

    Raises:
        MachineError: Somebody else holds it for longer; or the disk or file system refuses.
    """
    path = folder / LOCK_FILE
    made = not folder.exists()
    handle = _acquire(path, wait_s, clock, sleep)
    try:
        yield
    finally:
        _release(path, handle)
        if made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _acquire(
    path: Path, wait_s: float, clock: Callable[[], float], sleep: Callable[[float], None]
) -> int:
    until = clock() + wait_s
    while True:
        try:
            handle = _try(path)
        except OSError as error:
            lacks = " (this file system has no locks)" if error.errno in _REFUSED else ""
            raise MachineError(
                f"cannot lock it: {error.strerror or error}{lacks}",
                where=str(path),
                hint="make the folder writable, or accept on a local disk",
            ) from error
        if handle is not None:
            _sign(handle)
            return handle
        if clock() >= until:
            raise MachineError(
                f"another benchsuite has been writing these baselines for {wait_s:g} s: "
                f"{_holder(path)}",
                where=str(path),
                hint="let it end, or end it, and repeat the command",
            )
        sleep(_PAUSE_S)


def _try(path: Path) -> int | None:
    """The open, locked file; None where somebody else holds it or has just removed it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    except FileNotFoundError:  # the folder went between the two calls: its last writer left
        return None
    except PermissionError:
        if sys.platform == "win32" and path.exists():
            return None  # Windows: a file that is being removed
        raise
    try:
        # whoever lets go removes the file first, so a lock on a file that has no name any more,
        # or whose name is now another file's, is worth nothing
        if _lock(handle) and os.path.samestat(os.fstat(handle), os.stat(path)):  # noqa: PTH116
            return handle
    except FileNotFoundError:
        pass
    except OSError:
        os.close(handle)
        raise
    os.close(handle)
    return None


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> bool:
        os.lseek(handle, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EDEADLK):
                return False
            raise
        return True

    def _release(path: Path, handle: int) -> None:
        os.lseek(handle, _FAR, os.SEEK_SET)
        with contextlib.suppress(OSError):
            msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
        os.close(handle)
        with contextlib.suppress(OSError):  # refused while somebody else has it open
            path.unlink()

else:
    import fcntl

    def _lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _release(path: Path, handle: int) -> None:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)  # while it is held, so that nobody's lock is removed
        os.close(handle)


def _sign(handle: int) -> None:
    """Write who holds it; for people, so a disk that refuses is no reason to stop."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    text = f"process {os.getpid()} on {socket.gethostname()} since {now}\n"
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, text.encode("utf-8", "replace"))


def _holder(path: Path) -> str:
    try:
        text = path.read_bytes()[:200].decode("utf-8", "replace").strip()
    except OSError:
        text = ""
    return text or "it did not say who it is"
