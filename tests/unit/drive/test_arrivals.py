"""Schedules are as they were asked for, and the same in every run."""

from __future__ import annotations

from itertools import islice

import pytest
from scipy import stats

from benchsuite.drive.arrivals import arrival_times
from benchsuite.model.load import Arrivals, Length, Think, seeded

MS = 1_000_000


def first(
    arrivals: Arrivals, count: int, duration: float | None = None, seed: int = 0
) -> list[int]:
    """The first arrivals, in milliseconds."""
    return [round(at / MS) for at in islice(arrival_times(arrivals, duration, seed), count)]


def test_constant_and_bursts() -> None:
    """Evenly from 0 on; or several at once."""
    assert first(Arrivals("constant", 200), 4) == [0, 5, 10, 15]
    assert first(Arrivals("bursts", size=3, every=0.5), 7) == [0, 0, 0, 500, 500, 500, 1000]


def test_a_duration_ends_it_and_its_end_is_no_part() -> None:
    """Two hundred a second for a second are two hundred."""
    assert len(first(Arrivals("constant", 200), 1000, 1.0)) == 200
    assert first(Arrivals("bursts", size=2, every=0.5), 100, 1.0) == [0, 0, 500, 500]


def test_a_constant_rate_does_not_drift() -> None:
    """The hundred-thousandth arrival is where it belongs to the nanosecond."""
    times = arrival_times(Arrivals("constant", 3), None, 0)
    assert next(islice(times, 99_999, None)) == round(99_999 / 3 * 1e9)


@pytest.mark.parametrize(("begin", "end"), [(10.0, 90.0), (90.0, 10.0), (50.0, 50.0)])
def test_a_ramp_has_its_rates_and_its_mean(begin: float, end: float) -> None:
    """Fifty a second on average over ten seconds; the first and the last second at the ends."""
    times = first(Arrivals("ramp", begin, end), 10_000, 10.0)
    assert len(times) == 500
    assert sum(at < 1000 for at in times) == pytest.approx(begin + (end - begin) / 20, abs=1)
    assert sum(at >= 9000 for at in times) == pytest.approx(end - (end - begin) / 20, abs=1)
    assert times == sorted(times)


def test_poisson_arrivals_are_exponential_and_seeded() -> None:
    """By Kolmogorov and Smirnov at a fixed seed; another seed is another schedule."""
    times = list(islice(arrival_times(Arrivals("poisson", 50), None, 1), 3000))
    gaps = [(b - a) / 1e9 for a, b in zip([0, *times], times, strict=False)]
    assert stats.kstest(gaps, "expon", args=(0, 1 / 50)).pvalue > 0.01
    again = list(islice(arrival_times(Arrivals("poisson", 50), None, 1), 3000))
    assert again == times
    assert first(Arrivals("poisson", 50), 5, seed=2) != first(Arrivals("poisson", 50), 5, seed=1)


def test_lengths_stay_in_their_bounds_and_have_their_shape() -> None:
    """Uniform ones reach both; log-normal ones have their median and do not heap up at a bound."""
    even = [Length("uniform", 3, 6).draw(seeded(0, i)) for i in range(500)]
    assert set(even) == {3, 4, 5, 6}
    wide = Length("log_normal", 1, 100_000, 200, 0.5)
    drawn = sorted(wide.draw(seeded(0, i)) for i in range(2001))
    assert drawn[1000] == pytest.approx(200, rel=0.05)
    tight = Length("log_normal", 150, 250, 200, 1.0)
    drawn = [tight.draw(seeded(0, i)) for i in range(2000)]
    assert 150 <= min(drawn) <= max(drawn) <= 250
    assert drawn.count(150) + drawn.count(250) < 100


def test_think_times_are_as_asked() -> None:
    """In seconds; the mean of exponential ones at a fixed seed."""
    assert Think("fixed", 2.0).draw(seeded(0)) == 2.0
    uniform = [Think("uniform", 1.0, 3.0).draw(seeded(0, i)) for i in range(300)]
    assert 1 <= min(uniform) < 1.1 < 2.9 < max(uniform) <= 3
    waits = [Think("exponential", 2.0).draw(seeded(0, i)) for i in range(3000)]
    assert sum(waits) / len(waits) == pytest.approx(2.0, rel=0.05)
