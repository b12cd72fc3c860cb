"""What a load step is made of: arrivals, think times, lengths, and what came of it; no I/O."""

from __future__ import annotations

import math
from random import Random
from typing import Literal

import msgspec

Api = Literal["completion", "completions", "chat", "embedding"]
"""`/completion`, `/v1/completions`, `/v1/chat/completions` and `/v1/embeddings`."""

QUANTILES = ("0.5", "0.9", "0.95", "0.99")
"""Values of the label `quantile`, as they are written."""

MOST_DISTINCT = 100_000
"""Texts of one load step: each is made and kept before its first request."""

DISTINCT_OF_DURATION = 256
"""Texts of a load step that ends by time, unless it says otherwise."""


class Arrivals(msgspec.Struct, frozen=True):
    """When users of an open loop come; computed ahead, whatever the server does.

    `constant` and `poisson` use `rate`, `ramp` goes from `rate` to `to` over the step's duration,
    `bursts` sends `size` at once `every` so many seconds; of a `trace` its file says when.
    """

    kind: Literal["constant", "poisson", "bursts", "ramp", "trace"]
    rate: float = 0.0  # arrivals a second
    to: float = 0.0  # arrivals a second at the end of a ramp
    size: int = 0  # of a burst
    every: float = 0.0  # seconds from burst to burst

    @property
    def mean_rate(self) -> float:
        """Arrivals a second over the whole step; of a trace 0, since its file decides."""
        if self.kind == "bursts":
            return self.size / self.every
        return (self.rate + self.to) / 2 if self.kind == "ramp" else self.rate

    def before(self, seconds: float, duration: float) -> int:
        """Arrivals in the first seconds of a step; of a Poisson process the mean, of a trace 0.

        Args:
            seconds: At most the duration.
            duration: Of the step, in seconds; only a ramp needs it.
        """
        if self.kind == "bursts":
            return self.size * _places(seconds / self.every)
        if self.kind == "ramp":
            slope = (self.to - self.rate) / duration
            return _places(self.rate * seconds + slope * seconds * seconds / 2)
        return (
            round(self.rate * seconds) if self.kind == "poisson" else _places(self.rate * seconds)
        )


def _places(end: float) -> int:
    """Whole numbers from 0 on that are below it, errors of rounding aside."""
    return math.ceil(round(end, 6))


class Think(msgspec.Struct, frozen=True):
    """How long a user waits from an answer to the next request, in seconds."""

    kind: Literal["fixed", "uniform", "exponential"]
    low: float  # fixed: the time itself; exponential: the mean
    high: float = 0.0  # uniform only

    def draw(self, random: Random) -> float:
        """One waiting time, in seconds."""
        if self.kind == "fixed":
            return self.low
        if self.kind == "uniform":
            return random.uniform(self.low, self.high)
        return random.expovariate(1 / self.low)


class Length(msgspec.Struct, frozen=True):
    """How many tokens; bounds are included."""

    kind: Literal["uniform", "log_normal"]
    low: int
    high: int
    median: float = 0.0  # log_normal: before it is cut at the bounds
    sigma: float = 0.0  # log_normal: standard deviation of the logarithm

    def draw(self, random: Random) -> int:
        """One length. A log-normal one is drawn from what lies between its bounds, by its inverse
        distribution, so that nothing heaps up at a bound and each takes one random number."""
        if self.kind == "uniform":
            return random.randint(self.low, self.high)
        from statistics import NormalDist  # takes 10 ms to import

        normal = NormalDist(math.log(self.median), self.sigma)
        below = normal.cdf(math.log(self.low - 0.5))
        above = normal.cdf(math.log(self.high + 0.5))
        share = below + (above - below) * random.random()
        value = self.low
        if 0 < share < 1:
            value = round(math.exp(normal.inv_cdf(share)))
        return min(max(value, self.low), self.high)


Over = Literal["concurrency", "rate"]
"""What a sweep changes from stage to stage."""

StageVerdict = Literal["met", "not met", "uncertain"]
"""Whether a stage met the objectives of its sweep."""


class Objective(msgspec.Struct, frozen=True):
    """What a stage of a sweep must meet."""

    metric: str  # a latency of a load step, or `error_share`
    quantile: str | None  # one of `QUANTILES`; None of `error_share`
    limit: float  # milliseconds, or a share from 0 to 1

    @property
    def words(self) -> str:
        """In words: `p95 ttft_ms at most 500`."""
        quantile = "" if self.quantile is None else f"p{float(self.quantile) * 100:g} "
        return f"{quantile}{self.metric} at most {self.limit:g}"


class StageSummary(msgspec.Struct, frozen=True):
    """One stage of a sweep; its figures are measurements labelled `stage` and `step`."""

    stage: str  # the level as the label says it
    level: float
    verdict: StageVerdict | None  # None where the sweep has no objectives
    why: str  # a sentence
    saturated: str = ""  # why the server was over-saturated; empty where it was not


class SweepSummary(msgspec.Struct, frozen=True):
    """What one sweep of a launch came to."""

    name: str
    over: Over
    stages: tuple[StageSummary, ...]  # in the order they were driven
    ended: str  # why there are no further stages
    warnings: tuple[str, ...] = ()


class LoadSummary(msgspec.Struct, frozen=True):
    """What one load step of a launch came to, beside its measurements."""

    name: str
    sent: int  # requests, those of warm-up included
    measured: int  # of them after warm-up
    failed: int  # answered with an error, after warm-up
    timed_out: int  # given up after the step's `timeout`, after warm-up
    distinct_prompts: int  # different texts, histories of chats apart
    seconds: float  # from before the first request to after the last answer
    most_in_flight: int  # at one moment
    warnings: tuple[str, ...] = ()
    source: str = ""  # what was taken of which file, in words; empty where prompts were made
    source_sha256: str = ""  # of the file's bytes, as sha256sum prints it
    skipped: int = 0  # requests of it that no slot could hold
    stage: str = ""  # of a sweep; empty for a load step
    asked_per_second: float | None = None  # by the schedule, on average; None of a closed loop
    cut: bool = False  # whether it ended before its end, by an interruption or a fault
    # of one that was cut: figures so far, in words; they are no measurements, so that no gate
    # judges them and no baseline takes them
    so_far: tuple[str, ...] = ()


def seeded(seed: int, *words: object) -> Random:
    """A generator of its own for one purpose: the same for the same words, on every machine."""
    return Random(":".join(map(str, (seed, *words))))
