"""Opening files that somebody names, of which nothing must be waited for.

A FIFO without a writer, or a terminal, would be waited for without end; a device has none.
Must not import anything else of the package.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO


class NotRegularError(OSError):
    """What is named is no regular file: a FIFO, a device, a socket."""

    def __init__(self, path: Path) -> None:
        super().__init__(None, "is no regular file", str(path))


def open_regular(path: Path) -> BinaryIO:
    """A file to read bytes from, or that was asked for by a link to one.

    Raises:
        NotRegularError: It is something else, a folder apart.
        OSError: It cannot be opened; of a folder as the system says it.
    """
    # a FIFO is opened at once so, and of a regular file it changes nothing
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise NotRegularError(path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path) -> bytes:
    """All bytes of such a file.

    Raises:
        OSError: As `open_regular`.
    """
    with open_regular(path) as stream:
        return stream.read()
