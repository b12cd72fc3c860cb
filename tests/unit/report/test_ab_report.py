"""Two sides as text and JSON."""

from __future__ import annotations

import json

import pytest

from benchsuite.model.ab import AbRules
from benchsuite.model.record import Failure
from benchsuite.model.scenario import GateSpec
from benchsuite.report.ab import render_ab, render_ab_json
from benchsuite.report.layout import Style, cells
from tests.unit.gate import gate_example
from tests.unit.gate.ab_example import ab, judged, replace, slower
from tests.unit.gate.gate_example import record, with_values

PLAIN = GateSpec("kv_mib", equals_baseline=True, line=23, why="more memory means fewer slots")


def test_an_a_a_run_says_so() -> None:
    """Who the sides are, that nothing differs, by what is judged, and the verdict at the end."""
    text = render_ab(judged(ab(5), PLAIN).record, stored="runs/x")
    assert "an A/A run" in text
    assert "5 pairs of launches, seed 0" in text
    assert "latency at most 10% worse" in text
    assert text.splitlines()[-1].startswith("PASS  scenarioB, candidate against baseline: ")
    assert "run: runs/x" in text


def test_a_change_shows_both_values_and_why() -> None:
    """Values side by side, what differs, the author's reason, the logs to compare."""
    changed = with_values(record(("B",)), "kv_mib", 32.0)
    changed = replace(changed, info=replace(changed.info, build="b10500"))
    text = " ".join(render_ab(judged(ab(1, candidate=changed), PLAIN).record).split())
    assert "differs: build b10434 -> b10500" in text
    assert "B kv_mib 16 32 MiB FAIL" in text
    assert "why it matters: more memory means fewer slots" in text
    assert "compare baseline/server.b.1.log and candidate/server.b.1.log" in text
    assert text.endswith("(exit 1)")


def test_latency_shows_its_interval() -> None:
    """In the column of changes, above 0 is worse."""
    found = judged(ab(5, candidate=slower(record(("B",), 5), 1.3)), PLAIN).record
    text = render_ab(found, style=Style(120))
    assert "worse by" in text
    assert "+30.0% (29.6, 30.4)" in text
    assert "30% worse (29.6% to 30.4%) in 5 pairs, more than the 10% allowed" in text


def test_variants_that_came_out_alike_share_a_line() -> None:
    """Named `all` where they are all."""
    both = record(("B", "U"))
    rules = AbRules(exact=True)
    text = render_ab(judged(ab(1, both, both, rules), PLAIN).record)
    assert "all  kv_mib " in text


def test_a_crash_is_told_of_its_side() -> None:
    """With its sentence, under the side's name."""
    crash = Failure("crash", "the server died during turn 2", healthy_before=True)
    dead = gate_example.failed(record(("B",)), "B", crash)
    text = render_ab(judged(ab(1, candidate=dead), PLAIN).record)
    assert "candidate side:\nvariant B, pair 1: the server died during turn 2" in text
    assert "(exit 4)" in text


def test_no_line_is_wider_than_asked() -> None:
    """Whatever the width, and model text is harmless."""
    rough = with_values(record(("B",)), "text", "\x1b[31mred\nand more")
    found = judged(ab(1, candidate=rough), PLAIN).record
    for width in (60, 80, 120):
        text = render_ab(found, style=Style(width))
        assert max(cells(line) for line in text.splitlines()) <= width
        assert "\x1b" not in text


def test_json_is_the_record() -> None:
    """With schema version, pairs in order, both sides and estimates."""
    found = judged(ab(5), PLAIN).record
    body = json.loads(render_ab_json(found))
    assert (body["schema_version"], body["kind"], len(body["turns"])) == (1, "ab", 10)
    assert [t["side"] for t in body["turns"][:4]] == [
        "baseline",
        "candidate",
        "candidate",
        "baseline",
    ]
    assert body["candidate"]["measurements"]
    assert any(gate["estimate"] for gate in body["gates"])


@pytest.mark.parametrize(
    ("pairs", "rules", "words"),
    [
        (1, AbRules(exact=True), "(memory and latency were not judged: `benchsuite ab scenarioB "),
        (1, AbRules(pairs=1), "(memory and latency were not judged: `benchsuite ab scenarioB "),
        (3, AbRules(pairs=3), "(latency was not judged: `benchsuite ab scenarioB ...` without --p"),
        (5, AbRules(pairs=5), ""),
    ],
)
def test_the_verdicts_line_says_what_was_not_judged(pairs: int, rules: AbRules, words: str) -> None:
    """And the command that judges it."""
    text = render_ab(judged(ab(pairs, rules=rules), PLAIN).record, style=Style(200))
    line = text.splitlines()[-1]
    assert words in line
    assert ("not judged" in line) is bool(words)
