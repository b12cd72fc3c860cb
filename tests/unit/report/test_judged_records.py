"""Reports of test results take a run of two sides as one: the candidate, judged against both."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchsuite.model.ab import AB_SCHEMA, AbRecord, AbRules
from benchsuite.model.verdict import Verdict
from benchsuite.report.formats import FORMATS
from benchsuite.report.report_input import Entry, ReportInput
from tests.unit.report.suite_records import HOSTILE, failed, gate, hostile, record
from tests.unit.report.test_junit import unmade

OWN = ("junit", "github", "summary", "gitlab-metrics")
AB = AbRecord(
    AB_SCHEMA,
    "ab",
    "abababab",
    "2026-12-01T10:00:00+00:00",
    20.0,
    AbRules(),
    baseline=record(gate()),
    candidate=record(gate()),
    gates=(failed(against="other side"),),
    verdict=Verdict("fail", 1, ("it changed",), {"fail": 1}),
)


def test_the_verdict_is_that_of_both_sides() -> None:
    """Not that of the candidate's own limits."""
    given = ReportInput((Entry(AB),), Path("/"))
    text = FORMATS["junit"].render(given)
    assert 'name="run" value="abababab"' in text
    assert 'failures="1"' in text
    assert FORMATS["github"].render(given).startswith("::error ")
    assert "did not pass" in FORMATS["summary"].render(given)
    assert "kv_mib{" in FORMATS["gitlab-metrics"].render(given)


def test_a_failed_launch_of_the_baseline_side_is_no_pass() -> None:
    """It is in the verdict alone, so the run itself is a case."""
    import msgspec

    verdict = Verdict("server failed", 4, ("baseline side: it crashed",), {})
    broken = msgspec.structs.replace(AB, gates=(), verdict=verdict)
    text = FORMATS["junit"].render(ReportInput((Entry(broken),), Path("/")))
    assert '<error type="server failed" message="server failed: baseline side: it crashed">' in text


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_leaves_no_control_character(name: str, text: str) -> None:
    """In any of these formats, through the registry, with a run that was not made."""
    given = ReportInput((Entry(hostile(text)),), Path("/"), unmade=(unmade(reason=text),))
    shown = FORMATS[name].render(given)
    shown.encode("utf-8")
    assert len(shown) < 200_000
    assert not [c for c in shown if (c < " " and c != "\n") or "\u202a" <= c <= "\u202e"]
