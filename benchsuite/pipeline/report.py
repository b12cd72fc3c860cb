"""From stored runs to one report: which runs are meant, what changed beside them, the text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchsuite.errors import UsageError
from benchsuite.model.ab import AbRecord
from benchsuite.model.record import RunRecord
from benchsuite.report.diff import diff
from benchsuite.report.formats import (
    Entry,
    Format,
    ReportInput,
    format_named,
    format_of_file,
)
from benchsuite.report.report_input import DEFAULT_KEY
from benchsuite.report.sources import baseline_changes
from benchsuite.scenario.workspace import Workspace, load_workspace
from benchsuite.store.ab import read_any
from benchsuite.store.baselines import Baselines, load_baselines
from benchsuite.store.files import write_atomic
from benchsuite.store.git import place_of
from benchsuite.store.records import find_run


def report_text(
    runs: Sequence[str],
    *,
    format_name: str | None = None,
    file: str | None = None,
    base: str | None = None,
    key: str = DEFAULT_KEY,
) -> tuple[str, tuple[str, ...]]:
    """A report of stored runs.

    Args:
        runs: Paths, ids or `last`; none is the last run.
        format_name: Of the format; None takes it from the file's name.
        file: Where it is to go, for its name only.
        base: A git revision; what it has of other baselines than the working tree is reported.
        key: Of the pull-request comment.

    Returns:
        The text, and the warnings of the runs that were killed or interrupted.

    Raises:
        UsageError: There is no such run, format or revision.
        ConfigError: A record or baseline cannot be read.
    """
    chosen = _format(format_name, file)
    workspace = load_workspace()
    given = read_report_input(runs, workspace, base=base, key=key)
    told = [
        f"run {entry.record.id}: {words}"
        for entry in given.entries
        if entry.record.interrupted
        for words in entry.record.warnings or ("the run was interrupted",)
    ]
    return chosen.render(given), tuple(told)


def read_report_input(
    runs: Sequence[str],
    workspace: Workspace,
    *,
    base: str | None = None,
    key: str = DEFAULT_KEY,
) -> ReportInput:
    """The runs that a user means, each once, and what became of the baselines since `base`.

    Raises:
        UsageError: There is no such run or revision.
        ConfigError: A record or baseline cannot be read.
    """
    paths = [find_run(text, workspace.runs, with_ab=True) for text in runs or ("last",)]
    entries = []
    for path in {path.resolve(): path for path in paths}.values():
        inside = path if path.is_dir() else path.parent if path.suffix == ".json" else None
        record = read_any(path)
        entries.append(Entry(record, inside, _baselines(record, workspace)))
    changes = diff(*baseline_changes(base, workspace.baselines)) if base is not None else None
    return ReportInput(tuple(entries), _root(workspace), key, changes)


def _baselines(record: RunRecord | AbRecord, workspace: Workspace) -> Baselines | None:
    """What is stored of the run's deployment and scenario; None for two sides."""
    if isinstance(record, AbRecord):
        return None
    keys = record.fingerprint
    return load_baselines(workspace.baseline_folders, keys.deployment, keys.scenario, keys)


def write_report(text: str, file: str) -> None:
    """Write a report whole or not at all, with the line ends that it has.

    Raises:
        MachineError: The disk refuses.
    """
    write_atomic(Path(file), text.encode())


def _format(name: str | None, file: str | None) -> Format:
    if name is not None:
        return format_named(name)
    if file is not None:
        return format_of_file(Path(file).name)
    raise UsageError(
        "no format is named",
        hint="for example: benchsuite report last --to run.csv, or --format markdown",
    )


def _root(workspace: Workspace) -> Path:
    try:
        return place_of(workspace.cwd).top
    except UsageError:  # in no repository, or no git
        return workspace.config.root
