"""Git as benchsuite needs it: revisions, the files of one, and who last changed which line.

Only reads; every command is a `git` of the user's own. Knows nothing of what the files mean.
"""

from __future__ import annotations

import datetime as dt
import functools
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

from benchsuite.errors import UsageError

GIT_PREFIX = "git:"
_GIT_SECONDS = 60
_REV_HINT = "for example: git:main, git:HEAD~1, git:v1.2"


class Place(msgspec.Struct, frozen=True):
    """A folder in a repository."""

    top: Path  # the working tree's root
    inside: str  # the folder below it, with forward slashes; `.` for the root itself


class Change(msgspec.Struct, frozen=True):
    """The commit that last changed something."""

    commit: str  # abbreviated hash; empty for what is not committed
    date: str = ""  # when it was committed, YYYY-MM-DD
    subject: str = ""  # first line of its message
    # the history that is here begins with it (a shallow clone), so it may be older
    at_most: bool = False
    age: int = 0  # place in the file's history, the newest first; for ordering only


UNCOMMITTED = Change("")


def place_of(folder: Path) -> Place:
    """Where a folder lies in its repository; it need not exist.

    Raises:
        UsageError: Git is not there, or the folder is in no repository.
    """
    resolved = folder.resolve()
    base = resolved
    while not base.is_dir():
        base = base.parent
    top = Path(_git(base, "rev-parse", "--show-toplevel", failure="is in no git repository"))
    try:
        inside = resolved.relative_to(top.resolve()).as_posix()
    except ValueError:
        raise UsageError(f"is outside of the git repository {top}", where=str(folder)) from None
    return Place(top, inside)


def read_revision(place: Place, revision: str) -> dict[str, bytes]:
    """Every file of a folder as it was at a revision, by path below the folder.

    Raises:
        UsageError: There is no such revision, or git lacks its content.
    """
    if not revision or revision.startswith("-"):
        raise UsageError(f"'{GIT_PREFIX}{revision}' names no git revision", hint=_REV_HINT)
    inside = place.inside
    commit = _commit(place.top, revision)
    listing = _git(
        place.top, "ls-tree", "-r", "-z", commit, "--", f"{inside}/", failure="git ls-tree"
    )
    blobs: dict[str, str] = {}
    for entry in filter(None, listing.split("\0")):
        meta, _, path = entry.partition("\t")
        mode, kind, sha = meta.split()
        if kind == "blob" and mode.startswith("100"):  # no links, no submodules
            blobs[path[len(inside) + 1 :] if inside != "." else path] = sha
    return _read_blobs(place.top, blobs)


def last_changes(place: Place, path: str, revision: str | None) -> list[Change]:
    """The commit that last changed each line of a file; empty where git cannot tell.

    Args:
        place: The folder.
        path: The file, below the folder.
        revision: As of this revision; None is the working tree.

    Returns:
        One for each line of the file.
    """
    inside = path if place.inside == "." else f"{place.inside}/{path}"
    at = [] if revision is None else [revision]
    # -w: a line is as old as its words, whatever its indent
    result = _run_git(place.top, "blame", "--porcelain", "-w", *at, "--", inside)
    if result.returncode != 0:
        return []  # not in the repository yet
    shallow = b"\nboundary\n" in result.stdout and _is_shallow(place.top)
    head = _run_git(
        place.top, "rev-parse", "--verify", "--quiet", f"{revision or 'HEAD'}^{{commit}}"
    )
    ages = _ages(place.top, head.stdout.decode().strip())
    return _parse_blame(result.stdout.decode("utf-8", "replace"), ages, shallow=shallow)


@functools.lru_cache(maxsize=4)
def _ages(top: Path, commit: str) -> dict[str, int]:
    """Each commit's place in a history, the newest first.

    By descent, since two commits of one second, or of two clocks, have no order by time.
    """
    listed = _run_git(top, "rev-list", "--topo-order", commit) if commit else None
    hashes = [] if listed is None else listed.stdout.decode().split()
    return {sha: age for age, sha in enumerate(hashes, start=1)}


_BLAME_LINE = re.compile(r"([0-9a-f]{40,64}) \d+ \d+")


def _parse_blame(text: str, ages: Mapping[str, int], *, shallow: bool) -> list[Change]:
    """Lines of `git blame --porcelain`: a header for each line, details once a commit."""
    known: dict[str, dict[str, str]] = {}
    order: list[str] = []
    details: dict[str, str] = {}
    for line in text.split("\n"):
        if line.startswith("\t"):
            continue
        header = _BLAME_LINE.match(line)
        if header is not None:
            order.append(header[1])
            details = known.setdefault(header[1], {})
            continue
        key, _, value = line.partition(" ")
        details[key] = value
    changes = {sha: _change(sha, known[sha], shallow=shallow) for sha in known}
    return [msgspec.structs.replace(changes[sha], age=ages.get(sha, 0)) for sha in order]


def _change(sha: str, details: dict[str, str], *, shallow: bool) -> Change:
    if not sha.strip("0"):
        return UNCOMMITTED
    when = details.get("committer-time", "")
    time = int(when) if when.isdigit() else 0
    date = dt.datetime.fromtimestamp(time, dt.UTC).date().isoformat() if time else ""
    # `boundary` is said of a root commit too; only a shallow clone hides what was before
    at_most = shallow and "boundary" in details
    return Change(sha[:9], date, details.get("summary", ""), at_most)


def _commit(base: Path, revision: str) -> str:
    result = _run_git(base, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if result.returncode == 0:
        return result.stdout.decode().strip()
    shallow = _is_shallow(base)
    words = ", and this clone is shallow" if shallow else ""
    raise UsageError(
        f"git does not know the revision '{revision}'{words}",
        hint=_fetch_hint(base, revision, shallow=shallow),
    )


_BRANCH = re.compile(r"[A-Za-z0-9][\w./-]*")
_HASH = re.compile(r"[0-9a-f]{7,64}")


def _fetch_hint(base: Path, revision: str, *, shallow: bool) -> str:
    """The command that would bring a revision which is not here."""
    remotes = _run_git(base, "remote").stdout.decode("utf-8", "replace").split()
    remote, _, branch = revision.partition("/")
    if _BRANCH.fullmatch(revision) and not _HASH.fullmatch(revision) and revision != "HEAD":
        depth = "--depth=1 " if shallow else ""
        if remote in remotes and branch:
            return f"fetch it: git fetch {depth}{remote} {branch}:refs/remotes/{revision}"
        known = _run_git(base, "rev-parse", "--verify", "--quiet", f"origin/{revision}^{{commit}}")
        if known.returncode == 0:
            return f"this clone has no such branch of its own; write git:origin/{revision}"
        if shallow and "origin" in remotes:
            return (
                f"fetch it: git fetch {depth}origin {revision}:refs/remotes/origin/{revision}; "
                f"then write git:origin/{revision} (a tag or hash: git fetch --unshallow --tags)"
            )
    if shallow:
        return "fetch the history: git fetch --unshallow (in CI: a checkout of full depth)"
    return _REV_HINT


def _is_shallow(base: Path) -> bool:
    return _run_git(base, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"


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
