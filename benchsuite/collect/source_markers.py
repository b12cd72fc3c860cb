"""Counts the lines of a source folder that match a pattern.

The count is made by a child process (`python -m benchsuite.collect.source_markers`), since a
regular expression of Python can take for ever and cannot be stopped from within. It is guarded as a
server is, and ends by itself where nothing guards it (Windows).
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchsuite.regular import open_regular
from benchsuite.server.asking import ask

LIMIT_SECONDS = 60.0
"""How long one count may take."""
_SPARE_SECONDS = 5.0
"""So much later the child ends by itself, where it was not ended."""
_LINE_BYTES = 1024 * 1024
_PROBE_BYTES = 8 * 1024
_LEFT_OUT = frozenset({".git", ".hg", ".svn"})


class MarkerCount(NamedTuple):
    """Lines found, in how many files of text."""

    lines: int
    files: int


def count_markers(
    folder: Path,
    globs: Sequence[str],
    pattern: str,
    stop: threading.Event | None = None,
    limit_s: float = LIMIT_SECONDS,
) -> MarkerCount | str:
    """The lines that match, or one sentence that says why they could not be counted.

    Links are not followed, binary files (a NUL byte in the first 8 KiB) and folders of version
    control are left out. A line longer than 1 MiB is looked at in pieces of that size.

    Args:
        folder: Where the source is.
        globs: Which files, by their path under the folder with forward slashes.
        pattern: A regular expression, searched in each line without its end.
        stop: Gives the count up, once set.
        limit_s: Seconds until the count is given up.
    """
    asked = {"folder": str(folder), "globs": list(globs), "pattern": pattern}
    question = json.dumps({**asked, "limit_s": limit_s + _SPARE_SECONDS})
    child = [sys.executable, "-m", "benchsuite.collect.source_markers", question]
    try:
        code, text = ask(child, os.environ, limit_s, stop)
    except subprocess.TimeoutExpired:
        if stop is not None and stop.is_set():
            return "counting was interrupted"
        return (
            f"counting took longer than {limit_s:g} s: the pattern '{pattern}' may try the same "
            f"text in too many ways, or {folder} is too large for its globs"
        )
    except OSError as error:
        return f"counting in {folder} could not be begun: {error.strerror or error}"
    lines = text.strip().splitlines()
    if code != 0 or not lines:
        return f"counting in {folder} failed: {lines[-1] if lines else f'exit code {code}'}"
    told: dict[str, Any] = json.loads(lines[-1])
    if told["problem"]:
        return str(told["problem"])
    return MarkerCount(told["lines"], told["files"])


def glob_expression(glob: str) -> str:
    """A glob as a regular expression over whole relative paths.

    `*` and `?` stay within a folder's name, `**/` is any number of folders, and a glob without a
    slash means files of that name in any folder.
    """
    text = glob if "/" in glob else f"**/{glob}"
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", text)
    words = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(words.get(part) or re.escape(part) for part in parts)


def count_here(folder: Path, globs: Sequence[str], pattern: str) -> dict[str, Any]:
    """As `count_markers`, in this process: `lines`, `files`, and `problem` or None."""
    wanted = re.compile("|".join(f"(?:{glob_expression(glob)})" for glob in globs))
    marker = re.compile(pattern)
    lines = files = 0
    problem = None
    try:
        for path in _files_under(folder):
            if wanted.fullmatch(path.relative_to(folder).as_posix()) is None:
                continue
            found = _count_in(path, marker)
            if found is not None:
                lines, files = lines + found, files + 1
    except OSError as error:
        problem = f"cannot be read: {error.strerror}: {error.filename or folder}"
    if problem is None and files == 0:
        problem = f"no file of text under {folder} matches {', '.join(globs)}"
    return {"lines": lines, "files": files, "problem": problem}


def _files_under(folder: Path) -> Iterator[Path]:
    """Plain files; a folder that cannot be listed is an error, since it may hold markers."""

    def stop(error: OSError) -> None:
        raise error

    for root, folders, names in os.walk(folder, onerror=stop, followlinks=False):
        folders[:] = sorted(set(folders) - _LEFT_OUT)
        for name in sorted(names):
            path = Path(root, name)
            if stat.S_ISREG(path.lstat().st_mode):
                yield path


def _count_in(path: Path, marker: re.Pattern[str]) -> int | None:
    """Matching lines of one file; None where it is binary."""
    found = 0
    with open_regular(path) as file:
        if b"\0" in file.read(_PROBE_BYTES):
            return None
        file.seek(0)
        matched = False  # within the present line, which may come in pieces
        while piece := file.readline(_LINE_BYTES):
            text = piece.decode("utf-8", "replace").rstrip("\r\n")
            if not matched and marker.search(text) is not None:
                matched = True
                found += 1
            if piece.endswith(b"\n"):
                matched = False
    return found


def main() -> None:
    """Answer one question, the last argument, on standard output; both are JSON."""
    asked = json.loads(sys.argv[-1])
    faulthandler.dump_traceback_later(asked["limit_s"], exit=True)  # also in the middle of a search
    told = count_here(Path(asked["folder"]), asked["globs"], asked["pattern"])
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
