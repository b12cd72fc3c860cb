"""Where a series of noisy values changed its level, and whether it drifts; pure.

Steps are found by E-divisive means with a permutation test (Matteson and James, "A Nonparametric
Approach for Multiple Change Point Analysis of Multivariate Data", JASA 109, 2014): nothing is
assumed of the noise but that it is the same throughout, and the share of quiet series in which a
step is seen is the significance level itself. MongoDB and Apache Cassandra watch their benchmarks
with it. PELT (`ruptures`) was not taken: its penalty needs the noise to be known, and no penalty
holds a rate of false alarms at 10 as well as at 100 points.

Drift is found by the test of Mann and Kendall, its size by the slope of Theil and Sen; a ramp or
steps, whichever leaves less, is what a series is said to be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from scipy import stats

MIN_POINTS = 10
"""Fewer cannot reach the level: 10 values have 252 ways to be cut into halves, 8 have 70."""

LEVEL = 0.01
"""The share of quiet series in which a step is seen, and likewise a drift."""

MAX_POINTS = 200
"""The newest that are looked at; time grows with their square."""

_MIN_SIDE = 3  # values on either side of a step; one or two are no level
_MIN_RAMP = 9  # runs from a drift's start to its end, and a quarter of all: less is like a step
_PERMUTATIONS = 499
_BATCH = 25  # permutations at once
_SEED = 20140109  # fixed: the same series gives the same answer every time

_Floats = npt.NDArray[np.float64]
_Item = TypeVar("_Item")


class Step(msgspec.Struct, frozen=True):
    """The level changed between two values."""

    index: int  # of the first value at the new level, from 0
    before: float  # median of the level before
    after: float  # median of the level from here on
    p_value: float

    @property
    def percent(self) -> float | None:
        """The change in percent of the level before; None where that is 0."""
        return _percent(self.before, self.after)


class Drift(msgspec.Struct, frozen=True):
    """The level moved little by little."""

    start: int  # index of the last value before it moves, from 0
    end: int  # index of the value where it has stopped, or of the last
    before: float  # level at the start
    after: float  # level at the end
    slope: float  # change from one value to the next
    p_value: float

    @property
    def percent(self) -> float | None:
        """The whole change in percent of the level at the start; None where that is 0."""
        return _percent(self.before, self.after)


class Findings(msgspec.Struct, frozen=True):
    """What was found in one series; indices are those of the values given."""

    steps: tuple[Step, ...] = ()
    drifts: tuple[Drift, ...] = ()
    # why nothing could be looked for, or what was left out; empty where all was looked at
    notes: tuple[str, ...] = ()


def find_changes(values: Sequence[float]) -> Findings:
    """Steps and drifts of a noisy series, oldest value first.

    Args:
        values: One a run. Values that are no finite number are passed over, with a note.
    """
    usable = [i for i, value in enumerate(values) if math.isfinite(value)]
    notes = []
    if len(usable) < len(values):
        notes.append(f"{_count(len(values) - len(usable), 'value')} passed over: not finite")
    if len(usable) > MAX_POINTS:
        notes.append(f"looked at the newest {MAX_POINTS} of {len(usable)} values")
        usable = usable[-MAX_POINTS:]
    if len(usable) < MIN_POINTS:
        notes.append(f"{_count(len(usable), 'value')}: changes can be told from {MIN_POINTS} on")
        return Findings(notes=tuple(notes))
    series = np.array([values[i] for i in usable], dtype=np.float64)
    # by a power of two, which is exact, so that no square of a huge or tiny value is lost
    exponent = int(np.frexp(np.abs(series).max())[1])
    steps, drifts = _explain(np.ldexp(series, -exponent))

    def unscaled(value: float) -> float:
        return float(np.ldexp(value, exponent))

    return Findings(
        tuple(
            Step(usable[s.index], unscaled(s.before), unscaled(s.after), s.p_value) for s in steps
        ),
        tuple(
            Drift(
                start=usable[d.start],
                end=usable[d.end],
                before=unscaled(d.before),
                after=unscaled(d.after),
                slope=unscaled(d.slope),
                p_value=d.p_value,
            )
            for d in drifts
        ),
        tuple(notes),
    )


def exact_steps(levels: Sequence[_Item], *, same: Callable[[_Item, _Item], bool]) -> list[int]:
    """Indices at which a series of exact values differs from the level before.

    Args:
        levels: One a run, oldest first.
        same: Whether two stand for one level; each is held against the first of its level, so
            that many small steps cannot pass as one.
    """
    found = []
    start = 0
    for i in range(1, len(levels)):
        if not same(levels[start], levels[i]):
            found.append(i)
            start = i
    return found


def _explain(series: _Floats) -> tuple[list[Step], list[Drift]]:
    """Steps, or one ramp where it leaves less than they do, or drifts between steps."""
    cuts = e_divisive(series)
    p_value = mann_kendall(series)
    if p_value <= LEVEL:
        # something moved; a single step that the test of steps could not see is one nevertheless
        told = cuts or [(_least_squares_cut(series), p_value)]
        ramp = _best_ramp(series)
        if ramp.criterion < _criterion_of_steps(series, [at for at, _ in told]):
            return [], [_drift(series, ramp.start, ramp.end, p_value)]
        cuts = told
    bounds = [0, *(at for at, _ in cuts), len(series)]
    parts = list(pairwise(bounds))
    medians = [float(np.median(series[a:b])) for a, b in parts]
    steps = [Step(at, medians[i], medians[i + 1], p) for i, (at, p) in enumerate(cuts)]
    if not cuts:
        return steps, []
    drifts = []
    for a, b in parts:
        p_value = mann_kendall(series[a:b]) if b - a >= MIN_POINTS else 1.0
        if p_value <= LEVEL / len(parts):  # Bonferroni
            ramp = _best_ramp(series[a:b])
            drifts.append(_drift(series, a + ramp.start, a + ramp.end, p_value))
    return steps, drifts


def mann_kendall(values: Sequence[float] | _Floats) -> float:
    """Two-sided p-value of the test of Mann and Kendall that values neither rise nor fall.

    Kendall's tau between values and their order (Mann, Econometrica 13, 1945), exact for few
    values without ties. 1 where all are equal.
    """
    series = np.asarray(values, dtype=np.float64)
    if len(series) < 2 or bool(np.all(series == series[0])):
        return 1.0
    return float(stats.kendalltau(np.arange(len(series)), series).pvalue)


def sen_slope(values: Sequence[float] | _Floats) -> float:
    """The median of the slopes between all pairs of values (Sen, JASA 63, 1968), per value."""
    return float(stats.theilslopes(np.asarray(values, dtype=np.float64)).slope)


def e_divisive(
    values: Sequence[float] | _Floats, *, level: float = LEVEL, min_side: int = _MIN_SIDE
) -> list[tuple[int, float]]:
    """Where the level changes, by E-divisive means with exponent 1.

    The best cut of all pieces is taken, tested against cuts of the same pieces with their values
    shuffled, and so on until one is not significant.

    Args:
        values: Finite.
        level: Significance.
        min_side: The fewest values on either side of a cut.

    Returns:
        For each cut the index of the first value after it, in order, and its p-value.
    """
    series = np.asarray(values, dtype=np.float64)
    random = np.random.default_rng(_SEED)
    distances = np.abs(series[:, None] - series[None, :])
    cuts: list[tuple[int, float]] = []
    while True:
        bounds = sorted([0, *(at for at, _ in cuts), len(series)])
        pieces = [(a, distances[a:b, a:b]) for a, b in pairwise(bounds) if b - a >= 2 * min_side]
        best, at = 0.0, -1
        for start, piece in pieces:
            gains = _gains(piece, np.arange(len(piece))[None, :], min_side)[0]
            cut = int(np.argmax(gains))
            if gains[cut] > best:
                best, at = float(gains[cut]), start + cut + min_side
        if at < 0:
            break
        p_value = _p_value([piece for _, piece in pieces], best, min_side, level, random)
        if p_value > level:
            break
        cuts.append((at, p_value))
    return sorted(cuts)


def _gains(distances: _Floats, orders: npt.NDArray[np.int_], min_side: int) -> _Floats:
    """The statistic of every cut of a piece, its values in each of the orders.

    Of sizes m and n: `mn/(m+n) (2 between - within - within)`, each the mean distance of pairs
    (equations 5 and 6 of the paper).

    Args:
        distances: Between the values of the piece.
        orders: One permutation of the values a row.
        min_side: The fewest values on either side of a cut.

    Returns:
        A row for each order, a column for each cut, the first behind `min_side` values.
    """
    n = len(distances)
    to_earlier = distances[orders[:, :, None], orders[:, None, :]]
    # sums over ordered pairs of the left part, growing by one value at a time
    left = 2 * np.cumsum(np.einsum("bij,ij->bi", to_earlier, np.tri(n, k=-1)), axis=1)
    to_all = np.cumsum(distances.sum(axis=1)[orders], axis=1)
    m = np.arange(min_side, n - min_side + 1)
    k = n - m
    left, to_all, total = left[:, m - 1], to_all[:, m - 1], to_all[:, -1:]
    between = to_all - left
    right = total - left - 2 * between
    found: _Floats = (m * k / n) * (
        2 * between / (m * k) - left / (m * (m - 1)) - right / (k * (k - 1))
    )
    return found


def _p_value(
    pieces: Sequence[_Floats],
    observed: float,
    min_side: int,
    level: float,
    random: np.random.Generator,
) -> float:
    """The share of shuffles whose best cut is as good; stops once it must exceed the level."""
    allowed = math.floor(level * (_PERMUTATIONS + 1)) - 1
    bar = observed * (1 - 1e-9)  # equal but for rounding counts as equal
    as_good = 0
    for done in range(_BATCH, _PERMUTATIONS + _BATCH, _BATCH):
        best = np.zeros(min(_BATCH, _PERMUTATIONS - done + _BATCH))
        for piece in pieces:
            orders = np.tile(np.arange(len(piece)), (len(best), 1))
            gains = _gains(piece, random.permuted(orders, axis=1), min_side)
            best = np.maximum(best, gains.max(axis=1))
        as_good += int(np.count_nonzero(best >= bar))
        if as_good > allowed:
            return (as_good + 1) / (done + 1)
    return (as_good + 1) / (_PERMUTATIONS + 1)


def _least_squares_cut(series: _Floats) -> int:
    """The cut into two levels that leaves least."""
    n = len(series)
    m = np.arange(_MIN_SIDE, n - _MIN_SIDE + 1)
    sums = np.cumsum(series - series.mean())[m - 1]
    return int(m[np.argmax(sums * sums * n / (m * (n - m)))])


class _Ramp(msgspec.Struct, frozen=True):
    start: int
    end: int
    criterion: float  # Bayesian information criterion; smaller is better


def _best_ramp(series: _Floats) -> _Ramp:
    """The level, slope, start and end of the line with flat ends that leaves least."""
    n = len(series)
    x = np.arange(n, dtype=np.float64)
    y = series - series.mean()
    whole = float(y @ y)
    best = _Ramp(0, n - 1, math.inf)
    least = max(_MIN_RAMP, n // 4)
    for s in range(n - least):
        ends = np.arange(s + least, n, dtype=np.float64)
        shape = np.minimum(np.maximum(x[None, :], s), ends[:, None])
        shape -= shape.mean(axis=1, keepdims=True)
        left = whole - (shape @ y) ** 2 / (shape * shape).sum(axis=1)
        # a bend counts twice: the best of all pairs of places fits noise better than one given
        bends = (s > 0) + (ends < n - 1)
        criteria = _criterion(np.maximum(left, 0.0), n, 2 + 2 * bends, whole)
        at = int(np.argmin(criteria))
        if criteria[at] < best.criterion:
            best = _Ramp(s, int(ends[at]), float(criteria[at]))
    return best


def _criterion_of_steps(series: _Floats, cuts: Sequence[int]) -> float:
    bounds = [0, *cuts, len(series)]
    left = sum(float(np.sum((series[a:b] - series[a:b].mean()) ** 2)) for a, b in pairwise(bounds))
    whole = float(np.sum((series - series.mean()) ** 2))
    parameters = np.array([1 + 2 * len(cuts)])  # levels and places
    return float(_criterion(np.array([left]), len(series), parameters, whole)[0])


def _criterion(left: _Floats, n: int, parameters: npt.NDArray[np.int_], whole: float) -> _Floats:
    """The Bayesian information criterion for normal noise; exact fits are kept finite."""
    floor = 1e-12 * whole / n + 1e-300
    found: _Floats = n * np.log(left / n + floor) + parameters * math.log(n)
    return found


def _drift(series: _Floats, start: int, end: int, p_value: float) -> Drift:
    slope = sen_slope(series[start : end + 1])
    middle = float(np.median(series[start : end + 1]))
    half = slope * (end - start) / 2
    return Drift(start, end, middle - half, middle + half, slope, p_value)


def _percent(before: float, after: float) -> float | None:
    return None if before == 0 else (after - before) / abs(before) * 100


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
