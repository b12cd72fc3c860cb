"""A run's record with nothing in it."""

from __future__ import annotations

from benchsuite.model.record import Fingerprint, Info, RunRecord

RECORD = RunRecord(
    schema_version=1,
    id="5eed0001",
    started_at="2026-11-03T10:00:00+00:00",
    wall_seconds=1.0,
    scenario="scenarioB",
    scenario_path="scenarios/scenarioB.yaml",
    title="",
    digests={"B": "d"},
    fingerprint=Fingerprint("tiny", "scenarioB", 0),
    info=Info(),
    trials=1,
)
