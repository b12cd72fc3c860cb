"""The two sides of a diff: runs, baseline folders, or baselines at a git revision.

A side is brought into one form: for each deployment, scenario and file, values by variant and
series with what was the case when they were measured, and where they come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchsuite.errors import ConfigError, UsageError
from benchsuite.model.record import Fingerprint, RunRecord
from benchsuite.store.baselines import (
    SCOPES,
    AcceptedInfo,
    SeriesValues,
    accepted_info,
    file_name,
    is_baseline_path,
    lasting_name,
    match_keys,
    read_baseline_file,
    samples_by_variant,
)
from benchsuite.store.decode import series_lines
from benchsuite.store.git import (
    GIT_PREFIX,
    UNCOMMITTED,
    Change,
    Place,
    last_changes,
    place_of,
)
from benchsuite.store.records import find_run, read_record
from benchsuite.store.trees import FolderTree, Tree, baselines_at

Key = tuple[str, str, str]
"""Deployment, scenario, and file name by its keys, or scope."""


class Part(msgspec.Struct, frozen=True):
    """The values of one baseline file, or of one scope of a run."""

    metrics: dict[str, SeriesValues]  # variant -> values
    infos: dict[str, dict[str, AcceptedInfo]]  # variant -> series -> what was the case
    digests: dict[str, str]  # variant -> digest of what was measured
    match: dict[str, str | int]  # the keys that must be equal
    lines: dict[tuple[str, str], range] = {}  # variant and series -> its lines in the file
    path: str = ""  # of the file, below the baseline folder


class Side(msgspec.Struct, frozen=True):
    """One side of a diff."""

    name: str  # as shown
    parts: dict[Key, Part]
    run: Fingerprint | None = None  # of a run; None for baselines
    place: Place | None = None  # of baselines in a git repository
    revision: str | None = None  # of these; None is the working tree
    notes: tuple[str, ...] = ()  # what could not be compared, in words
    failed: tuple[str, ...] = ()  # launches of a run that failed, in words


class Origins:
    """Where the values of a side come from, in words; asks git once a file."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._blamed: dict[Key, Sequence[Change]] = {}

    def of(self, key: Key, variant: str, series: str) -> str:
        """Since which commit a value is what it is, and why; empty where the side lacks it."""
        part = self._side.parts.get(key)
        if part is None or series not in part.metrics.get(variant, {}):
            return ""
        info = part.infos[variant][series]
        if self._side.run is not None:
            return _run_words(self._side.name, info)
        change = self._change(key, part.lines.get((variant, series)))
        accepted = f"accepted from run {info.run}" if info.run else "accepted"
        if info.reason:
            accepted += f" for: {info.reason}"
        return f"{_change_words(change)}, {accepted}" if change is not None else accepted

    def _change(self, key: Key, lines: range | None) -> Change | None:
        """The newest commit among a value's lines; None where git knows nothing of it."""
        place = self._side.place
        if place is None or lines is None:
            return None
        if key not in self._blamed:
            try:
                self._blamed[key] = last_changes(
                    place, self._side.parts[key].path, self._side.revision
                )
            except UsageError:  # git is slow or broken: the comparison stands without it
                self._blamed[key] = ()
        blamed = self._blamed[key]
        touched = [blamed[n - 1] for n in lines if n <= len(blamed)]
        if not touched:
            return UNCOMMITTED if self._side.revision is None else None
        return min(touched, key=lambda change: change.age)


def _change_words(change: Change) -> str:
    if change == UNCOMMITTED:
        return "not committed yet"
    words = f"since commit {change.commit} of {change.date} ({change.subject})"
    return f"{words} or before: this clone is shallow" if change.at_most else words


def _run_words(name: str, info: AcceptedInfo) -> str:
    build = f" of build {info.seen.build}" if info.seen.build else ""
    commit = f" at commit {info.seen.commit[:9]}" if info.seen.commit else ""
    return f"{name}{build}{commit}, {info.date[:10]}"


def read_sides(
    first: str, second: str | None, *, baselines_folder: Path, runs_folder: Path
) -> tuple[Side, Side]:
    """Both sides of a diff, cut down to what can be compared.

    Args:
        first: A run (path, id or `last`), a baseline folder, or `git:REV`.
        second: Likewise; None is the working tree's baselines.
        baselines_folder: The working tree's baselines, which `git:REV` is about.
        runs_folder: Where runs live.

    Raises:
        UsageError: A side does not exist, or the two have nothing in common to compare.
        ConfigError: A record or baseline cannot be read.
    """
    sides = [
        _read_side(text, baselines_folder, runs_folder)
        for text in (first, second if second is not None else str(baselines_folder))
    ]
    a, b = sides
    if a.run is not None and b.run is not None:
        if a.run.scenario != b.run.scenario:
            raise UsageError(
                f"{a.name} ran {a.run.scenario} and {b.name} ran {b.run.scenario}",
                hint="compare two runs of one scenario",
            )
        # two runs may be of two deployments or machines: that is what is being compared
        return _by_scope(a), _by_scope(b)
    if a.run is not None:
        return a, _only(b, a)
    if b.run is not None:
        return _only(a, b), b
    return a, b


def baseline_changes(base: str, baselines_folder: Path) -> tuple[Side, Side]:
    """The baselines at a git revision and those of the working tree; either may hold none.

    Args:
        base: `git:REV`, or the revision alone.
        baselines_folder: The working tree's.

    Raises:
        UsageError: The revision is not here; the hint names the command that brings it.
        ConfigError: A baseline cannot be read.
    """
    revision = base.removeprefix(GIT_PREFIX)
    place = place_of(baselines_folder)
    tree = baselines_at(revision, baselines_folder)
    return (
        _baseline_side(tree, place, revision, may_be_empty=True),
        _baseline_side(FolderTree(baselines_folder), place, None, may_be_empty=True),
    )


def _read_side(text: str, baselines_folder: Path, runs_folder: Path) -> Side:
    if text.startswith(GIT_PREFIX):
        revision = text.removeprefix(GIT_PREFIX)
        tree = baselines_at(revision, baselines_folder)
        return _baseline_side(tree, place_of(baselines_folder), revision)
    path = Path(text)
    if path.is_dir() and not any((path / n).exists() for n in ("record.json", "samples.jsonl")):
        return _baseline_side(FolderTree(path), _place(path), None)
    if path == baselines_folder:  # named by default, and not there
        raise UsageError("there are no baselines yet", where=text, hint=_ACCEPT_HINT)
    return _run_side(read_record(find_run(text, runs_folder)))


def _run_side(record: RunRecord) -> Side:
    own = record.fingerprint
    info = accepted_info(record, "")
    parts: dict[Key, Part] = {}
    for scope in SCOPES:
        metrics = samples_by_variant(record.measurements, scope)
        if metrics:
            name = file_name(scope, own) or f"{scope} of unknown key"
            infos = {variant: dict.fromkeys(rows, info) for variant, rows in metrics.items()}
            keys = match_keys(scope, own.deployment, own.scenario, own)
            match = {key: "unknown" if v is None else v for key, v in keys.items()}
            parts[own.deployment, own.scenario, name] = Part(metrics, infos, record.digests, match)
    failed = tuple(
        f"run {record.id}: variant {one.variant}, trial {one.trial} failed: {one.failure.message}"
        for one in record.launches
        if one.failure is not None and one.variant not in record.excused
    )
    return Side(f"run {record.id}", parts, own, failed=failed)


_ACCEPT_HINT = "accept a run: benchsuite accept last --reason WHY"


def _place(folder: Path) -> Place | None:
    try:
        return place_of(folder)
    except UsageError:
        return None  # in no repository, or no git: nothing is known of commits


def _baseline_side(
    tree: Tree, place: Place | None, revision: str | None, *, may_be_empty: bool = False
) -> Side:
    parts: dict[Key, Part] = {}
    moment = tree.snapshot(is_baseline_path)
    for path in moment.paths():
        pieces = path.split("/")
        if len(pieces) != 3 or not is_baseline_path(path):
            continue
        file = read_baseline_file(moment, f"{pieces[0]}/{pieces[1]}", pieces[2])
        if file is not None:
            infos = {
                variant: {series: file.info_for(variant, series) for series in rows}
                for variant, rows in file.metrics.items()
            }
            lines = series_lines(moment.read(path) or b"") if place is not None else {}
            key = (pieces[0], pieces[1], lasting_name(file, pieces[2]))
            if key not in parts or key[2] == pieces[2]:  # a former name does not hide the present
                parts[key] = Part(
                    file.metrics, infos, file.scenario_digest, file.match, lines, path
                )
    if not parts and not may_be_empty:
        raise UsageError("holds no baselines", where=tree.name, hint=_ACCEPT_HINT)
    return Side(tree.name, parts, place=place, revision=revision)


def scope_word(key: Key) -> str:
    """The scope of a part as its file's name begins: `config`, `text`, `machine`."""
    return key[2].split(".", 1)[0].split(" ", 1)[0]


def _by_scope(side: Side) -> Side:
    """A run's parts under the same keys for every run of its scenario."""
    assert side.run is not None
    parts = {("", side.run.scenario, scope_word(key)): part for key, part in side.parts.items()}
    return msgspec.structs.replace(side, parts=parts)


def _only(baselines: Side, run: Side) -> Side:
    """The baselines that a run may be compared with; scopes under other keys are left out."""
    parts = {key: part for key, part in baselines.parts.items() if key in run.parts}
    if not parts:
        assert run.run is not None
        raise ConfigError(
            f"holds no baseline for {run.run.deployment}/{run.run.scenario}",
            where=baselines.name,
            hint=_ACCEPT_HINT,
        )
    notes = []
    for key, part in run.parts.items():
        if key in parts:
            continue
        others = [
            other
            for name, other in baselines.parts.items()
            if name[:2] == key[:2] and scope_word(name) == scope_word(key)
        ]
        words = [", ".join(key_words(other.match, part.match)) for other in others]
        scope = "machine" if scope_word(key) == "machine" else "numerics"
        notes.append(
            f"no baseline of {scope} scope under this run's keys, so "
            f"{sum(len(rows) for rows in part.metrics.values())} values are not compared"
            + (f"; there is one of other keys: {min(words, key=len)}" if words else "")
        )
    return msgspec.structs.replace(baselines, parts=parts, notes=tuple(notes))


def key_words(before: dict[str, str | int], after: dict[str, str | int]) -> list[str]:
    """The keys that differ, in words: `machine 'a' -> 'b'`."""
    names = [name for name in dict.fromkeys([*before, *after]) if name != "scenario"]
    return [
        f"{name} {before.get(name, 'unknown')!r} -> {after.get(name, 'unknown')!r}"
        for name in names
        if before.get(name) != after.get(name)
    ]
