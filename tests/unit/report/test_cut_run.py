"""A run that was killed has no verdict, and no format makes it look like one that passed."""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as ET

import pytest

from benchsuite.model.record import RunRecord
from benchsuite.report.formats import FORMATS
from tests.unit.report.reports import given, healthy, replace

NOTE = "the run was killed during turn 2 of session A before its record was written"
PASSES = re.compile(r"\bPASS\b|\u2705|[1-9]\d* (of \d+ runs (pass|hold)|gates? passed)")


def cut(**fields: object) -> RunRecord:
    """A run whose journal ends in the middle."""
    plain = replace(healthy(), verdict=None, gates=(), interrupted=True, warnings=(NOTE,))
    return replace(plain, **fields)


def render(name: str, record: RunRecord) -> str:
    """It in a format."""
    return FORMATS[name].render(given(record))


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"csv", "json", "openmetrics"}))
def test_no_format_says_that_it_passed(name: str) -> None:
    """Not in words, not in a sign."""
    text = re.sub(r"<(script|style)\b.*?</\1>", "", render(name, cut()), flags=re.DOTALL)
    text = re.sub(r"held out[^|\n]*\| pass", "", text)  # what a variant's own server did
    assert PASSES.search(text) is None


@pytest.mark.parametrize("name", ["markdown", "junit", "github", "summary", "html"])
def test_what_people_read_says_why(name: str) -> None:
    """With where its journal ends."""
    assert NOTE in render(name, cut())


def test_junit_has_an_error() -> None:
    """An empty suite, or one of servers that held out, would be green."""
    for record in (cut(), cut(launches=())):
        root = ET.fromstring(render("junit", record))
        assert int(root.get("errors", "0")) >= 1
        assert NOTE in {one.get("message", "").split(": ", 1)[-1] for one in root.iter("error")}


def test_a_variant_whose_trials_are_not_all_over_did_not_hold_out() -> None:
    """Of two trials one was made."""
    record = cut(trials=healthy().trials + 1)
    root = ET.fromstring(render("junit", record))
    held = [case for case in root.iter("testcase") if "held out" in case.get("name", "")]
    assert held
    assert all(case.find("error") is not None for case in held)


def test_openmetrics_shows_no_verdict_but_interrupted() -> None:
    """Without a sample the pass of the run before would seem to go on."""
    lines = render("openmetrics", cut()).splitlines()
    states = [line for line in lines if line.startswith("benchsuite_verdict{")]
    shown = {
        line.split('benchsuite_verdict="')[1].split('"')[0]: line.split("} ")[1].split(" ")[0]
        for line in states
    }
    assert shown["interrupted"] == "1"
    assert set(shown.values()) == {"0", "1"}
    assert shown["pass"] == "0"
    assert not any(line.startswith("benchsuite_gates{") for line in lines)


def test_csv_has_what_was_measured_and_no_more() -> None:
    """It tells of values, not of gates."""
    rows = csv.DictReader(io.StringIO(render("csv", cut())))
    states = {"measured", "missing", "inconclusive", "not applicable"}
    assert {row["state"] for row in rows} <= states
