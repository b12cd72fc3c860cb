"""Decode speed over time, in few figures however long it is watched.

Replies are put into spans of equal length. Once there are too many, neighbours are joined and each
span is twice as long. A span keeps a sample of its replies, so that its median can be told.
"""

from __future__ import annotations

from random import Random

import msgspec

from benchsuite.drive.served import Served

MOST_SPANS = 240
"""Spans that are kept at most; they are never fewer than half as many once there were so many."""

_KEPT = 25  # replies of a span: its median is within 5% of that of all at a spread of 20%
_FIRST_NS = 250_000_000


class _Span:
    """One stretch of time: how many replies it had, and a random sample of them (Vitter's R)."""

    def __init__(self) -> None:
        self.seen = 0
        self.kept: list[float] = []

    def add(self, value: float, random: Random) -> None:
        self.seen += 1
        if len(self.kept) < _KEPT:
            self.kept.append(value)
        elif (place := random.randrange(self.seen)) < _KEPT:
            self.kept[place] = value

    def join(self, other: _Span, random: Random) -> None:
        """Take the other's replies too; each side is drawn from by its share of replies."""
        total = self.seen + other.seen
        pools = [random.sample(s.kept, len(s.kept)) for s in (self, other)]
        share = self.seen / total if total else 0.0
        kept: list[float] = []
        while len(kept) < _KEPT and (pools[0] or pools[1]):
            first = bool(pools[0]) and (not pools[1] or random.random() < share)
            kept.append(pools[0 if first else 1].pop())
        self.kept, self.seen = kept, total


class SpanMedian(msgspec.Struct, frozen=True):
    """One span of time."""

    at_s: float  # its middle, since the first reply
    tokens_per_second: float  # median of its replies
    replies: int


class SpeedTrend:
    """Takes replies as they come and keeps their speeds by spans of time.

    Attributes:
        replies: Taken so far.
    """

    def __init__(self, seed: int = 0) -> None:
        self.replies = 0
        self._random = Random(seed)
        self._width_ns = _FIRST_NS
        self._began_ns: int | None = None
        self._spans: dict[int, _Span] = {}

    def add(self, at_ns: int, tokens_per_second: float) -> None:
        """Take one reply, at a moment of the monotonic clock; one before the first counts as it."""
        if self._began_ns is None:
            self._began_ns = at_ns
        self.replies += 1
        place = max(0, at_ns - self._began_ns) // self._width_ns
        while place >= MOST_SPANS:
            self._widen()
            place = max(0, at_ns - self._began_ns) // self._width_ns
        self._spans.setdefault(place, _Span()).add(tokens_per_second, self._random)

    def _widen(self) -> None:
        joined: dict[int, _Span] = {}
        for place in sorted(self._spans):
            span = self._spans[place]
            if place // 2 in joined:
                joined[place // 2].join(span, self._random)
            else:
                joined[place // 2] = span
        self._spans = joined
        self._width_ns *= 2

    def spans(self) -> list[SpanMedian]:
        """Every span that had a reply, in order."""
        return [
            SpanMedian(
                (place + 0.5) * self._width_ns / 1e9,
                _median(self._spans[place].kept),
                self._spans[place].seen,
            )
            for place in sorted(self._spans)
        ]


class SpeedTrends:
    """The decode speed of every load step, by the server's own `timings`."""

    def __init__(self) -> None:
        self.steps: dict[str, SpeedTrend] = {}

    def take(self, served: Served) -> None:
        """Take a reply of a load step; warm-up, and what tells no speed, is passed over."""
        step, speed = served.labels.get("step"), served.reply.timings.predicted_per_second
        if step is None or served.warm_up or not speed or speed < 0:
            return
        self.steps.setdefault(step, SpeedTrend()).add(served.reply.stamps.end_ns, speed)


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
