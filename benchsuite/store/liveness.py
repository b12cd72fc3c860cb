"""Whether a run is still going on, told by a lock on its journal.

The process that drives a run holds the lock while its journal is open; the kernel takes it back
when that process ends, however it ends. Where there are no such locks (Windows, some network
folders), a journal without a record that was written to within the last hour counts as going on.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import IO

RECORD_FILE = "record.json"
JOURNAL_FILE = "samples.jsonl"

RECENT_SECONDS = 3600
"""A run without a record whose files are younger may be going on in another container."""


def hold(stream: IO[bytes]) -> None:
    """Mark the journal as being written, until it is closed or this process ends."""
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # a file system without locks: its age must do
        return


def is_driven(folder: Path) -> bool:
    """Whether a run is going on, as far as this machine can tell: for showing."""
    return in_progress(folder) if sys.platform == "win32" else _is_held(folder / JOURNAL_FILE)


def in_progress(folder: Path, *, now: float | None = None) -> bool:
    """Whether a run is going on, or may be, also on another machine: for removing.

    Args:
        folder: Of the run.
        now: Seconds since 1970; None asks the clock.
    """
    if any(_is_held(path / JOURNAL_FILE) for path in (folder, *_folders_in(folder))):
        return True  # of `ab` each side has a journal of its own
    if (folder / RECORD_FILE).exists():
        return False
    try:
        youngest = max(path.lstat().st_mtime for path in (folder, *folder.rglob("*")))
    except OSError:
        return False  # gone meanwhile
    return (time.time() if now is None else now) - youngest < RECENT_SECONDS


def _folders_in(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
    except OSError:
        return []  # gone meanwhile


def _is_held(journal: Path) -> bool:
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        with journal.open("rb") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    except OSError:
        return False
    return False
