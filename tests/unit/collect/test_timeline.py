"""Events arranged by task, and what the host prompt cache did with a state."""

from __future__ import annotations

from pathlib import Path

from benchsuite.collect.timeline import Timeline
from benchsuite.logform.reader import LogReader

LOGS = Path(__file__).parents[2] / "fixtures" / "events"


def timeline(name: str) -> Timeline:
    reader = LogReader()
    reader.feed((LOGS / f"{name}.log").read_bytes())
    return Timeline(reader.finish().events)


def test_a_choice_has_its_own_lines_only() -> None:
    """From the first slot that was looked at to the launch, not what the task before did."""
    line = timeline("real_11549_three_sessions")
    kinds = [event.kind for event in line.choosing(("", 18))]
    assert kinds == ["checked", "checked", "selected_by_age", "cache_saved", "cache_kept"]
    chosen = line.selected(("", 18))
    assert chosen is not None
    assert (chosen.slot, chosen.kind) == (1, "selected_by_age")
    older = timeline("real_10092_small_host_cache")
    kinds = [event.kind for event in older.choosing(("", 18))]
    assert kinds == ["selected_by_age", "cache_saved", "cache_kept"]


def test_a_task_that_was_not_seen_has_nothing() -> None:
    """None and unknown tasks alike."""
    line = timeline("real_11549_three_sessions")
    for task in (None, ("", 999), ("5001", 18)):
        assert not line.knows(task)
        assert line.choosing(task) == []
        assert line.selected(task) is None
        assert line.of(task, "released") == []
        assert line.between(task, ("", 18), "cache_saved") == []
        assert line.fate(task, 1, ("", 18)) is None
        assert not line.is_before(task, ("", 18))


def test_what_lies_between_two_tasks() -> None:
    """After the release of one, before the launch of the other."""
    line = timeline("real_11549_three_sessions")
    saved = line.between(("", 0), ("", 18), "cache_saved")
    assert [event.numbers["n_tokens"] for event in saved] == [108, 108]
    assert line.between(("", 18), ("", 0), "cache_saved") == []
    assert line.is_before(("", 0), ("", 18))
    assert not line.is_before(("", 18), ("", 0))


def test_the_fate_of_a_state() -> None:
    """Dropped where room was made for others; kept until it is loaded; not told after a load."""
    small = timeline("real_10092_small_host_cache")
    assert small.fate(("", 0), 1, ("", 18)) == "kept"
    assert small.fate(("", 0), 1, ("", 27)) == "dropped"
    large = timeline("real_11549_three_sessions")
    assert large.fate(("", 0), 1, ("", 18)) == "kept"
    assert large.fate(("", 0), 1, ("", 27)) is None  # that task loaded one of two


def test_a_number_that_counts_anew_is_the_last_task_of_that_number() -> None:
    """After a restart tasks begin at 0 again in the same log."""
    reader = LogReader()
    run = (LOGS / "real_11549_pinned.log").read_bytes()
    reader.feed(run + run)
    twice = Timeline(reader.finish().events)
    assert len(twice.of(("", 0), "released")) == 1
