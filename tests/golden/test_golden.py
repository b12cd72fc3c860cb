"""Saved runs and what is made of them; rewritten by `pytest tests/golden --rewrite-golden`.

Each folder holds `record.json` (not judged), `scenario.json`, `case.json` (how it is judged) and
maybe `baselines/`, and what must come out: `report.txt` and `gates.json`.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import msgspec
import pytest

from benchsuite.gate.judge import judge
from benchsuite.gate.known_issues import settle
from benchsuite.gate.verdict import verdict
from benchsuite.model.record import RunRecord
from benchsuite.model.scenario import Scenario
from benchsuite.report.terminal import render_run
from benchsuite.store.baselines import load_baselines
from benchsuite.store.records import read_record

HERE = Path(__file__).parent
CASES = sorted(path.parent.name for path in HERE.glob("*/record.json"))
EXPECTED_CODES = {
    "advice": 0,
    "attached": 0,
    "changed-kv": 1,
    "crash-in-turn-2": 4,
    "known-issue": 0,
    "known-issue-expired": 1,
    "known-issue-fixed": 1,
    "known-issue-other": 4,
    "new-metric": 1,
    "no-baseline": 3,
    "pass": 0,
    "unreadable-log": 1,
}


TODAY = dt.date(2026, 12, 1)


class Case(msgspec.Struct):
    """How a case is judged."""

    allow_new: bool
    require_all: bool
    refuse_expired: bool = False


def judged(case: str) -> tuple[RunRecord, str]:
    """The judged record of a case, and its report."""
    folder = HERE / case
    options = msgspec.json.decode((folder / "case.json").read_bytes(), type=Case)
    scenario = msgspec.json.decode((folder / "scenario.json").read_bytes(), type=Scenario)
    record = read_record(folder / "record.json")
    baselines = load_baselines(
        [folder / "baselines"], record.fingerprint.deployment, record.scenario, record.fingerprint
    )
    gates = judge(scenario, record, baselines, allow_new=options.allow_new, platform="linux")
    settled = settle(scenario, record, gates, today=TODAY)
    record = msgspec.structs.replace(
        record, gates=settled.gates, known_issues=settled.issues, baseline="baselines"
    )
    found = verdict(
        record,
        settled.gates,
        require_all=options.require_all,
        refuse_expired=options.refuse_expired,
    )
    record = msgspec.structs.replace(record, verdict=found)
    return record, render_run(record, baselines, stored=".benchsuite/runs/example")


@pytest.mark.parametrize("case", CASES)
def test_outputs_are_those_of_the_case(case: str, rewrite_golden: bool) -> None:
    """Gates, verdict and report come out as they were saved; a `.got` file shows what did not."""
    record, report = judged(case)
    found: dict[str, object] = {"verdict": record.verdict, "gates": record.gates}
    if record.known_issues:
        found["known_issues"] = record.known_issues
    gates = msgspec.json.encode(found)
    outputs = {
        "report.txt": report.encode(),
        "gates.json": msgspec.json.format(gates, indent=1) + b"\n",
    }
    wrong = []
    for name, got in outputs.items():
        golden, beside = HERE / case / name, HERE / case / f"{name}.got"
        if rewrite_golden:
            golden.write_bytes(got)
        if golden.exists() and golden.read_bytes() == got:
            beside.unlink(missing_ok=True)
        else:
            beside.write_bytes(got)
            wrong.append(str(beside))
    assert not wrong, f"differs from the golden file; see {', '.join(wrong)}"


@pytest.mark.parametrize("case", CASES)
def test_each_case_ends_with_its_exit_code(case: str) -> None:
    """The exit code does not change with a rewrite."""
    found = judged(case)[0].verdict
    assert found is not None
    assert found.exit_code == EXPECTED_CODES[case]


@pytest.mark.parametrize("case", CASES)
def test_reports_are_80_columns_of_harmless_characters(case: str) -> None:
    """A pipe gets no line over 80 columns and no control characters, whatever logs hold."""
    report = judged(case)[1]
    assert max(len(line) for line in report.splitlines()) <= 80
    assert all(c == "\n" or c.isprintable() for c in report)
