"""The two sides of a diff: runs, baseline folders, or baselines at a git revision.

A side is brought into one form: for each deployment, scenario and file, values by variant and
series with what was the case when they were measured.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from benchsuite.errors import ConfigError, UsageError
from benchsuite.model.record import Fingerprint, Info
from benchsuite.store.baselines import (
    SCOPES,
    SeriesValues,
    file_name,
    read_baseline_file,
    samples_by_variant,
)
from benchsuite.store.git import GIT_PREFIX
from benchsuite.store.records import find_run, read_record
from benchsuite.store.trees import FolderTree, Tree, baselines_at


class Part(msgspec.Struct, frozen=True):
    """The values of one baseline file, or of one scope of a run."""

    metrics: dict[str, SeriesValues]  # variant -> values
    infos: dict[str, Info]  # variant -> what was the case
    digests: dict[str, str]  # variant -> digest of what was measured


class Side(msgspec.Struct, frozen=True):
    """One side of a diff."""

    name: str  # as shown
    parts: dict[tuple[str, str, str], Part]  # deployment, scenario, file name or scope
    run: Fingerprint | None = None  # of a run; None for baselines


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


def _read_side(text: str, baselines_folder: Path, runs_folder: Path) -> Side:
    if text.startswith(GIT_PREFIX):
        tree = baselines_at(text.removeprefix(GIT_PREFIX), baselines_folder)
        return _baseline_side(tree)
    path = Path(text)
    if path.is_dir() and not any((path / n).exists() for n in ("record.json", "samples.jsonl")):
        return _baseline_side(FolderTree(path))
    if path == baselines_folder:  # named by default, and not there
        raise UsageError("there are no baselines yet", where=text, hint=_ACCEPT_HINT)
    record = read_record(find_run(text, runs_folder))
    own = record.fingerprint
    parts: dict[tuple[str, str, str], Part] = {}
    for scope in SCOPES:
        metrics = samples_by_variant(record.measurements, scope)
        if metrics:
            name = file_name(scope, own) or f"{scope} of unknown key"
            infos = dict.fromkeys(metrics, record.info)
            parts[own.deployment, own.scenario, name] = Part(metrics, infos, record.digests)
    return Side(f"run {record.id}", parts, own)


_ACCEPT_HINT = "accept a run: benchsuite accept last --reason WHY"


def _baseline_side(tree: Tree) -> Side:
    parts: dict[tuple[str, str, str], Part] = {}
    for path in tree.paths():
        pieces = path.split("/")
        if len(pieces) != 3 or not pieces[2].endswith(".json"):
            continue
        file = read_baseline_file(tree, f"{pieces[0]}/{pieces[1]}", pieces[2])
        if file is not None:
            infos = {
                variant: file.info_for(variant, next(iter(rows), "")).seen
                for variant, rows in file.metrics.items()
            }
            key = (pieces[0], pieces[1], pieces[2])
            parts[key] = Part(file.metrics, infos, file.scenario_digest)
    if not parts:
        raise UsageError("holds no baselines", where=tree.name, hint=_ACCEPT_HINT)
    return Side(tree.name, parts)


def _by_scope(side: Side) -> Side:
    """A run's parts under the same keys for every run of its scenario."""
    assert side.run is not None
    parts = {
        ("", side.run.scenario, name.split(".", 1)[0].split(" ", 1)[0]): part
        for (_, _, name), part in side.parts.items()
    }
    return Side(side.name, parts, side.run)


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
    return Side(baselines.name, parts)
