"""The comment of a suite: what advises does not count, what was not made is no pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchsuite.model.record import RunRecord
from benchsuite.model.suite import SuiteRun
from benchsuite.report.comment import render_comment
from benchsuite.report.report_input import Entry, ReportInput
from tests.unit.report.suite_records import crashed, failed, gate, record
from tests.unit.report.test_junit import unmade


def headline(*runs: RunRecord, others: tuple[SuiteRun, ...] = ()) -> str:
    """The line that says it."""
    given = ReportInput(tuple(Entry(one) for one in runs), Path("/"), unmade=others)
    return render_comment(given).splitlines()[1]


GOOD, BAD = record(gate()), record(failed())


@pytest.mark.parametrize(
    ("runs", "others", "said"),
    [
        ((GOOD, GOOD), (), "PASS: 2 of 2 runs pass"),
        ((GOOD, BAD), (), "FAIL: 1 of 2 runs pass"),
        ((GOOD, record(failed(), policy="advise")), (), "PASS: 1 of 2 runs pass"),
        ((GOOD, GOOD), (unmade(),), "NOT JUDGED: 2 of 3 runs pass"),
        ((GOOD, GOOD), (unmade(policy="advise"),), "PASS: 2 of 3 runs pass"),
        ((GOOD, crashed()), (unmade(),), "SERVER FAILED: 1 of 3 runs pass"),
        ((), (unmade(),), "NOT JUDGED: 0 of 1 runs pass"),
        ((BAD, record(failed(), policy="advise")), (), "FAIL: 0 of 2 runs pass"),
        ((record(failed(), policy="advise"),) * 2, (), "FAIL: 0 of 2 runs pass"),
        (
            (record(gate(), policy="advise"),) * 2,
            (),
            "INCONCLUSIVE: 2 of 2 runs pass, but all only advise",
        ),
    ],
)
def test_the_headline_is_what_the_suite_decides(
    runs: tuple[RunRecord, ...], others: tuple[SuiteRun, ...], said: str
) -> None:
    """As the exit code: advice moves nothing, and a run that is missing is never a pass."""
    assert headline(*runs, others=others).endswith(f"benchsuite: {said}")


def test_a_run_that_was_not_made_is_told_with_its_reason() -> None:
    """Where and why."""
    given = ReportInput((Entry(GOOD),), Path("/"), unmade=(unmade(),))
    text = render_comment(given)
    assert "- scenarioA on tiny: not run: the budget was spent" in text
