"""JUnit XML is valid for its readers, tells outcomes apart, and names every case once."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import junitparser
import msgspec
import pytest
import xmlschema

from benchsuite.gate.verdict import verdict
from benchsuite.model.record import NotApplicable, RunRecord
from benchsuite.model.suite import SuiteRun
from benchsuite.model.verdict import IssueResult
from benchsuite.report.junit import render_junit
from tests.unit.report.suite_records import HOSTILE, crashed, failed, gate, hostile, record

SCHEMA = xmlschema.XMLSchema10(Path(__file__).parents[2] / "fixtures" / "schemas" / "junit.xsd")


def unmade(**changes: Any) -> SuiteRun:
    """A run that a suite did not come to."""
    run = SuiteRun(
        scenario="scenarioA",
        deployment="tiny",
        variants=(),
        sets=(),
        trials=1,
        seed=0,
        policy="block",
        place="ci/suites/pr.yaml:4",
        exit_code=3,
        outcome="not run",
        reason="the budget was spent",
    )
    return msgspec.structs.replace(run, **changes)


def cases(*runs: RunRecord, others: tuple[SuiteRun, ...] = ()) -> dict[str, str]:
    """Name -> the elements that tell its outcome, of a document that is valid."""
    text = render_junit(runs, others)
    SCHEMA.validate(text)
    found: dict[str, str] = {}
    for case in ET.fromstring(text).iter("testcase"):
        assert case.get("name") not in found
        told = [child for child in case if child.tag not in ("system-out", "system-err")]
        found[str(case.get("name"))] = " ".join(f"{c.tag}:{c.get('type')}" for c in told)
    return found


GATE = 'B: cached_tokens{turn="2"} equals baseline (on tiny)'


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (gate(), ""),
        (failed(), "failure:changed"),
        (failed(outcome="xpass", state=None), "failure:xpass"),
        (failed(outcome="inconclusive", state="inconclusive"), "error:inconclusive"),
        (failed(outcome="error", state=None), "error:unknown"),
        (failed(outcome="xfail", state=None), "skipped:known issue"),
        (failed(outcome="not applicable", state=None), "skipped:not applicable"),
        (failed(level="advise"), "skipped:advice, changed"),
        (failed(level="advise", quarantine="bug-1, until"), "skipped:quarantined, changed"),
        (gate(quarantine="bug-1, until"), ""),
    ],
)
def test_elements_are_used_for_what_they_mean(made: Any, told: str) -> None:
    """failure: not as it must be; error: not decided; skipped: does not count, and says why."""
    assert cases(record(made))[GATE] == told


def test_what_is_required_and_not_applicable_fails() -> None:
    """Under --require-all it is a failure, as the exit code says."""
    absent = failed(outcome="not applicable", state=None)
    assert cases(record(absent, require_all=True))[GATE] == "failure:not applicable"


def test_a_server_that_dies_is_an_error_of_its_variant() -> None:
    """The crash is a case of its own, beside the gates that it makes unknown."""
    found = cases(crashed("GGML_ASSERT(x) failed"))
    assert found["B: the server held out (on tiny)"] == "error:crash"
    assert found[GATE] == "error:unknown"


def test_a_scenario_that_only_advises_fails_nothing_but_a_crash_does() -> None:
    """A policy to advise is about gates."""
    assert "failure" not in " ".join(cases(record(failed(), policy="advise")).values())
    advising = msgspec.structs.replace(crashed(), policy="advise")
    assert cases(advising)["B: the server held out (on tiny)"] == "error:crash"


@pytest.mark.parametrize(
    ("policy", "told"), [("block", "failure:{}"), ("advise", "skipped:advice, {}")]
)
def test_known_issues_that_fail_a_run_are_cases(policy: Any, told: str) -> None:
    """One that no longer shows, and one that has expired, beside any other failure."""
    gone = IssueResult("bug-1", "B", "crash", "xpass", "delete it", "s.yaml:9")
    old = IssueResult("bug-2", "B", "fail", "xfail", "as expected", "s.yaml:12", "it expired", True)
    made = record(failed(), known_issues=(gone, old), policy=policy)
    found = verdict(made, made.gates, refuse_expired=True)
    names = cases(msgspec.structs.replace(made, verdict=found))
    assert names["B: known issue bug-1 (on tiny)"] == told.format("xpass")
    assert names["B: known issue bug-2 (on tiny)"] == told.format("expired")
    assert "B: known issue bug-2 (on tiny)" not in cases(made)  # outside `ci` it only warns


def test_what_is_required_does_not_count_where_a_scenario_advises() -> None:
    """Neither its gates nor its variant, as the exit code of the suite says."""
    absent = failed(outcome="not applicable", state=None)
    made = record(absent, not_applicable=(NotApplicable("B", "no"),), require_all=True, launches=())
    assert set(cases(made).values()) == {"failure:not applicable"}
    advising = msgspec.structs.replace(made, policy="advise")
    assert set(cases(advising).values()) == {"skipped:not applicable"}


def test_runs_that_were_not_made_are_errors_and_skipped_where_they_advise() -> None:
    """What was left out is never a pass."""
    assert cases(others=(unmade(),)) == {"the run on tiny": "error:not run"}
    assert cases(others=(unmade(policy="advise"),)) == {"the run on tiny": "skipped:not run"}


def test_a_verdict_that_no_case_shows_is_a_case() -> None:
    """An interrupted run, or one without any gate, is not green."""
    assert cases(record(gate(), interrupted=True))["the run on tiny"] == "error:interrupted"
    assert cases(record(launches=(), digests={}))["the run on tiny"] == "error:inconclusive"
    unjudged = msgspec.structs.replace(record(gate()), verdict=None)
    assert cases(unjudged)["the run on tiny"] == "error:not judged"


def test_names_are_unique_over_gates_and_runs() -> None:
    """Two gates of one selector and rule, and two runs of one scenario, are told apart."""
    found = cases(record(gate(), gate(line=13)), record(gate(), gate(line=13)))
    assert f"{GATE} #2" in found
    assert f"{GATE} (run 2)" in found
    assert len(found) == 6


def test_variants_that_are_not_applicable_show() -> None:
    """One is skipped with its reason; one that the run did not come to is an error."""
    made = record(
        gate(), not_applicable=(NotApplicable("O", "no overlay"),), digests={"B": "", "U": ""}
    )
    found = cases(made)
    assert found["O: the server held out (on tiny)"] == "skipped:not applicable"
    assert found["U: the server held out (on tiny)"] == "error:not run"


def test_counts_and_time_are_those_of_the_cases() -> None:
    """What a reader sums up is what the attributes say."""
    made = record(gate(), failed(rule="at least 1200 tokens"), failed(level="advise", metric="x"))
    text = render_junit([made, crashed()])
    parsed = junitparser.JUnitXml.fromstring(text.encode())
    assert (parsed.tests, parsed.failures, parsed.errors) == (6, 1, 2)
    assert parsed.time == pytest.approx(25.0)
    for suite in parsed:
        assert suite.tests == len(list(suite))
        results = [kind for case in suite for kind in case.result]
        assert suite.failures == sum(isinstance(r, junitparser.Failure) for r in results)
        assert suite.errors == sum(isinstance(r, junitparser.Error) for r in results)
        assert suite.skipped == sum(isinstance(r, junitparser.Skipped) for r in results)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_keeps_the_document_valid(text: str) -> None:
    """Whatever a server printed, the file parses, is of the form, and stays small."""
    shown = render_junit([hostile(text)], [unmade(reason=text, place=text)])
    SCHEMA.validate(shown)
    assert len(shown) < 200_000
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    parsed = junitparser.JUnitXml.fromstring(shown.encode())
    assert parsed.failures == 1
