"""Two sides of a small scenario, as healthy servers would give them, to be bent by tests."""

from __future__ import annotations

import msgspec

from benchsuite.gate.other_side import Judged, judge_sides
from benchsuite.model.ab import AB_KIND, AB_SCHEMA, SIDES, AbRecord, AbRules, Turn
from benchsuite.model.record import RunRecord
from benchsuite.model.scenario import GateSpec
from benchsuite.model.verdict import GateResult
from tests.unit.gate import gate_example

replace = msgspec.structs.replace


def ab(
    pairs: int = 1,
    baseline: RunRecord | None = None,
    candidate: RunRecord | None = None,
    rules: AbRules | None = None,
    *,
    interrupted: bool = False,
) -> AbRecord:
    """A record of variant B, not yet judged."""
    whole = gate_example.record(("B",), pairs)
    turns = [
        Turn(pair, side, "B")
        for pair in range(1, pairs + 1)
        for side in (SIDES if pair % 2 else SIDES[::-1])
    ]
    return AbRecord(
        schema_version=AB_SCHEMA,
        kind=AB_KIND,
        id="5eed0002",
        started_at="2026-11-03T10:00:00+00:00",
        wall_seconds=8.0,
        rules=rules or AbRules(),
        turns=tuple(turns),
        interrupted=interrupted,
        baseline=replace(baseline or whole, interrupted=interrupted),
        candidate=replace(candidate or whole, interrupted=interrupted),
    )


def judged(record: AbRecord, *gates: GateSpec) -> Judged:
    """The record judged by the example's scenario, with other gates if any are given."""
    return judge_sides(gate_example.scenario(*gates), record, platform="linux")


def gate_of(found: Judged, metric: str) -> GateResult:
    """The comparison of a metric, by the beginning of its selector."""
    (gate,) = (
        g for g in found.record.gates if g.metric.startswith(metric) and g.against == "other side"
    )
    return gate


def slower(run: RunRecord, factor: float, name: str = "ttft_ms") -> RunRecord:
    """The run with a latency multiplied."""
    measurements = tuple(
        replace(m, value=float(m.value) * factor) if m.name == name else m for m in run.measurements
    )
    return replace(run, measurements=measurements)
