"""Follows a log file while a server writes it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from benchsuite.errors import MachineError
from benchsuite.logform.facts import LogFacts
from benchsuite.logform.reader import LogReader

_CHUNK_BYTES = 256 * 1024
_EVENT_BYTES = 4 * 1024 * 1024
"""Of a larger log that was there already, only the end's events are read: the rest is history."""


class LogFollower:
    """Reads what was appended to a log file since the last look.

    The file may come later, shrink (truncated in place) or be replaced (rotated); the latter two
    are told in `warnings`, since lines may be lost.

    Args:
        path: The log file.
        model: A router's name for the model that is meant; empty where there is no router.
    """

    def __init__(self, path: str | os.PathLike[str], model: str = "") -> None:
        self.path = Path(path)
        self.reader = LogReader(model)
        self.warnings: list[str] = []
        self._file: BinaryIO | None = None
        self._position = 0
        self._closed = False

    def poll(self) -> int:
        """Read what the file has beyond what was read.

        Returns:
            Bytes read; 0 where there is nothing new or no file yet.

        Raises:
            MachineError: The file is there but cannot be read.
        """
        try:
            return self._poll()
        except OSError as error:
            raise MachineError(
                f"the server's log cannot be read: {error.strerror or error}",
                where=str(self.path),
                hint="let this user read it, or observe no log",
            ) from error

    def _poll(self) -> int:
        if self._closed:
            return 0
        read = 0
        if self._file is None and not self._open():
            return 0
        read += self._read_rest()
        if self._was_replaced():
            self._warn("was replaced while it was followed; lines between may be lost")
            self._drop()
            if self._open():
                read += self._read_rest()
        if read <= _EVENT_BYTES:
            self.reader.keep_events()
        return read

    def _open(self) -> bool:
        try:
            self._file = self.path.open("rb", buffering=0)
        except FileNotFoundError:
            return False
        self._position = 0
        return True

    def _read_rest(self) -> int:
        file = self._file
        if file is None:
            return 0
        size = os.fstat(file.fileno()).st_size
        if size < self._position:
            self._warn(f"shrank from {self._position} to {size} bytes; read again from its start")
            self._end_line()
            file.seek(0)
            self._position = 0
        read = 0
        # only up to the size seen: a writer faster than us must not hold us here
        while self._position < size:
            chunk = file.read(min(_CHUNK_BYTES, size - self._position))
            if not chunk:
                break
            self.reader.feed(chunk)
            self._position += len(chunk)
            read += len(chunk)
        return read

    def _was_replaced(self) -> bool:
        if self._file is None:
            return False
        try:
            now = self.path.stat()
        except FileNotFoundError:
            return False  # moved away; a new one may come
        ours = os.fstat(self._file.fileno())
        return (now.st_dev, now.st_ino) != (ours.st_dev, ours.st_ino)

    def _end_line(self) -> None:
        """What was begun in another file, or before a truncation, is no part of the next line."""
        self.reader.feed(b"\n")

    def _drop(self) -> None:
        self._end_line()
        if self._file is not None:
            self._file.close()
        self._file = None

    def _warn(self, what: str) -> None:
        self.warnings.append(f"log {self.path} {what}")

    def facts(self) -> LogFacts:
        """What was read so far; after `close`, of the whole log."""
        return self.reader.finish() if self._closed else self.reader.facts()

    def close(self) -> None:
        """Read the rest and let go of the file; the server has ended."""
        if self._closed:
            return
        try:
            self.poll()
        finally:
            self._closed = True
            if self._file is not None:
                self._file.close()
                self._file = None
