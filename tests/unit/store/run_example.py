"""Stored runs for tests of history, trend and retention."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import msgspec

from benchsuite.model.record import (
    Failure,
    Fingerprint,
    Info,
    Launch,
    Measurement,
    RunRecord,
    ServerFacts,
)
from benchsuite.model.verdict import Verdict
from benchsuite.store.records import RunFolder

FIRST_DAY = dt.datetime(2026, 10, 1, 12, tzinfo=dt.UTC)


def record(
    values: dict[str, list[Any]],
    *,
    day: int = 0,
    failures: dict[int, str] | None = None,
    outcome: str = "pass",
    **more: Any,
) -> RunRecord:
    """A record of variant B.

    Args:
        values: Metric without labels -> one value a trial.
        day: After the first.
        failures: Trial -> kind of failure.
        outcome: Of its verdict.
        more: Fields to replace.
    """
    trials = max((len(v) for v in values.values()), default=1)
    launches = tuple(
        Launch(
            "B",
            trial,
            "",
            ServerFacts("binary"),
            failure=None if trial not in (failures or {}) else Failure((failures or {})[trial], ""),  # type: ignore[arg-type]
        )
        for trial in range(1, trials + 1)
    )
    made = RunRecord(
        schema_version=1,
        id="",
        started_at=(FIRST_DAY + dt.timedelta(days=day)).isoformat(),
        wall_seconds=1.0,
        scenario="s",
        scenario_path="s.yaml",
        title="",
        digests={"B": "digest"},
        fingerprint=Fingerprint("tiny", "s", 0, "cpu", "desk"),
        info=Info(build=f"b{100 + day}", commit=f"{day:040x}"),
        trials=trials,
        launches=launches,
        measurements=tuple(
            Measurement(name, value, "", "B", trial)
            for name, own in values.items()
            for trial, value in enumerate(own, start=1)
        ),
        verdict=Verdict(outcome, 0, (), {}),  # type: ignore[arg-type]
    )
    return msgspec.structs.replace(made, **more)


def store(runs: Path, made: RunRecord, *, finished: bool = True) -> Path:
    """Put a record into a run folder of its own, or only its journal."""
    when = dt.datetime.fromisoformat(made.started_at)
    folder = RunFolder.create(runs, made.scenario, when)
    own = msgspec.structs.replace(made, id=folder.id)
    head = msgspec.structs.replace(own, launches=(), measurements=(), verdict=None)
    with folder.open_journal() as journal:
        journal.write("begin", record=head)
        for one in own.measurements:
            journal.write("measurement", measurement=one)
        for launch in own.launches:
            journal.write("launch", launch=launch)
    if finished:
        folder.write_record(own)
    return folder.path
