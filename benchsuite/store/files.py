"""Atomic writes, and file names that are safe for any key; knows nothing of what is stored."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from pathlib import Path

from benchsuite.errors import MachineError
from benchsuite.redact import redact_bytes

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME = 80
# names that Windows gives to devices, whatever their extension
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that a reader finds the whole of it or none, also after a crash.

    Secrets that the run knows are hidden, whatever the format.

    Raises:
        MachineError: The disk or its permissions refuse.
    """
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as stream:
            stream.write(redact_bytes(data))
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise MachineError(
            f"cannot write it: {error.strerror or error}",
            where=str(path),
            hint="free space there, make it writable, or choose another folder",
        ) from error


def _sync_folder(folder: Path) -> None:
    """Make a rename inside the folder durable; Windows cannot open folders and needs it not."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def safe_name(key: str, *, fold_case: bool = False) -> str:
    """A file or folder name for a key; the key itself where that is safe everywhere.

    Any other key is cut and cleaned, and gets eight digits of its hash so that two keys never
    share a name.

    Args:
        key: Any text.
        fold_case: Tell keys apart that differ in case only, also where file names do not.
    """
    name = _UNSAFE.sub("-", key)[:_MAX_NAME].strip("-.")
    if fold_case:
        name = name.lower()
    if name and name == key and not _RESERVED.fullmatch(name):
        return name
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{name}-{digest}" if name else digest


def disk_error(path: Path, error: OSError) -> MachineError:
    """What a disk that refuses is told as."""
    return MachineError(
        f"cannot write here: {error.strerror or error}",
        where=str(path),
        hint="free space there, make it writable, or choose another folder with --out",
    )
