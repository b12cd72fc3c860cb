"""Folders of small files as they are on disk or as they were at a git revision.

Knows nothing of what the files mean.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path, PurePosixPath
from typing import Protocol

from benchsuite.errors import ConfigError, UsageError

GIT_PREFIX = "git:"
_GIT_SECONDS = 60


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
        return sorted(p.relative_to(self._folder).as_posix() for p in found)

    def names(self, folder: str) -> list[str]:
        """Names of the files directly in one folder below, sorted; empty if it is not there."""
        try:
            return sorted(p.name for p in (self._folder / folder).iterdir() if p.is_file())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise ConfigError(
                f"cannot list it: {error.strerror}", where=self.where(folder)
            ) from error

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None if it is not there."""
        try:
            return (self._folder / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ConfigError(
                f"cannot read it: {error.strerror}", where=self.where(path)
            ) from error

    def where(self, path: str) -> str:
        """A file's path."""
        return str(self._folder / path)


class GitTree:
    """A folder as it was at a git revision, read in one go when it is made."""

    def __init__(self, name: str, files: dict[str, bytes]) -> None:
        self._name = name
        self._files = files

    @property
    def name(self) -> str:
        """Revision and folder: `git:main:baselines`."""
        return self._name

    def exists(self) -> bool:
        """Whether the revision has any file in the folder; git keeps no empty folders."""
        return bool(self._files)

    def paths(self) -> list[str]:
        """Every file below the folder, sorted."""
        return sorted(self._files)

    def names(self, folder: str) -> list[str]:
        """Names of the files directly in one folder below, sorted; empty if it is not there."""
        parent = PurePosixPath(folder)
        paths = (PurePosixPath(path) for path in self._files)
        return sorted(path.name for path in paths if path.parent == parent)

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None if it is not there."""
        return self._files.get(path)

    def where(self, path: str) -> str:
        """Revision and path of a file."""
        return f"{self._name}/{path}"


def baselines_at(revision: str, folder: Path) -> GitTree:
    """A baseline folder as it was at a git revision.

    Args:
        revision: Anything that git takes for a commit: `main`, `HEAD~2`, `origin/main`.
        folder: The folder in the working tree; it need not exist there any more.

    Raises:
        UsageError: Git is not there, the folder is in no repository, or there is no such revision.
    """
    if not revision or revision.startswith("-"):
        raise UsageError(f"'{GIT_PREFIX}{revision}' names no git revision", hint=_REV_HINT)
    resolved = folder.resolve()
    base = resolved
    while not base.is_dir():
        base = base.parent
    top = Path(_git(base, "rev-parse", "--show-toplevel", failure="is in no git repository"))
    try:
        inside = resolved.relative_to(top.resolve()).as_posix()
    except ValueError:
        raise UsageError(f"is outside of the git repository {top}", where=str(folder)) from None
    commit = _commit(base, revision)
    listing = _git(top, "ls-tree", "-r", "-z", commit, "--", f"{inside}/", failure="git ls-tree")
    blobs: dict[str, str] = {}
    for entry in filter(None, listing.split("\0")):
        meta, _, path = entry.partition("\t")
        mode, kind, sha = meta.split()
        if kind == "blob" and mode.startswith("100"):  # no links, no submodules
            blobs[path[len(inside) + 1 :] if inside != "." else path] = sha
    return GitTree(f"{GIT_PREFIX}{revision}:{inside}", _read_blobs(top, blobs))


_REV_HINT = "for example: git:main, git:HEAD~1, git:v1.2"


def _commit(base: Path, revision: str) -> str:
    result = _run_git(base, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if result.returncode == 0:
        return result.stdout.decode().strip()
    shallow = _run_git(base, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
    if shallow:
        raise UsageError(
            f"git does not know the revision '{revision}', and this clone is shallow",
            hint="fetch the history: git fetch --unshallow (in CI: a checkout of full depth)",
        )
    raise UsageError(f"git does not know the revision '{revision}'", hint=_REV_HINT)


def _read_blobs(top: Path, blobs: dict[str, str]) -> dict[str, bytes]:
    """The content of each blob, through one `git cat-file --batch`."""
    wanted = "".join(f"{sha}\n" for sha in blobs.values()).encode()
    result = _run_git(top, "cat-file", "--batch", stdin=wanted)
    if result.returncode != 0:
        raise UsageError(f"git cat-file failed: {_last_line(result.stderr)}", where=str(top))
    files: dict[str, bytes] = {}
    output, position = result.stdout, 0
    for path in blobs:
        # each reply: `<sha> blob <size>`, a newline, the bytes, a newline (git-cat-file(1))
        end = output.index(b"\n", position)
        header = output[position:end].split()
        if len(header) != 3:
            raise UsageError(
                f"git lacks the content of {path}: {output[position:end].decode()}",
                hint="fetch the history: git fetch --unshallow",
            )
        size = int(header[2])
        files[path] = output[end + 1 : end + 1 + size]
        position = end + 1 + size + 1
    return files


def _git(base: Path, *args: str, failure: str) -> str:
    result = _run_git(base, *args)
    if result.returncode != 0:
        raise UsageError(f"{failure}: {_last_line(result.stderr)}", where=str(base))
    return result.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


def _last_line(stderr: bytes) -> str:
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].removeprefix("fatal: ") if lines else "git gave no reason"


def _run_git(base: Path, *args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["git", "-C", str(base), *args],
            input=stdin,
            capture_output=True,
            check=False,
            timeout=_GIT_SECONDS,
            env={**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"},
        )
    except FileNotFoundError as error:
        raise UsageError(
            f"'{GIT_PREFIX}' needs git, which is not on PATH",
            hint="install git, or name a run or a baseline folder instead",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"git took over {_GIT_SECONDS} s: git {' '.join(args)}") from error
