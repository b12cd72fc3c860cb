"""Where throughput bends, and where it cannot be said to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.stats.knee import find_knee


@pytest.mark.parametrize("servers", [2, 4, 8])
def test_a_server_of_so_many_at_once_bends_there(servers: int) -> None:
    """Throughput grows with the level up to that many, and no further."""
    levels = (1, 2, 4, 8, 16, 32)
    assert find_knee([(n, min(n, servers) * 10.0) for n in levels]).level == servers


def test_loss_past_saturation_moves_no_knee() -> None:
    """The maximum so far is what counts."""
    curve = [(1, 10.0), (2, 20.0), (4, 40.0), (8, 36.0), (16, 25.0)]
    assert find_knee(curve).level == 4


@pytest.mark.parametrize(
    ("points", "why"),
    [
        ([(1, 10.0), (2, 20.0)], "2 levels are too few"),
        ([(1, 10.0), (2, 20.0), (4, 40.0), (8, 80.0)], "still grows with the level up to 8"),
        ([(1, 10.0), (2, 10.4), (4, 10.2)], "bends at 1 or below"),
        ([(1, 0.0), (2, 0.0), (4, 0.0)], "nothing was served"),
        ([(1, 1.0), (2, 1.2), (4, 2.0), (8, 9.0)], "still grows"),
    ],
)
def test_without_a_knee_it_says_why(points: list[tuple[float, float]], why: str) -> None:
    """It is no level, and never 0."""
    found = find_knee(points)
    assert found.level is None
    assert why in found.why


@given(
    st.dictionaries(
        st.integers(1, 1000), st.floats(0, 1e6, allow_nan=False), min_size=1, max_size=12
    ),
    st.floats(0.1, 100),
)
def test_a_knee_is_a_level_that_was_tried_in_whatever_unit(
    curve: dict[int, float], factor: float
) -> None:
    """A change of unit or order changes nothing but by rounding."""
    points = [(float(level), height) for level, height in curve.items()]
    found = find_knee(points)
    assert found.level is None or found.level in curve
    assert find_knee(points[::-1]) == found
    other = find_knee([(level, height * factor) for level, height in points])
    assert other.level is None or other.level in curve
