"""`growth` holds a snapshot against an earlier one of the same launch."""

from __future__ import annotations

import msgspec
import pytest

from benchsuite.gate.judge import judge
from benchsuite.model.record import Measurement, RunRecord
from benchsuite.model.scenario import GateSpec, Growth
from benchsuite.model.verdict import GateResult
from benchsuite.store.baselines import Baselines
from tests.unit.gate import gate_example as example
from tests.unit.gate.test_judge import found_in


def run_with(values: dict[str, list[float]]) -> RunRecord:
    """A run of variant B with `anon_mib` at snapshots, a value a trial."""
    trials = max(len(v) for v in values.values())
    run = example.record(("B",), trials=trials)
    added = tuple(
        Measurement("anon_mib", value, "MiB", "B", trial, {"at": at})
        for at, several in values.items()
        for trial, value in enumerate(several, 1)
    )
    kept = tuple(m for m in run.measurements if m.name != "anon_mib")
    return msgspec.structs.replace(run, measurements=kept + added)


def result(run: RunRecord, growth: Growth, at: str = "idle") -> GateResult:
    """The gate's result in variant B."""
    gate = GateSpec(f'anon_mib{{at="{at}"}}', growth=growth, line=3)
    return judge(example.scenario(gate), run, nothing(run), platform="linux")[0]


def nothing(run: RunRecord) -> Baselines:
    """No baselines."""
    from pathlib import Path

    return found_in(Path("nowhere"), run)


@pytest.mark.parametrize(
    ("growth", "outcome"),
    [
        (Growth("used", max=2.0), "pass"),
        (Growth("used", max=0.5), "fail"),
        (Growth("used", min=1.0, max=1.0), "pass"),
        (Growth("used", min=1.5), "fail"),
        (Growth("used", max=-4.0), "fail"),  # asks for a decline
    ],
)
def test_the_difference_keeps_its_limits(growth: Growth, outcome: str) -> None:
    """Either or both, and negative ones too; it blocks, since nothing noisy is compared."""
    found = result(run_with({"used": [40.0], "idle": [41.0]}), growth)
    assert found.outcome == outcome, found.reason
    assert found.level == "block"
    assert found.observed == "1 MiB"


def test_launches_are_compared_each_with_itself() -> None:
    """The median of the differences, not the difference of medians."""
    run = run_with({"used": [40.0, 50.0, 60.0], "idle": [41.0, 51.0, 90.0]})
    assert result(run, Growth("used", max=2.0)).outcome == "pass"


def test_a_missing_snapshot_fails() -> None:
    """What cannot be taken off is no growth of 0."""
    found = result(run_with({"idle": [41.0]}), Growth("used", max=2.0))
    assert found.outcome == "fail"
    assert 'no anon_mib{at="used"}' in found.reason
