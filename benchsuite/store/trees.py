"""Folders of small files as they are on disk or as they were at a git revision.

A folder on disk is read as if a change that a killed writer left (`store.commits`) were carried
out. Knows nothing of what the files mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Protocol

from benchsuite.errors import ConfigError
from benchsuite.regular import read_regular
from benchsuite.store.commits import COMMIT_FILE, carried_out, pending
from benchsuite.store.git import GIT_PREFIX, place_of, read_revision

_LOOKS = 100
"""How often a snapshot is tried while somebody writes; an `accept` spoils one or two."""

Wanted = Callable[[str], bool]
"""Which paths a snapshot holds."""


class Tree(Protocol):
    """Read-only files below one folder; paths are relative, with forward slashes."""

    @property
    def name(self) -> str:
        """The folder as the user named it."""

    def exists(self) -> bool:
        """Whether the folder is there at all."""

    def paths(self) -> list[str]:
        """Every file below the folder, sorted."""

    def names(self, folder: str) -> list[str]:
        """Names of the files directly in one folder below, sorted; empty if it is not there."""

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None if it is not there."""

    def where(self, path: str) -> str:
        """A file's place, for messages."""

    def snapshot(self, wanted: Wanted, folder: str = "") -> Tree:
        """The wanted files below one folder, all as they were at one moment."""


class FolderTree:
    """A folder on disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def name(self) -> str:
        """The folder's path."""
        return str(self._folder)

    def exists(self) -> bool:
        """Whether the folder is there at all."""
        return self._folder.is_dir()

    def paths(self) -> list[str]:
        """Every file below the folder, sorted."""
        found = (p for p in self._folder.rglob("*") if p.is_file())
        paths = {p.relative_to(self._folder).as_posix() for p in found}
        return sorted(_overlaid(paths, pending(self._folder)))

    def names(self, folder: str) -> list[str]:
        """Names of the files directly in one folder below, sorted; empty if it is not there."""
        try:
            paths = {f"{folder}/{p.name}" for p in (self._folder / folder).iterdir() if p.is_file()}
        except (FileNotFoundError, NotADirectoryError):
            paths = set()
        except OSError as error:
            raise ConfigError(
                f"cannot list it: {error.strerror}", where=self.where(folder)
            ) from error
        return _names_in(folder, _overlaid(paths, pending(self._folder)))

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None if it is not there."""
        left = pending(self._folder)
        if left is not None and path in left:
            return left[path]
        return _content(_read(self._folder / path), self.where(path))

    def where(self, path: str) -> str:
        """A file's path."""
        return str(self._folder / path)

    def snapshot(self, wanted: Wanted, folder: str = "") -> Tree:
        """The wanted files below one folder, all as they were at one moment.

        Everything is read, and then looked at again: where nothing has changed in between, all of
        it was there at once. Takes no lock, so it works in folders that cannot be written.

        Raises:
            ConfigError: The folder changes all the time.
        """
        for _ in range(_LOOKS):
            before = self._state(wanted, folder)
            files = {p: _read(self._folder / p) for p in before if p != COMMIT_FILE}
            if self._state(wanted, folder) == before:
                left = pending(self._folder) if before[COMMIT_FILE] else None
                if self._state(wanted, folder) == before:
                    below = f"{folder}/" if folder else ""
                    new = {p: d for p, d in (left or {}).items() if p.startswith(below)}
                    files |= {p: d for p, d in new.items() if wanted(p)}
                    found = {p: d for p, d in files.items() if d is not None}
                    return MemoryTree(self.name, found, self._folder)
        raise ConfigError(
            "is being changed all the time", where=self.where(folder), hint="try again later"
        )

    def _state(self, wanted: Wanted, folder: str) -> dict[str, tuple[int, ...]]:
        """What tells whether a file was replaced, by path; that of the journal always."""
        state: dict[str, tuple[int, ...]] = {COMMIT_FILE: _stamp(self._folder / COMMIT_FILE)}
        for path in sorted((self._folder / folder).rglob("*")):
            name = path.relative_to(self._folder).as_posix()
            if wanted(name):
                state[name] = _stamp(path)
        return state


class MemoryTree:
    """Files of a folder held in memory: a moment of it, or a git revision."""

    def __init__(
        self, name: str, files: Mapping[str, bytes | OSError], folder: Path | None = None
    ) -> None:
        self._name = name
        self._files = files
        self._folder = folder

    @property
    def name(self) -> str:
        """The folder's path, or revision and folder: `git:main:baselines`."""
        return self._name

    def exists(self) -> bool:
        """Whether there is any file; git keeps no empty folders."""
        return bool(self._files)

    def paths(self) -> list[str]:
        """Every file below the folder, sorted."""
        return sorted(self._files)

    def names(self, folder: str) -> list[str]:
        """Names of the files directly in one folder below, sorted; empty if it is not there."""
        return _names_in(folder, self._files)

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None if it is not there."""
        return _content(self._files.get(path), self.where(path))

    def where(self, path: str) -> str:
        """Path of a file, or its revision and path."""
        return f"{self._name}/{path}" if self._folder is None else str(self._folder / path)

    def snapshot(self, wanted: Wanted, folder: str = "") -> Tree:
        """Itself: it does not change."""
        return self


def baselines_at(revision: str, folder: Path) -> MemoryTree:
    """A baseline folder as it was at a git revision.

    Args:
        revision: Anything that git takes for a commit: `main`, `HEAD~2`, `origin/main`.
        folder: The folder in the working tree; it need not exist there any more.

    Raises:
        UsageError: Git is not there, the folder is in no repository, or there is no such revision.
    """
    place = place_of(folder)
    files = read_revision(place, revision)
    name = f"{GIT_PREFIX}{revision}:{place.inside}"
    return MemoryTree(name, carried_out(files, lambda path: f"{name}/{path}"))


def _read(path: Path) -> bytes | OSError | None:
    """The bytes of a file, or why it cannot be read; None if it is not there."""
    try:
        return read_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return error


def _content(found: bytes | OSError | None, where: str) -> bytes | None:
    if isinstance(found, OSError):
        raise ConfigError(f"cannot read it: {found.strerror}", where=where) from found
    return found


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        seen = path.stat()
    except OSError:
        return ()
    return (seen.st_ino, seen.st_mtime_ns, seen.st_size)


def _overlaid(paths: set[str], left: Mapping[str, bytes | None] | None) -> set[str]:
    """Paths as they will be once the pending changes are carried out."""
    for path, data in (left or {}).items():
        (paths.discard if data is None else paths.add)(path)
    return paths


def _names_in(folder: str, paths: set[str] | Mapping[str, object]) -> list[str]:
    parent = PurePosixPath(folder)
    return sorted(p.name for p in map(PurePosixPath, paths) if p.parent == parent)
