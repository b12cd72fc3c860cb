"""Several files changed as one: after a kill at any moment a reader finds all of it or none.

A commit writes everything that will change into one file, `.accept.journal`, by one atomic
rename; from then on the change counts. The files themselves follow one by one, and the journal
goes last. Whoever finds a journal reads the folder as if it had been carried out (`pending`), and
the next writer carries it out first (`finish`). It also says what the files held before, so that
a journal which was left behind is not carried out upon the files of another branch. Rejected:
staged files beside their targets with a list of renames, which needs every reader to follow the
renames and leaves more behind.

Only for a holder of the folder's lock (`store.locks`), but for `pending`. Knows nothing of what
the files mean.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from benchsuite.errors import ConfigError, MachineError
from benchsuite.regular import read_regular
from benchsuite.store.files import write_atomic
from benchsuite.store.floats import decode_json
from benchsuite.store.migrations import COMMIT, migrate

COMMIT_FILE = ".accept.journal"
_TEMPORARY = re.compile(r"\..*\.[0-9a-f]{8}\.tmp")
_HINT = "remove that file; then look with `git status` at what the accept left, and repeat it"


class Step(msgspec.Struct, frozen=True):
    """What becomes of one file."""

    before: str | None  # sha256 of what it held; None: it was not there
    after: bytes | None  # what it will hold; None: it goes


class _Journal(msgspec.Struct, frozen=True):
    schema: int
    files: dict[str, Step]  # by relative path


def commit(root: Path, changes: Mapping[str, bytes | None]) -> None:
    """Carry out changes, whole or not at all.

    Args:
        root: The folder.
        changes: Relative path with forward slashes -> what it is to hold; None removes it.

    Raises:
        MachineError: The disk refuses. Before the journal is written nothing has changed; after
            it the change counts, and the next writer carries it out.
    """
    if not changes:
        return
    steps = {path: Step(_digest(_read(root / path)), data) for path, data in changes.items()}
    journal = _Journal(COMMIT.current, dict(sorted(steps.items())))
    write_atomic(root / COMMIT_FILE, msgspec.json.encode(journal) + b"\n")
    _carry_out(root, changes)


def finish(root: Path) -> bool:
    """Carry out what a killed writer left, and clear away its temporary files.

    Returns:
        Whether there was anything to carry out.

    Raises:
        ConfigError: The journal cannot be read.
        MachineError: The disk refuses.
    """
    left = pending(root)
    if left is not None:
        _carry_out(root, left)
    for path in root.rglob(".*.tmp"):
        if _TEMPORARY.fullmatch(path.name):
            with contextlib.suppress(OSError):
                path.unlink()
    return left is not None


def pending(root: Path) -> dict[str, bytes | None] | None:
    """The changes that count already and may not be carried out yet; None where there are none.

    Raises:
        ConfigError: The journal cannot be read, a newer benchsuite wrote it, or the files are no
            longer those that it was written for.
    """
    path = root / COMMIT_FILE
    raw = _read(path)
    while raw is not None:
        steps = decode_journal(raw, str(path))
        strange = _strange(steps, lambda name: _read(root / name))
        again = _read(path)
        if again == raw:
            if strange is not None:
                raise _stale(str(path), strange)
            return {name: step.after for name, step in steps.items()}
        raw = again  # its writer, or the next one, went on meanwhile
    return None


def carried_out(files: Mapping[str, bytes], where: Callable[[str], str]) -> dict[str, bytes]:
    """Files of a folder as they are once a journal among them is carried out.

    Raises:
        ConfigError: As `pending` does.
    """
    raw = files.get(COMMIT_FILE)
    if raw is None:
        return dict(files)
    steps = decode_journal(raw, where(COMMIT_FILE))
    strange = _strange(steps, files.get)
    if strange is not None:
        raise _stale(where(COMMIT_FILE), strange)
    found = {**files, **{name: step.after for name, step in steps.items()}}
    return {n: data for n, data in found.items() if data is not None and n != COMMIT_FILE}


def decode_journal(raw: bytes, where: str) -> dict[str, Step]:
    """What a journal says, by path.

    Raises:
        ConfigError: It is not well formed, a newer benchsuite wrote it, or it names a file
            outside of its folder.
    """
    try:
        content = migrate(COMMIT, decode_json(raw), where=where)
        steps = msgspec.convert(content, _Journal).files
    except msgspec.DecodeError as error:
        raise ConfigError(f"is no journal of an accept: {error}", where=where, hint=_HINT) from None
    for path in steps:
        if "\\" in path or ":" in path or path.startswith("/") or ".." in path.split("/"):
            raise ConfigError(f"names '{path}', outside of its folder", where=where, hint=_HINT)
    return steps


def _strange(steps: Mapping[str, Step], read: Callable[[str], bytes | None]) -> str | None:
    """A file that is neither as it was before the change nor as it is after it."""
    for name, step in steps.items():
        found = read(name)
        if found != step.after and _digest(found) != step.before:
            return name
    return None


def _stale(where: str, name: str) -> ConfigError:
    return ConfigError(
        f"was left by an accept that was killed, but {name} was changed by somebody else since",
        where=where,
        hint="if version control put the baselines back, or another branch in their place, remove "
        "that file and accept again",
    )


def _read(path: Path) -> bytes | None:
    try:
        return read_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"cannot read it: {error.strerror}", where=str(path)) from error


def _digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def _carry_out(root: Path, files: Mapping[str, bytes | None]) -> None:
    try:
        # what goes, goes first: where file names know no case it may be the name of a new file
        for name in [n for n, data in files.items() if data is None]:
            (root / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                (root / name).parent.rmdir()
        for name, data in files.items():
            if data is not None and not _holds(root / name, data):
                write_atomic(root / name, data)
        (root / COMMIT_FILE).unlink(missing_ok=True)
    except OSError as error:
        raise MachineError(
            f"cannot write it: {error.strerror or error}",
            where=str(root),
            hint="free space there, make it writable, and accept again",
        ) from error


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except OSError:
        return False
