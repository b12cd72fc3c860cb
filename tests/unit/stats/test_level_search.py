"""Which levels a search tries, and where it ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from benchsuite.stats.level_search import CLOSE, LevelList, LevelSearch


def tried(search: LevelSearch | LevelList, limit: float) -> tuple[list[float], float | None]:
    """The levels, where those up to a limit will do, and the highest that did."""
    levels = []
    while (level := search.next()) is not None:
        levels.append(level)
        search = search.after(level, will_do=level <= limit)
    return levels, max((level for level in levels if level <= limit), default=None)


def test_it_doubles_and_then_halves() -> None:
    """Up to the first level that will not do, then between the two."""
    assert tried(LevelSearch(1, 64, is_whole=True), 11) == ([1, 2, 4, 8, 16, 12, 10, 11], 11)


def test_it_never_passes_its_end() -> None:
    """The end itself is tried."""
    assert tried(LevelSearch(3, 20, is_whole=True), 99) == ([3, 6, 12, 20], 20)


def test_where_the_lowest_will_not_do_nothing_else_is_tried() -> None:
    """There is nothing to find in range."""
    assert tried(LevelSearch(4, 64, is_whole=True), 3) == ([4], None)


def test_a_list_is_tried_to_its_end() -> None:
    """Whatever its levels come to."""
    assert tried(LevelList((1, 2, 4)), 1) == ([1, 2, 4], 1)


@given(st.integers(1, 50), st.integers(0, 1000), st.integers(0, 1100))
def test_of_whole_numbers_the_very_highest_is_found(low: int, more: int, limit: int) -> None:
    """In logarithmic time."""
    levels, best = tried(LevelSearch(low, low + more, is_whole=True), limit)
    assert best == (min(limit, low + more) if limit >= low else None)
    assert len(levels) <= 25


@given(st.floats(0.1, 50), st.floats(1, 1000), st.floats(0.1, 5000))
def test_of_rates_it_comes_close(low: float, factor: float, limit: float) -> None:
    """Within the stated factor, or the end of the range."""
    levels, best = tried(LevelSearch(low, low * factor, is_whole=False), limit)
    assert len(levels) <= 25
    if best is None:
        assert limit < low
    else:
        assert best >= min(limit, low * factor) / (CLOSE * 1.02)
