"""When the users of an open loop come, one after the other; pure, and never held in memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import count

from benchsuite.model.load import Arrivals, seeded

_NS = 1_000_000_000


def arrival_times(
    arrivals: Arrivals, duration: float | None, seed: int, recorded_ns: Iterable[int] = ()
) -> Iterator[int]:
    """Nanoseconds from the beginning of the step to each arrival, without end unless by time.

    Args:
        arrivals: The schedule. A ramp needs a duration.
        duration: Seconds; arrivals at or after it are left out. None: without end.
        seed: Of a Poisson process; the others have no chance in them.
        recorded_ns: Of a trace, which ends with them.

    Yields:
        Times that never fall; the first of a constant rate, a ramp and bursts is 0, of a Poisson
        process one exponential gap.
    """
    end_ns = math.inf if duration is None else duration * _NS
    made = (round(seconds * _NS) for seconds in _seconds(arrivals, duration, seed))
    for at_ns in recorded_ns if arrivals.kind == "trace" else made:
        if at_ns >= end_ns:
            return
        yield at_ns


def _seconds(arrivals: Arrivals, duration: float | None, seed: int) -> Iterator[float]:
    match arrivals.kind:
        case "constant":
            yield from (number / arrivals.rate for number in count())
        case "bursts":
            yield from (number // arrivals.size * arrivals.every for number in count())
        case "poisson":
            random, at = seeded(seed, "arrivals"), 0.0
            while True:
                at += random.expovariate(arrivals.rate)
                yield at
        case "ramp":
            yield from _ramp(arrivals.rate, arrivals.to, duration or 0.0)


def _ramp(begin: float, end: float, duration: float) -> Iterator[float]:
    """Arrival n is when `begin * t + (end - begin) * t^2 / (2 * duration)` reaches n."""
    slope = (end - begin) / duration
    for number in count():
        square = begin * begin + 2 * slope * number
        if square < 0:
            return  # a falling ramp that never gives so many
        # the root of the quadratic that does not lose digits where the slope is small
        bottom = begin + math.sqrt(square)
        yield 2 * number / bottom if number else 0.0
