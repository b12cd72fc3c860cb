"""Several runs in one place, as a pipeline keeps them: a folder of run folders, or an archive.

Knows nothing of what is done with the runs.
"""

from __future__ import annotations

import contextlib
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from benchsuite.errors import ConfigError
from benchsuite.regular import NotRegularError
from benchsuite.store.files import write_atomic
from benchsuite.store.records import JOURNAL_FILE, RECORD_FILE, read_member
from benchsuite.store.vectors import VECTORS_FILE

_KEPT = (RECORD_FILE, JOURNAL_FILE, VECTORS_FILE)
"""What is taken out of an archive; server logs may be long and are not needed."""

_SIDES = "candidate"  # a folder with this inside is a run of `benchsuite ab`


@contextlib.contextmanager
def opened_runs(path: Path) -> Iterator[list[Path]]:
    """The runs that a path holds, each as `read_record` takes it, sorted by their folders' names.

    A run, a record or an archive of one run is itself. Of a folder of run folders, and of an
    archive of several, which is unpacked until the context ends, each is one; those of
    `benchsuite ab` are left out.

    Raises:
        ConfigError: An archive cannot be read.
    """
    if path.is_dir():
        yield [path] if _is_run(path) else _runs_below(path) or [path]
        return
    folders = _run_folders(path)
    if len(folders) < 2:
        yield [path]
        return
    with tempfile.TemporaryDirectory(prefix="benchsuite-") as place:
        yield _unpack(path, folders, Path(place))


def _is_run(path: Path) -> bool:
    return (path / RECORD_FILE).exists() or (path / JOURNAL_FILE).exists()


def _runs_below(path: Path) -> list[Path]:
    found = (p.parent for name in (RECORD_FILE, JOURNAL_FILE) for p in path.rglob(name))
    return sorted(p for p in set(found) if not _is_ab(p))


def _is_ab(folder: Path) -> bool:
    return (folder / _SIDES).is_dir() or (folder.parent / _SIDES).is_dir()


def _run_folders(path: Path) -> list[PurePosixPath]:
    """The folders of runs inside an archive; none for any other file."""
    names = [name for name, _ in _members(path)]
    folders = {PurePosixPath(n).parent for n in names if PurePosixPath(n).name == RECORD_FILE}
    sides = {folder.parent for folder in folders if folder.name == _SIDES}
    return sorted(f for f in folders if f not in sides and f.parent not in sides)


def _unpack(path: Path, folders: list[PurePosixPath], place: Path) -> list[Path]:
    """Put the runs into folders of our own naming, so that no name in the archive matters."""
    homes = {
        folder: place / f"{number:04}-{folder.name or 'run'}"
        for number, folder in enumerate(folders)
    }
    for name, opened in _members(path):
        inner = PurePosixPath(name)
        home = homes.get(inner.parent)
        if home is not None and inner.name in _KEPT:
            write_atomic(home / inner.name, read_member(opened, path))
    return list(homes.values())


def _members(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """The names of the plain files in an archive, each with its content."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise NotRegularError(path)
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for info in archive.infolist():
                    if not info.is_dir():
                        with archive.open(info) as stream:
                            yield info.filename.replace("\\", "/"), stream
        elif path.is_file() and path.suffix != ".json" and tarfile.is_tarfile(path):
            with tarfile.open(path) as tar:
                for member in tar:
                    content = tar.extractfile(member) if member.isfile() else None
                    if content is not None:
                        yield member.name, content
    except NotRegularError as error:
        raise ConfigError(str(error.strerror), where=str(path)) from error
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, tarfile.TarError) as error:
        raise ConfigError(f"cannot read the archive: {error}", where=str(path)) from error
