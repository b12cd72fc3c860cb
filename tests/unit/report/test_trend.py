"""Series out of stored runs, what is said of them, and how it looks at 80 columns."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from benchsuite.metrics.select import parse_selector
from benchsuite.model.record import Fingerprint, Info
from benchsuite.report.layout import Style, cells
from benchsuite.report.plot import plot
from benchsuite.report.trend import Series, make_series, render_trend_csv, render_trend_json
from benchsuite.report.trend_text import render_trend
from benchsuite.store.history import read_history
from tests.unit.store.run_example import record, store

replace = msgspec.structs.replace


def series(runs: Path, selector: str, last: int | None = None) -> list[Series]:
    """The series that a selector selects."""
    read = read_history(runs, parse_selector(selector))
    return make_series(read.points, read.failed, last=last)


def words(text: str) -> str:
    """A rendered text on one line."""
    return " ".join(text.split())


def test_an_exact_metric_changes_where_its_value_does(tmp_path: Path) -> None:
    """Named with both runs, the commits, the builds and the flag that differ."""
    for day in range(5):
        kv = "f16" if day < 3 else "q8_0"
        info = Info(build=f"b{day}", commit=f"{day}" * 40, flags={"B": {"cache-type-k": kv}})
        store(tmp_path, record({"kv_mib": [16 if day < 3 else 8.5]}, day=day, info=info))
    (one,) = series(tmp_path, "kv_mib")
    (change,) = one.changes
    assert (change.first, change.last, change.before, change.after) == (2, 3, 16, 8.5)
    assert change.p_value is None
    assert set(change.differs) == {
        "build b2 -> b3",
        "cache-type-k f16 -> q8_0",
        "commit 222222222 -> 333333333",
    }
    text = words(render_trend([one]))
    assert "changed from 16 to 8.5 MiB (-46.9%)" in text
    assert "differs: build b2 -> b3; cache-type-k f16 -> q8_0" in text


def test_quanta_are_no_changes(tmp_path: Path) -> None:
    """12.75 and 12.76, each printed with two digits from two terms, can be one number."""
    for day in range(6):
        made = record({"kv_mib": [12.75 + 0.01 * (day % 2)]}, day=day)
        measured = tuple(replace(m, quantum=0.01, terms=2) for m in made.measurements)
        store(tmp_path, replace(made, measurements=measured))
    (one,) = series(tmp_path, "kv_mib")
    assert one.changes == ()
    assert "12.76 MiB in all 6 runs" in render_trend([one])


def test_launches_that_disagree_are_shown_as_such(tmp_path: Path) -> None:
    """And a run whose launches agree again is a change."""
    for day, values in enumerate([[5, 5], [5, 4], [5, 5]]):
        store(tmp_path, record({"leaks": values}, day=day))
    (one,) = series(tmp_path, "leaks")
    assert [(c.before, c.after) for c in one.changes] == [(5, "5 or 4"), ("5 or 4", 5)]
    assert "5 or 4" in render_trend([one])


def test_drift_is_a_sentence_with_size_start_and_ends(tmp_path: Path) -> None:
    """0.7% a run over 30 runs, each within 10% of the one before."""
    random = np.random.default_rng(1)
    for day in range(30):
        values = 200 * 1.007**day * (1 + 0.01 * random.standard_normal(3))
        store(tmp_path, record({"server_start_ms": values.tolist()}, day=day))
    (one,) = series(tmp_path, "server_start_ms")
    (change,) = one.changes
    assert change.drift
    assert change.worse
    assert change.largest is not None
    assert change.largest < 10
    text = words(render_trend([one]))
    assert "drifts from" in text
    assert ", worse), +0.7" in text or ", worse), +0.8" in text
    assert "% a run over" in text
    assert "no run differs by more than" in text
    assert f"run {one.rows[change.first].run.id} (2026-10-0" in text
    assert "b100 -> b129" in text or "b101 -> b129" in text


@pytest.mark.parametrize(("before", "after", "told"), [(100, 110, "worse"), (110, 100, "better")])
def test_direction_is_the_metrics_own(
    tmp_path: Path, before: float, after: float, told: str
) -> None:
    """More milliseconds are worse; the level, the place and the certainty are told."""
    random = np.random.default_rng(2)
    for day in range(24):
        level = before if day < 12 else after
        values = level * (1 + 0.01 * random.standard_normal(2))
        store(tmp_path, record({"server_start_ms": values.tolist()}, day=day))
    (one,) = series(tmp_path, "server_start_ms")
    (change,) = one.changes
    assert (change.first, change.last, change.drift) == (11, 12, False)
    text = words(render_trend([one]))
    assert f", {told})" in text
    assert "; p 0.0" in text


def test_few_runs_say_that_they_are_few(tmp_path: Path) -> None:
    """Noise cannot be told from change in four runs, however far apart."""
    for day in range(4):
        store(tmp_path, record({"server_start_ms": [100.0 * 2**day]}, day=day))
    (one,) = series(tmp_path, "server_start_ms")
    assert one.changes == ()
    assert "4 runs with a value: too few" in render_trend([one])


def test_tiny_sure_changes_are_counted_and_not_told(tmp_path: Path) -> None:
    """0.1% of memory is no news, but is not hidden either."""
    for day in range(20):
        store(tmp_path, record({"server_start_ms": [1000.0 if day < 10 else 1001.0]}, day=day))
    (one,) = series(tmp_path, "server_start_ms")
    assert one.changes == ()
    assert "1 change below 1%" in render_trend([one])


def test_runs_that_deserve_doubt_are_marked(tmp_path: Path) -> None:
    """Inconclusive and failed verdicts, and runs without a value because the server crashed."""
    outcomes = ["pass", "inconclusive", "fail", "pass"]
    for day, outcome in enumerate(outcomes):
        store(tmp_path, record({"kv_mib": [1]}, day=day, outcome=outcome))
    crash = record({"kv_mib": [7]}, day=4, failures={1: "crash"}, outcome="server failed")
    store(tmp_path, crash)
    (one,) = series(tmp_path, "kv_mib")
    assert [row.mark for row in one.rows] == ["", "inconclusive", "failed", "", "no value, crash"]
    assert one.rows[-1].value is None
    text = render_trend([one])
    assert "inconclusive" in text
    assert "no value, crash" in text


def test_an_unfit_machine_marks_what_it_makes_doubtful(tmp_path: Path) -> None:
    """Latency of that run, and not its KV memory."""
    for day in range(2):
        store(tmp_path, record({"kv_mib": [1], "server_start_ms": [1.0]}, day=day))
    for metric, mark in (("kv_mib", ""), ("server_start_ms", "unfit machine")):
        read = read_history(tmp_path, parse_selector(metric))
        points = [replace(p, run=replace(p.run, unfit=("latency",))) for p in read.points]
        (one,) = make_series(points, read.failed)
        assert {row.mark for row in one.rows} == {mark}


def test_what_is_incomparable_is_apart(tmp_path: Path) -> None:
    """Seeds, digests, deployments; machines for timings, though not for KV memory."""
    values: dict[str, list[Any]] = {"kv_mib": [1], "server_start_ms": [1.0]}
    store(tmp_path, record(values))
    key = Fingerprint("tiny", "s", 0, "cpu", "desk")
    store(tmp_path, record(values, day=1, fingerprint=replace(key, machine="other desk")))
    assert len(series(tmp_path, "kv_mib")) == 1
    assert len(series(tmp_path, "server_start_ms")) == 2
    store(tmp_path, record(values, day=2, fingerprint=replace(key, seed=1)))
    store(tmp_path, record(values, day=3, fingerprint=replace(key, deployment="cuda")))
    store(tmp_path, record(values, day=4, digests={"B": "other steps"}))
    found = series(tmp_path, "kv_mib")
    assert len(found) == 4
    titles = {render_trend([one, *found[:2]]).splitlines()[0] for one in found}
    text = words(render_trend(found[:3]))
    assert "scenario digest digest" in text
    assert "scenario digest other st" in text
    assert "on cuda" in text
    assert len(titles) == 4


def test_only_the_newest_runs_are_looked_at_where_asked(tmp_path: Path) -> None:
    """`--last`: a change before them is no news."""
    for day in range(6):
        store(tmp_path, record({"kv_mib": [1 if day < 3 else 2]}, day=day))
    (one,) = series(tmp_path, "kv_mib", last=3)
    assert [row.value for row in one.rows] == [2, 2, 2]
    assert one.changes == ()


def test_json_and_csv_hold_every_run(tmp_path: Path) -> None:
    """With values, samples, states and changes."""
    for day in range(3):
        store(tmp_path, record({"kv_mib": [10 + day // 2, 10 + day // 2]}, day=day))
    found = series(tmp_path, "kv_mib")
    body = json.loads(render_trend_json(found))
    assert body["schema_version"] == 1
    (one,) = body["series"]
    assert [p["value"] for p in one["points"]] == [10, 10, 11]
    assert one["points"][0]["samples"] == [10, 10]
    assert one["changes"][0]["last"] == one["points"][2]["run"]
    rows = list(csv.DictReader(io.StringIO(render_trend_csv(found))))
    assert [(row["value"], row["launches"], row["changed"]) for row in rows] == [
        ("10", "2", "0"),
        ("10", "2", "0"),
        ("11", "2", "1"),
    ]


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("count", [1, 2, 12, 100])
def test_nothing_is_wider_than_the_terminal(tmp_path: Path, width: int, count: int) -> None:
    """Plot, table and sentences, of few and of many runs, with long names and wild values."""
    random = np.random.default_rng(count)
    for day in range(count):
        values = 1e5 * (1 + 0.3 * (day > count / 2) + 0.01 * random.standard_normal(3))
        outcome = "inconclusive" if day % 3 == 1 else "pass"
        made = record({"server_start_ms": values.tolist()}, day=day, outcome=outcome)
        store(tmp_path, replace(made, info=replace(made.info, build="b10434-7e4c0a9")))
    text = render_trend(series(tmp_path, "server_start_ms"), Style(width))
    assert max(cells(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_many_series_are_an_overview(tmp_path: Path) -> None:
    """Those that changed with their sentence, the others a line each."""
    for day in range(3):
        made = record({"cached_tokens": [1]}, day=day)
        (first,) = made.measurements
        turns = tuple(
            replace(first, labels={"session": "A", "turn": f"{t}"}, value=t * (1 + (t == day == 2)))
            for t in range(1, 6)
        )
        store(tmp_path, replace(made, measurements=turns))
    found = series(tmp_path, 'cached_tokens{session="A",turn=~".*"}')
    text = render_trend(found)
    assert words(text).count("changed from") == 1
    assert "changed from 2 to 4 tokens (+100.0%)" in words(text)
    assert text.count("(3 runs)") == 4
    assert "5 series, 1 with changes" in words(text)


def test_a_plot_shows_levels_gaps_marks_and_changes() -> None:
    """High values above low ones, oldest at the left."""
    lines = plot([1, 1, None, 2, 2], ("first", "last"), Style(), marked=[1], cuts=[3])
    assert lines[0] == "   2 +            *   *"
    assert lines[9] == "   1 +*   o       |"
    assert lines[1] == "     :            |"
    assert lines[10].endswith("-----------------")
    assert lines[11].split() == ["first", "last"]


def test_equal_values_plot_as_one_line() -> None:
    """Without a scale that pretends to more."""
    lines = plot([3, 3, 3], ("a", "b"), Style())
    assert [line for line in lines if "*" in line] == ["3 +*   *   *"]


def test_colours_are_for_terminals() -> None:
    """Marks and changes stand out where colours are allowed."""
    lines = plot([1, 2], ("a", "b"), Style(colour=True), marked=[0], cuts=[1])
    assert any("\x1b[33mo" in line for line in lines)
    assert any("\x1b[31m|" in line for line in lines)


def test_a_launch_without_a_number_leaves_its_run_without_a_value(tmp_path: Path) -> None:
    """The others are shown as ever; the run is passed over with a note."""
    for day in range(12):
        store(tmp_path, record({"ttft_ms": [5.0, 5.1, 5.0 if day else float("nan")]}, day=day))
    (found,) = series(tmp_path, "ttft_ms")
    assert [row.value is None for row in found.rows] == [True, *[False] * 11]
    assert "1 value passed over" in words(render_trend([found], Style(80)))


def test_the_sides_of_an_ab_are_told_apart(tmp_path: Path) -> None:
    """By ids that can be typed."""
    for day in range(2):
        store(tmp_path, record({"kv_mib": [10]}, day=day))
    ids = ("1a2b3c4d-baseline", "1a2b3c4d-candidate")
    read = read_history(tmp_path, parse_selector("kv_mib")).points
    points = [replace(p, run=replace(p.run, id=one)) for p, one in zip(read, ids, strict=True)]
    text = render_trend(make_series(points, []), Style(80))
    assert all(one in text for one in ids)
