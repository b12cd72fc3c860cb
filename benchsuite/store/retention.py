"""Which stored runs may go, and removing them.

A run folder is a real folder, by the name that benchsuite gives it, directly in the folder of runs,
with a record or a journal. Nothing else is ever touched; links are not followed.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import shutil
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from benchsuite.errors import ConfigError
from benchsuite.store.history import StoredRun
from benchsuite.store.liveness import JOURNAL_FILE, RECORD_FILE, in_progress
from benchsuite.store.records import run_id_of

_NAME = re.compile(r"(\d{8}T\d{6}Z)-[A-Za-z0-9._-]+-[0-9a-f]{8}")
# of a run, as every version of a baseline file writes it, also between merge conflict markers
_CITED = re.compile(rb'"run"\s*:\s*"([^"\\]*)"')


class RunFolderSize(msgspec.Struct, frozen=True):
    """A run folder as retention sees it."""

    path: Path
    id: str
    started_at: dt.datetime  # UTC, by its name
    size_bytes: int  # of its files, without what links point to
    group: tuple[str, str]  # deployment and scenario; by its name alone where it cannot be read
    kept_because: str = ""  # why it must stay; empty where it may go


class Limits(msgspec.Struct, frozen=True):
    """What is kept; a run that breaks any of them goes. None is no limit."""

    older_than_seconds: float | None = None
    keep: int | None = None  # newest runs of each deployment and scenario
    max_bytes: int | None = None  # of all runs together, the oldest going first


class Doomed(msgspec.Struct, frozen=True):
    """A run that is to go, and why."""

    run: RunFolderSize
    reason: str


def survey(
    runs_folder: Path, runs: Iterable[StoredRun], cited: Collection[str]
) -> list[RunFolderSize]:
    """Every run folder, oldest first.

    Args:
        runs_folder: Where runs live; may not exist.
        runs: What the history knows of them.
        cited: Ids of runs that baselines name; of one side of an `ab` the run's and the side's.

    Raises:
        ConfigError: The folder cannot be read.
    """
    known = {
        # both sides of an `ab` lie in one folder, which is what goes
        run.folder.partition("/")[0]: (run.deployment, run.scenario)
        for run in runs
        if run.scenario
    }
    found = []
    try:
        folders = sorted(runs_folder.iterdir()) if runs_folder.is_dir() else []
    except OSError as error:
        raise ConfigError(f"cannot list it: {error.strerror}", where=str(runs_folder)) from error
    for path in folders:
        started_at = _started_at(path)
        if started_at is None:
            continue
        run_id = run_id_of(path)
        kept = ""
        if in_progress(path):
            kept = "in progress"
        elif any(one == run_id or one.startswith(f"{run_id}-") for one in cited):
            kept = "a baseline cites it"
        scenario = path.name.split("-", 1)[1].rsplit("-", 1)[0]
        group = known.get(path.name, ("", scenario))
        found.append(RunFolderSize(path, run_id, started_at, _size_bytes(path), group, kept))
    return found


def _started_at(path: Path) -> dt.datetime | None:
    """When a run folder's run started; None for anything that is no run folder."""
    match = _NAME.fullmatch(path.name)
    if match is None or path.is_symlink() or not path.is_dir():
        return None
    if not any(_is_file(path / name) for name in (RECORD_FILE, JOURNAL_FILE)):
        return None
    try:
        return dt.datetime.strptime(match[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC)
    except ValueError:
        return None


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _size_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # gone meanwhile
            if not path.is_dir() or path.is_symlink():
                total += path.lstat().st_size
    return total


def cited_runs(baselines_folder: Path) -> frozenset[str]:
    """Ids of the runs that baseline files name, read loosely: a file in need of repair counts too.

    Raises:
        ConfigError: A file cannot be read, so that nobody knows what it cites.
    """
    found: set[str] = set()
    for path in sorted(baselines_folder.rglob("*.json")):
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"cannot read it, so the runs that it cites are not known: {error.strerror}",
                where=str(path),
            ) from error
        found.update(match[1].decode("utf-8", "replace") for match in _CITED.finditer(raw))
    return frozenset(found)


def choose(
    runs: Sequence[RunFolderSize], limits: Limits, now: dt.datetime
) -> tuple[list[Doomed], list[RunFolderSize]]:
    """The runs that are to go, oldest first, and those that would but must stay.

    Args:
        runs: Oldest first.
        limits: What is kept.
        now: With a time zone.
    """
    reasons: dict[Path, str] = {}
    seen: dict[tuple[str, str], int] = {}
    for run in reversed(runs):
        age = (now - run.started_at).total_seconds()
        if limits.older_than_seconds is not None and age > limits.older_than_seconds:
            reasons[run.path] = f"{_days(age)} old"
        seen[run.group] = seen.get(run.group, 0) + 1
        if limits.keep is not None and seen[run.group] > limits.keep:
            newer = seen[run.group] - 1
            words = f"{newer} newer of {' on '.join(part for part in run.group[::-1] if part)}"
            reasons.setdefault(run.path, words)
    if limits.max_bytes is not None:
        left = sum(r.size_bytes for r in runs if r.kept_because or r.path not in reasons)
        for run in runs:
            if left <= limits.max_bytes:
                break
            if not run.kept_because and run.path not in reasons:
                reasons[run.path] = "above the size"
                left -= run.size_bytes
    doomed = [Doomed(r, reasons[r.path]) for r in runs if r.path in reasons and not r.kept_because]
    return doomed, [run for run in runs if run.path in reasons and run.kept_because]


def _days(seconds: float) -> str:
    days = seconds / 86400
    return f"{days:.0f} days" if days >= 2 else f"{seconds / 3600:.0f} hours"


def remove(run: RunFolderSize) -> str | None:
    """Remove a run folder, its record last, so that a removal that was cut can be taken up again.

    Returns:
        Why it is still there, in words; None where it is gone.
    """
    if _started_at(run.path) is None:
        return None if not run.path.exists() else "it is no run folder any more"
    if in_progress(run.path):
        return "it is in progress"
    last = (JOURNAL_FILE, RECORD_FILE)
    try:
        for path in list(run.path.iterdir()):
            if path.name in last:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        for name in last:
            (run.path / name).unlink(missing_ok=True)
        run.path.rmdir()
    except FileNotFoundError:
        return None  # another `clean` was faster
    except OSError as error:
        return error.strerror or str(error)
    return None
