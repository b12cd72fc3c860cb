"""Which runs of a folder or archive a person means to accept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchsuite.errors import UsageError
from benchsuite.model.record import RunRecord
from benchsuite.store.records import read_record


def chosen_runs(paths: Sequence[Path]) -> tuple[list[tuple[Path, RunRecord]], list[str]]:
    """The runs to accept with their paths, and what is left alone, in words.

    A single run is always meant. Of several only those that did not pass, since a pipeline keeps
    all; of two of one scenario and deployment, as after a retry, the newer one.

    Raises:
        UsageError: All passed.
        ConfigError: A record cannot be read.
    """
    runs = [(path, read_record(path)) for path in paths]
    if len(runs) == 1:
        return runs, []
    newest: dict[tuple[str, str], tuple[Path, RunRecord]] = {}
    left: list[str] = []
    for path, record in sorted(runs, key=lambda run: run[1].started_at):
        key = (record.fingerprint.deployment, record.scenario)
        if key in newest:
            left.append(f"left {_words(newest[key][1])}: run {record.id} is newer")
        newest[key] = (path, record)
    chosen = []
    for path, record in newest.values():
        if record.verdict is not None and record.verdict.outcome == "pass":
            left.append(f"left {_words(record)}: it passed")
        else:
            chosen.append((path, record))
    if not chosen:
        raise UsageError(
            f"all {len(newest)} runs here passed, so none needs accepting",
            hint="to accept one all the same, name its folder",
        )
    return chosen, left


def _words(record: RunRecord) -> str:
    return f"run {record.id}, {record.scenario} on {record.fingerprint.deployment}"
