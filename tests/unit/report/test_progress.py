"""What is told while a run goes on, and how long is left."""

from __future__ import annotations

import io

import pytest

from benchsuite.report.progress import Pace, PlainProgress, duration_words


class Clock:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_nothing_is_known_before_the_first_launch_is_over() -> None:
    """The first launch has no time left: there is nothing to tell it from."""
    clock = Clock()
    pace = Pace(clock)
    assert pace.seconds_left() is None
    pace.begin((1, 3))
    clock.now += 10
    assert pace.seconds_left() is None
    assert pace.words() == ""


def test_time_left_follows_the_mean_of_launches() -> None:
    """The mean for each launch to come, and the rest of it for the one under way."""
    clock = Clock()
    pace = Pace(clock)
    pace.begin((1, 4))
    clock.now += 10
    pace.begin((2, 4))
    clock.now += 4
    assert pace.seconds_left() == pytest.approx(6 + 2 * 10)
    clock.now += 16  # twice as long as the first
    assert pace.seconds_left() == pytest.approx(20)
    pace.begin((3, 4))
    assert pace.seconds_left() == pytest.approx(15 + 15)


def test_a_wait_counts_for_no_launch() -> None:
    """Waiting for another run's device says nothing of how long a launch takes."""
    clock = Clock()
    pace = Pace(clock)
    pace.begin(None)
    clock.now += 500
    pace.begin((1, 2))
    assert pace.seconds_left() is None
    clock.now += 5
    pace.begin((2, 2))
    assert pace.seconds_left() == pytest.approx(5)


def test_plain_progress_numbers_launches_and_tells_the_time_left() -> None:
    """A log shows which launch of how many, and from the second on how long is left."""
    clock, stream = Clock(), io.StringIO()
    progress = PlainProgress(stream, clock)
    progress.launch("variant B", (1, 2))
    progress.step("turn 1")
    clock.now += 90
    progress.launch("variant U", (2, 2))
    assert stream.getvalue().splitlines() == [
        "[1/2] variant B",
        "  turn 1",
        "[2/2] variant U, about 90 s left",
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "1 s"),
        (8.4, "8 s"),
        (119, "119 s"),
        (121, "2 min"),
        (4800, "80 min"),
        (9000, "2 h 30 min"),
    ],
)
def test_durations_read_at_a_glance(seconds: float, words: str) -> None:
    """Seconds up to two minutes, minutes up to two hours."""
    assert duration_words(seconds) == words
