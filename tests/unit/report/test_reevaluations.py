"""How a run's report tells of prompts that were evaluated again."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchsuite.model.record import Reevaluation, RunRecord
from benchsuite.model.verdict import GateResult, Verdict
from benchsuite.report.layout import Style
from benchsuite.report.reevaluations import reevaluation_lines
from benchsuite.report.terminal import render_run
from benchsuite.store.records import read_record

GOLDEN = Path(__file__).parents[2] / "golden"
A2 = {"session": "A", "turn": "2"}
SHORT = Reevaluation(
    A2, 9, 257, "host cache off", "slot 1 held 257 of its tokens", ("log: \x1b[31mslot",)
)
DIFFERS = Reevaluation({"request": "two"}, 40, 40, "first difference", "first difference at 40")


def run(*told: Reevaluation, outcome: str = "pass") -> RunRecord:
    """A run of one launch, with one gate on turn 2 of session A."""
    record = read_record(GOLDEN / "pass" / "record.json")
    variant = record.launches[0].variant
    gate = GateResult(
        'cached_tokens{session="A",turn="2"}',
        variant,
        "equals 300 tokens",
        "fail" if outcome == "fail" else "pass",
        "block",
        "300",
        "9",
        "is 9",
    )
    launch = msgspec.structs.replace(record.launches[0], reevaluations=told)
    return msgspec.structs.replace(
        record, launches=(launch,), gates=(gate,), verdict=Verdict("pass", 0, (), {"pass": 1})
    )


def test_a_gate_that_fails_has_a_line_with_counts_and_cause() -> None:
    """And what no gate minds is counted."""
    record = run(SHORT, DIFFERS, outcome="fail")
    variant = record.launches[0].variant
    assert reevaluation_lines(record, Style()) == [
        "prompts evaluated again:",
        f"  {variant} A turn 2: 9 of 257 common tokens cached: host cache off",
    ]
    other = msgspec.structs.replace(SHORT, labels={"session": "B", "turn": "2"})
    lines = reevaluation_lines(run(SHORT, other, outcome="fail"), Style())
    assert lines[-1] == "  and 1 more, in the run's record"


def test_a_run_that_passes_has_one_line_at_most() -> None:
    """None where nothing fell short."""
    assert reevaluation_lines(run(DIFFERS), Style()) == []
    assert reevaluation_lines(run(), Style()) == []
    (line,) = reevaluation_lines(run(SHORT, DIFFERS), Style(120))
    assert line == (
        "1 request reused less than an earlier one had left (host cache off 1), as the record tells"
    )


def test_verbose_tells_everything_and_escapes_it() -> None:
    """Sentence and evidence of each."""
    text = render_run(run(SHORT, DIFFERS), verbose=True)
    assert "A turn 2: 9 of 257 common tokens cached: slot 1 held 257 of its tokens" in text
    assert "    | log: \\e[31mslot" in text
    assert "two: 40 of 40 common tokens cached: first difference at 40" in text
    unknown = msgspec.structs.replace(SHORT, common_prefix=None, cause="not known")
    assert "A turn 2: 9 tokens cached: " in render_run(run(unknown), verbose=True)


@pytest.mark.parametrize("width", [40, 80, 140])
def test_every_width_is_kept(width: int) -> None:
    """Lines are wrapped."""
    for verbose in (False, True):
        for record in (run(SHORT, outcome="fail"), run(SHORT)):
            lines = reevaluation_lines(record, Style(width), verbose=verbose)
            assert lines
            assert all(len(line) <= width for line in lines)


def test_records_keep_them_and_older_ones_load() -> None:
    """The golden record was written before there were any."""
    assert read_record(GOLDEN / "pass" / "record.json").launches[0].reevaluations == ()
    record = run(SHORT)
    again = msgspec.json.decode(msgspec.json.encode(record), type=RunRecord)
    assert again.launches[0].reevaluations == (SHORT,)
