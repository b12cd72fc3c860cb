"""A diff and a history as pages."""

from __future__ import annotations

from pathlib import Path

from benchsuite.metrics.select import parse_selector
from benchsuite.model.record import Info
from benchsuite.report.diff import Diff, Row
from benchsuite.report.html.diff_page import render_diff_html
from benchsuite.report.html.page import MOST_BYTES
from benchsuite.report.html.trend_page import render_trend_html
from benchsuite.report.trend import make_series
from benchsuite.store.history import read_history
from tests.html_pages import HOSTILE
from tests.unit.store.run_example import record, store

ROW = Row("tiny", "s", "B", "kv_mib", "16 MiB", "12 MiB", "changed", "-25.0%", sentence="changed")


def test_a_diff_says_what_changed_and_what_differs() -> None:
    """Each series that moved is a row; noise is apart; what differs is listed."""
    noisy = Row("", "s", "B", "ttft_ms", "9 ms", "12 ms", "regressed", "+33.3%", noisy=True)
    text = render_diff_html(Diff("run a", "run b", (ROW, noisy), 3, ("build b1 -> b2",)))
    assert "<strong>differs</strong>" in text
    assert "1 changed, 1 noisy, 3 the same" in text
    assert 'id="changed"' in text
    assert 'id="noisy"' in text
    assert "build b1 -&gt; b2" in text


def test_a_diff_of_nothing_is_the_same() -> None:
    """A diff without rows says so."""
    text = render_diff_html(Diff("run a", "run b", (), 3, ()))
    assert "<strong>same</strong>" in text


def test_a_large_hostile_diff_stays_small_and_dead() -> None:
    """Ten thousand rows of attacks make less than 2 MiB and no element."""
    bad = " ".join(HOSTILE)
    row = Row(bad, bad, bad, "text", bad, bad, "changed", bad, sentence=bad, differs=HOSTILE)
    text = render_diff_html(Diff(bad, bad, (row,) * 10_000, 0, HOSTILE, HOSTILE, HOSTILE))
    assert len(text.encode()) <= MOST_BYTES
    assert text.count("<script") == 1
    assert "<img" not in text
    assert "more rows: benchsuite diff --json has them all" in text


def page(runs: Path, values: list[float], metric: str = "kv_mib") -> str:
    """The page of one series of runs, each of another build."""
    for day, value in enumerate(values):
        store(runs, record({metric: [value]}, day=day, info=Info(build=f"b{day}")))
    read = read_history(runs, parse_selector(metric))
    return render_trend_html(metric, make_series(read.points, read.failed))


def test_a_step_is_told_and_drawn(tmp_path: Path) -> None:
    """The sentence names both levels, and the plot has its figures as a table."""
    text = page(tmp_path, [16.0, 16.0, 12.0])
    assert "<strong>changes</strong>" in text
    assert "changed from 16" in text
    assert 'data-plot="trend-0"' in text
    assert "differs: build b1 -&gt; b2" in text


def test_too_few_runs_are_no_good_news(tmp_path: Path) -> None:
    """What cannot be told from noise yet is not shown as unchanged."""
    text = page(tmp_path, [10.0, 11.0, 12.0], "ttft_ms")
    assert "<strong>too few runs</strong>" in text
    assert 'class="verdict good"' not in text


def test_no_change_in_exact_values(tmp_path: Path) -> None:
    """An exact metric needs no more than its runs."""
    text = page(tmp_path, [16.0, 16.0])
    assert "<strong>no changes</strong>" in text
