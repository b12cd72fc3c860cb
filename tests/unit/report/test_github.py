"""Annotations stay within GitHub's limits and point at lines; the summary is safe Markdown."""

from __future__ import annotations

import re

import pytest

from benchsuite.report.github import (
    MAX_SUMMARY_BYTES,
    at_gate,
    render_annotations,
    render_summary,
)
from tests.unit.report.suite_records import HOSTILE, crashed, failed, gate, hostile, record

# as actions/runner reads a command: `::name key=value,key=value::message`
COMMAND = re.compile(r"::(error|warning) ([^:]*)::([^\r\n]*)")


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Level, properties and message of each line, unescaped as GitHub does it."""
    found = []
    for line in text.split("\n")[:-1]:
        match = COMMAND.fullmatch(line)
        assert match is not None, line[:200]
        pairs = (pair.split("=", 1) for pair in match[2].split(","))
        properties = {key: unescaped(value) for key, value in pairs}
        found.append((match[1], properties, unescaped(match[3])))
    return found


def unescaped(text: str) -> str:
    for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ",")):
        text = text.replace(code, character)
    return text.replace("%25", "%")


def test_a_failure_points_at_its_gate() -> None:
    """File and line as properties; the reason is the message."""
    ((level, properties, message),) = commands(
        render_annotations([record(failed(), gate(rule="at least 1"))], locate=at_gate)
    )
    assert level == "error"
    assert properties == {
        "file": "scenarios/scenarioB.yaml",
        "line": "12",
        "title": 'scenarioB B: cached_tokens{turn="2"} equals baseline (on tiny)',
    }
    assert message == "changed: 0 is not 1217; nothing was reused"


def test_advice_and_quarantine_warn_and_known_issues_say_nothing() -> None:
    """What does not count is no error."""
    made = record(
        failed(level="advise"),
        failed(level="advise", quarantine="bug-1", metric="kv_mib"),
        failed(outcome="xfail", metric="text"),
        failed(outcome="not applicable", metric="rs_mib"),
        gate(metric="slot"),
    )
    assert [level for level, _, _ in commands(render_annotations([made]))] == ["warning"] * 2


@pytest.mark.parametrize("count", [10, 11, 300])
def test_ten_of_a_level_are_the_most(count: int) -> None:
    """GitHub drops more than 10 without a word, so the last tells how many are left out."""
    made = record(
        *(failed(metric=f"m{n}") for n in range(count)),
        *(failed(metric=f"a{n}", level="advise") for n in range(count)),
    )
    found = commands(render_annotations([made, crashed()]))
    errors = [message for level, _, message in found if level == "error"]
    warnings = [message for level, _, message in found if level == "warning"]
    assert (len(errors), len(warnings)) == (10, 10)
    # the crash adds an error for its server and one for its gate
    assert errors[-1] == f"{count + 2 - 9} more are in the job summary and in the JUnit file"


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_never_a_command_of_its_own(text: str) -> None:
    """Each line is one of our commands, with our properties."""
    shown = render_annotations([hostile(text)], locate=at_gate)
    found = commands(shown)
    assert {level for level, _, _ in found} == {"error", "warning"}
    assert all(set(properties) <= {"file", "line", "title"} for _, properties, _ in found)
    assert len(shown) < 30_000


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_no_markup_in_the_summary(text: str) -> None:
    """No tag but ours, no new row, no link, mention or control character."""
    shown = render_summary([hostile(text)])
    plain = render_summary([hostile("plain")])
    assert re.findall(r"<[^>]*>", shown) == re.findall(r"<[^>]*>", plain)
    assert not re.search("[\x00-\x09\x0b-\x1f\u202a-\u202e]", shown)
    assert shown.count("\n") == plain.count("\n")
    rows = [line for line in shown.splitlines() if line.startswith("|")]
    assert [row.count("|") for row in rows] == [
        row.count("|") for row in plain.splitlines() if row.startswith("|")
    ]
    assert "@someone" not in shown
    assert "](" not in shown


def test_the_summary_says_verdict_failures_then_details() -> None:
    """The first line decides; what failed stands before what is folded."""
    shown = render_summary([record(failed(), gate(rule="at least 1")), crashed()])
    assert shown.startswith("## benchsuite: did not pass (0 of 2 runs hold)\n")
    assert shown.index("### What failed") < shown.index("<details>")
    assert render_summary([record(gate())]).startswith("## benchsuite: passed (1 of 1 runs hold)\n")
    advice = render_summary([record(gate(), policy="advise")])
    assert advice.startswith("## benchsuite: nothing was decided that blocks (1 of 1 runs hold")
    assert render_summary([]).startswith("## benchsuite: nothing was run\n")


def test_a_summary_of_everything_is_below_one_mebibyte() -> None:
    """What has no room is counted, and verdict and failures are kept."""
    many = [record(*(failed(metric=f"m{n}", why="w" * 900) for n in range(300)))] * 40
    shown = render_summary(many)
    assert len(shown.encode()) < MAX_SUMMARY_BYTES
    assert "### What failed" in shown
    assert re.search(r"\d+ sections had no room here", shown)
    assert "and 11900 more, in the JUnit file" in shown
