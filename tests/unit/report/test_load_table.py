"""The table of a load step tells counts, intervals, and why a percentile is not known."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from benchsuite.model.load import LoadSummary
from benchsuite.model.record import Measurement, RunRecord, Unmeasured
from benchsuite.report.comment import render_comment
from benchsuite.report.github import render_summary
from benchsuite.report.junit import render_junit
from benchsuite.report.layout import Style
from benchsuite.report.load_table import load_lines, load_tables
from tests.unit.gate import gate_example as example
from tests.unit.report.reports import given


def record() -> RunRecord:
    """A run of variant B with one load step."""
    plain = example.record(("B",), 1)
    summary = LoadSummary("s", 130, 120, 2, 1, 64, 6.04, 9, asked_per_second=20.0)
    (launch,) = plain.launches
    several = [
        Measurement("ttft_ms", 10.44, "ms", "B", 1, place(q), interval=(9.9, 12.0))
        for q in ("0.5", "0.9", "0.95")
    ]
    rates = [
        Measurement("requests_per_second", 19.52, "1/s", "B", 1, {"step": "s"}),
        Measurement("client_late_share", 0.0125, "", "B", 1, {"step": "s"}),
    ]
    few = Unmeasured("ttft_ms", "B", "120 requests are too few", "inconclusive", 1, place("0.99"))
    return msgspec.structs.replace(
        plain,
        launches=(msgspec.structs.replace(launch, loads=(summary,)),),
        measurements=(*plain.measurements, *several, *rates),
        unmeasured=(few,),
    )


def place(quantile: str) -> dict[str, str]:
    """Labels of a quantile of the step."""
    return {"quantile": quantile, "step": "s"}


def test_a_table_has_counts_intervals_and_reasons() -> None:
    """Errors and timeouts are shares of all requests after warm-up."""
    (table,) = load_tables(record())
    assert table.title == "load s (variant B)"
    assert table.counts == (
        "120 requests after 10 of warm-up, 2 failed, 1 timed out (2.50%), 19.5 a second served of "
        "20 asked for, 1.25% sent late by us, 64 distinct prompts, at most 9 at once, 6 s"
    )
    assert table.rows == (("TTFT", *["10.4 (9.9..12)"] * 3, "?"),)
    assert table.notes == ("? TTFT p99: 120 requests are too few",)


def test_it_fits_a_page_of_eighty_columns() -> None:
    """And a run without load steps has none."""
    lines = load_lines(record(), Style())
    assert max(len(line) for line in lines) <= 80
    assert any(line.startswith("  TTFT") for line in lines)
    assert load_lines(example.record(("B",), 1), Style()) == []


@pytest.mark.parametrize(
    "shown",
    [
        lambda run: render_summary([run]),
        lambda run: render_junit([run]),
        lambda run: render_comment(given(run)),
    ],
    ids=["summary", "junit", "comment"],
)
def test_what_was_not_served_is_told_wherever_a_run_is_shown(
    shown: Callable[[RunRecord], str],
) -> None:
    """Who reads the pull request alone must not take a load for a good one."""
    run = record()
    (launch,) = run.launches
    warned = msgspec.structs.replace(launch.loads[0], warnings=("load s: 9 requests of 9 lost",))
    run = msgspec.structs.replace(run, launches=(msgspec.structs.replace(launch, loads=(warned,)),))
    assert shown(run).count("load s: 9 requests of 9 lost") == 1
