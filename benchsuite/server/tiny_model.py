"""The tiny models: 1 to 6 MB of random weights that every machine makes byte for byte alike.

They stand in for real models where only the server is under test. Greedy text is printable words
and depends on what the server remembers. The default kind's four layers at F16 KV weigh 16.00 MiB
at 8192 cells (4 layers * 4 heads * 32 * 2 bytes * K and V). `tiny/kinds.py` has the other kinds.

Here a file is made on first use, checked by its hash on every other, and never half there. Must
not know what a server is; imports gguf, and with it numpy, only when a file must be made.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import struct
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

from benchsuite.errors import MachineError
from benchsuite.model.tiny_words import TINY_WORDS
from benchsuite.server.tiny.file import SEED
from benchsuite.server.tiny.kinds import DEFAULT_KIND, KINDS, TinyKind, find_kind

TINY_SHA256 = KINDS[DEFAULT_KIND].sha256
"""SHA-256 of the default kind's whole file."""
TINY_SIZE_BYTES = KINDS[DEFAULT_KIND].size_bytes
"""Size of the default kind's whole file."""

CACHE_VARIABLE = "BENCHSUITE_CACHE"
"""Environment variable that names the cache folder."""


def tiny_model(
    cache_dir: Path | None = None,
    *,
    kind: str = DEFAULT_KIND,
    say: Callable[[str], None] | None = None,
) -> Path:
    """The path of a tiny model, made on first use and checked by its hash on every other.

    Args:
        cache_dir: Where it is kept; None means `$BENCHSUITE_CACHE`, else the user's cache folder.
        kind: One of `KINDS`.
        say: Told, in one sentence, why a temporary folder is used where the cache folder cannot
            be written; None makes it a warning.

    Returns:
        An absolute path, whose file was whole a moment ago.

    Raises:
        UsageError: There is no such kind.
        MachineError: No folder can be written, or the model came out different here.
    """
    wanted = find_kind(kind)
    folder = (cache_dir or _cache_folder()).absolute()
    path = folder / wanted.file_name
    if _holds(path, wanted):
        return path
    try:
        _make_in(folder, path, wanted)
    except OSError as error:
        reason = f"{folder} cannot be written ({error.strerror or error})"
    else:
        return path

    user = os.getuid() if hasattr(os, "getuid") else "user"
    spare = Path(tempfile.gettempdir()) / f"benchsuite-{user}"
    path = spare / wanted.file_name
    told = f"the tiny model is kept in {spare}, since {reason}"
    if say is None:
        warnings.warn(told, RuntimeWarning, stacklevel=2)
    else:
        say(told)
    if _holds(path, wanted):
        return path
    try:
        _make_in(spare, path, wanted)
    except OSError as error:
        raise MachineError(
            f"no folder for the tiny model: {reason}, and neither can {spare} "
            f"({error.strerror or error})",
            hint=f"set {CACHE_VARIABLE} to a folder that can be written, with 7 MB free",
        ) from error
    return path


def write_tiny_model(path: Path, kind: str = DEFAULT_KIND) -> None:
    """Make a tiny model at `path`, replacing what is there, whole or not at all.

    Args:
        path: The file; its folder exists.
        kind: One of `KINDS`.

    Raises:
        UsageError: There is no such kind.
        OSError: The file cannot be written.
        MachineError: gguf cannot be imported, or other bytes came out than on every other machine.
    """
    wanted = find_kind(kind)
    part = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        wanted.write(part)
        with part.open("rb+") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        if found != wanted.sha256:
            raise _different(found, wanted)
        try:
            part.replace(path)
        except PermissionError:
            # Windows: a running server holds the file that another process just made
            if not _holds(path, wanted):
                raise
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def is_tiny_model(path: Path, kind: str = DEFAULT_KIND) -> bool:
    """Whether `path` is a file that holds exactly that model; takes about 5 ms if it is.

    Raises:
        UsageError: There is no such kind.
    """
    return _holds(path, find_kind(kind))


def _holds(path: Path, wanted: TinyKind) -> bool:
    try:
        if not path.is_file() or path.stat().st_size != wanted.size_bytes:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == wanted.sha256
    except OSError:
        return False


def tiny_words(seed: int, count: int) -> str:
    """A prompt of `count` random words, one token each, every one with a space before it.

    Args:
        seed: Any integer; the same prompt for the same seed on every machine, for ever.
        count: How many words.
    """
    drawn = hashlib.shake_256(f"{SEED} words {seed}".encode()).digest(2 * count)
    numbers = struct.unpack(f"<{count}H", drawn)
    return "".join(" " + TINY_WORDS[number % len(TINY_WORDS)] for number in numbers)


def _cache_folder() -> Path:
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("benchsuite", appauthor=False))


def _make_in(folder: Path, path: Path, wanted: TinyKind) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise IsADirectoryError(None, f"{path.name} is a folder")
    write_tiny_model(path, wanted.name)


def _different(found: str, wanted: TinyKind) -> MachineError:
    from importlib.metadata import version

    return MachineError(
        f"the tiny model '{wanted.name}' came out with sha256 {found} where {wanted.sha256} was "
        f"expected, made by gguf {version('gguf')} and numpy {version('numpy')}",
        hint="install gguf 0.17.0 or 0.19.0, which make the right bytes, and report the versions",
    )
