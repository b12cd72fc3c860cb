"""How late a machine wakes a sleeper, with a clock of our own."""

from __future__ import annotations

import pytest

from benchsuite.collect.timer import SLEEPS, judge_timer


@pytest.mark.parametrize(
    ("late_ms", "grade"),
    [
        ([0.06] * SLEEPS, "ok"),
        ([0.9] * SLEEPS, "ok"),
        ([1.1] * SLEEPS, "warn"),
        ([0.1] * (SLEEPS - 1) + [19.0], "ok"),
        ([0.1] * (SLEEPS - 1) + [21.0], "warn"),
        ([15.6 - 1] * SLEEPS, "warn"),
    ],
)
def test_half_late_or_one_very_late(late_ms: list[float], grade: str) -> None:
    """The median against one limit, the worst against another."""
    now = 0
    late = iter(late_ms)

    def sleep(seconds: float) -> None:
        nonlocal now
        now += int((seconds * 1000 + next(late)) * 1_000_000)

    assert judge_timer(sleep, lambda: now).grade == grade
