"""Requests and the server over one time axis: few spans however long, and no peak lost."""

from __future__ import annotations

from benchsuite.report.html.in_step import MOST_BINS, Bin, InStep
from benchsuite.report.html.step_chart import in_step_chart

SECOND = 1_000_000_000


def test_spans_are_joined_once_they_are_too_many() -> None:
    """Counts are kept, extremes too, and every span is as long as the others."""
    seen = InStep()
    for second in range(3600):
        there = seen.at(7 * SECOND + second * SECOND)
        there.replies += 1
        there.tokens += 5
        there.most("busy", 4 if second == 1234 else 1)
        there.most("high_anon_mib", 100.0 + second)
        there.least("low_anon_mib", 100.0 + second)
    placed = seen.placed()
    assert MOST_BINS / 2 < len(placed) <= MOST_BINS
    assert seen.seconds == 25.6
    assert sum(one.bin.replies for one in placed) == 3600
    assert sum(one.bin.tokens for one in placed) == 18_000
    peaks = [one.at_s for one in placed if one.bin.busy == 4]
    assert len(peaks) == 1
    assert abs(peaks[0] - 1234) <= seen.seconds / 2
    assert (placed[0].bin.low_anon_mib, placed[-1].bin.high_anon_mib) == (100.0, 3699.0)
    assert [one.at_s for one in placed] == sorted(one.at_s for one in placed)


def test_a_moment_before_the_first_one_lies_in_the_first_span() -> None:
    """Events are not always written in the order of their stamps."""
    seen = InStep()
    first = seen.at(5 * SECOND)
    assert seen.at(4 * SECOND) is first


def test_joining_keeps_none_where_neither_knew() -> None:
    """Nothing unknown becomes 0."""
    one, other = Bin(), Bin()
    other.most("busy", 0)
    other.gaps = 1
    one.join(other)
    assert (one.busy, one.deferred, one.high_ttft_ms, one.gaps) == (0, None, None, 1)


def _seen() -> InStep:
    seen = InStep()
    for second in range(20):
        there = seen.at(second * SECOND)
        there.replies, there.tokens = 2, 10
        there.most("high_ttft_ms", 30.0 + second)
        there.least("low_ttft_ms", 20.0)
        seen.looks += 1
        if second == 7:
            there.gaps += 1
            continue
        there.most("busy", 1 + second % 2)
        there.most("in_flight", 2)
    return seen


def test_the_chart_says_what_it_shows() -> None:
    """Looks, peaks and gaps; nothing of what no look told."""
    chart = in_step_chart(_seen(), "soak")
    assert "20 looks at the server" in chart.says
    assert "at most 2 slots busy" in chart.says
    assert "1 looks brought no answer" in chart.says
    assert "deferred" not in chart.says
    assert chart.says.startswith("3 panels")
    assert "Dashed" in chart.note


def test_the_table_shows_a_dash_for_what_is_not_known() -> None:
    """A gap has no busy slots, and that is not 0."""
    chart = in_step_chart(_seen(), "soak")
    assert chart.table is not None
    rows = chart.table.rows
    assert len(rows) == 20
    assert [cell.text for cell in rows[6]] == ["6.1", "2", "36.0", "2", "1", "-", "-"]
    assert [cell.text for cell in rows[7]] == ["7.1", "2", "37.0", "-", "-", "-", "-"]


def test_a_chart_without_gaps_and_of_few_spans() -> None:
    """No word of gaps."""
    seen = InStep()
    seen.at(0).most("deferred", 3)
    seen.looks = 1
    chart = in_step_chart(seen, "soak")
    assert "3 requests deferred" in chart.says
    assert "no answer" not in chart.says
    assert "Dashed" not in chart.note


def test_the_table_of_a_long_run_is_short() -> None:
    """At most 40 rows."""
    seen = InStep()
    for tenth in range(250):
        seen.at(tenth * SECOND // 10).replies += 1
    chart = in_step_chart(seen, "soak")
    assert chart.table is not None
    assert 20 < len(chart.table.rows) <= 40
