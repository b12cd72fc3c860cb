"""When pairs decide: the fixed looks, whatever number of pairs there is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.gate.seen import Series
from benchsuite.gate.sides import decide, per_launch, worse_words
from benchsuite.model.verdict import Estimate
from benchsuite.stats.paired import Look, look
from benchsuite.store.baselines import Sample

VALUES = st.floats(min_value=1, max_value=1000) | st.sampled_from([0.0, -1.0, math.nan, math.inf])


def _look(before: Sequence[float], after: Sequence[float]) -> Look:
    return look(before, after, tolerance_percent=10, better="lower")


@given(st.lists(st.tuples(VALUES, VALUES), max_size=25), st.none() | st.integers(1, 25))
def test_only_fixed_counts_decide(pairs: list[tuple[float, float]], planned: int | None) -> None:
    """A decision stands on 5, 10 or the number asked for, and more pairs do not undo it."""
    before, after = [a for a, _ in pairs], [b for _, b in pairs]
    found, waits = decide(before, after, planned, _look)
    looks = (planned,) if planned is not None and planned > 10 else (5, 10)
    reached = [n for n in looks if n <= len(pairs) and (planned is None or n <= planned)]
    if found.decision != "undecided":
        at = next(n for n in reached if _look(before[:n], after[:n]).decision != "undecided")
        assert found == _look(before[:at], after[:at])
        assert waits == 0
    elif waits:
        assert waits > len(pairs)
        assert waits in looks
    else:
        assert all(n in reached or (planned is not None and n > planned) for n in looks)


def test_a_launch_counts_with_the_median_of_its_requests() -> None:
    """Three requests of two launches give two values; a launch without a number gives none."""
    rows = [
        Series(f"ttft_ms{{turn={i}}}", "ttft_ms", {}, tuple(Sample(v) for v in values))
        for i, values in enumerate([(1.0, 10.0), (5.0, 20.0), (3.0, 90.0)])
    ]
    assert per_launch(rows) == [3.0, 20.0]
    assert per_launch([]) == []


@pytest.mark.parametrize(
    ("estimate", "words"),
    [
        (Estimate(4.1, "%", 5, 5, 1.2, 7.0), "4.1% worse (1.2% to 7%)"),
        (Estimate(-2.0, "%", 5, 5, -4.0, 0.5), "2% better (-4% to 0.5%)"),
        (Estimate(0.0, "%", 1, 1), "no change"),
        (Estimate(None, "%", 0, 0), "no estimate"),
        (Estimate(1.5, "MiB", 3, 3), "1.5 MiB worse"),
    ],
)
def test_estimates_in_words(estimate: Estimate, words: str) -> None:
    """Worse and better are said, so that no sign must be read by the metric's direction."""
    assert worse_words(estimate) == words
