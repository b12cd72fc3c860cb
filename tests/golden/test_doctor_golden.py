"""A saved diagnosis and its report; rewritten by `pytest tests/golden --rewrite-golden`."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from benchsuite.model.machine import Diagnosis
from benchsuite.pipeline.doctor import exit_code
from benchsuite.report.doctor import render_diagnosis, render_diagnosis_json

HERE = Path(__file__).parent / "doctor"
CASES = {"fit": 0, "unfit": 3, "failed": 5, "no-server": 3}


def diagnosis(case: str) -> Diagnosis:
    """A saved one."""
    return msgspec.json.decode((HERE / f"{case}.json").read_bytes(), type=Diagnosis)


@pytest.mark.parametrize("case", CASES)
def test_a_report_is_that_of_the_case(case: str, rewrite_golden: bool) -> None:
    """Every line of 80 columns at most; a `.got` file shows what differs."""
    got = render_diagnosis(diagnosis(case))
    assert max(map(len, got.splitlines())) <= 80
    golden, beside = HERE / f"{case}.txt", HERE / f"{case}.txt.got"
    if rewrite_golden:
        golden.write_text(got)
    if golden.exists() and golden.read_text() == got:
        beside.unlink(missing_ok=True)
        return
    beside.write_text(got)
    pytest.fail(f"differs from the golden file; see {beside}")


@pytest.mark.parametrize(("case", "code"), CASES.items())
def test_a_case_keeps_its_exit_code(case: str, code: int) -> None:
    """Also in JSON, which holds everything that the report is made of."""
    found = diagnosis(case)
    assert exit_code(found) == code
    body = json.loads(render_diagnosis_json(found, code))
    assert body["exit_code"] == code
    assert body["fit"] == {0: True, 3: False, 5: None}[code]
    assert len(body["findings"]) == len(found.findings)
