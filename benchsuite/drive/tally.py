"""What a load step came to so far: sums and spans, however many requests there are.

Of each request counts are added up and spans of time classed; the reply itself is not kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchsuite.client.reply import Reply, gaps_ns
from benchsuite.drive.spans import Spans
from benchsuite.metrics.catalogue import OF_REPLIES
from benchsuite.model.load import Arrivals, Objective

COUNTS = ("prompt_tokens", "cached_tokens", "evaluated_tokens", "output_tokens")
"""Token counts of replies that are added up, by metric."""

_BEHIND_NS = 100_000_000
"""Bytes that waited so long until we looked at them are a sign that we cannot keep up."""
_BEHIND_SHARE = 0.01
"""From this share of replies on."""

_AT_ONCE_SHARE = 0.1
"""The pace of a load is known where that of all but this share of its replies is."""

SPANS = ("ttft_ms", "e2e_ms", "tpot_ms", "itl_ms", "wait_ms", "ttft_from_due_ms", "e2e_from_due_ms")
"""Spans of time, by metric."""

OF_FIRST = ("ttft_ms", "ttft_from_due_ms")
"""Those of them that end with the first token."""

LATE_NS = 100_000_000
"""A request that we send later than this was sent too late, whatever its latency."""

LEAST_LATE_NS = 10_000_000
"""An operating system that is busy wakes a process some milliseconds late."""


def late_limit_ns(arrivals: Arrivals | None) -> int:
    """How late we may send a request of a load step, in nanoseconds.

    It depends on nothing that was measured: latency is longer where we are slow, so that a share
    of it allows most to a client that is worst. What falls into the gap before the next arrival
    changes the schedule least, and so much is allowed, within bounds.

    Args:
        arrivals: Of an open loop; None of a closed one, which has no schedule.
    """
    if arrivals is None or not arrivals.mean_rate:
        return LATE_NS
    return min(LATE_NS, max(LEAST_LATE_NS, round(1e9 / arrivals.mean_rate)))


class Tally:
    """Sums and spans of one load step.

    Args:
        late_ns: A request that we send later than this is counted as late.
        objectives: What a request must meet to be counted in `good`.

    Attributes:
        good: Served requests after warm-up that met every objective.
        sent: Requests sent, those of warm-up included.
        served: Answered requests, those of warm-up included.
        served_after: Those of them after warm-up.
        tokenless: Served requests without any token.
        tokenless_after: Those of them after warm-up.
        warm_ups: Requests of warm-up that have ended, served or not.
        refused: Requests answered with an error, or whose connection was lost, those of warm-up
            included.
        lost: Those of them whose connection was lost.
        refused_after: Those of them after warm-up.
        timed_out: Requests given up, those of warm-up included.
        timed_out_after: Those of them after warm-up.
        first_failure: The first error or timeout in a sentence; empty without one.
        spans: By metric, of served requests after warm-up, in nanoseconds; `wait_ms` of failed ones
            too.
        lateness: How late requests after warm-up were sent through our own fault.
        late_ns: More than this of it is too late.
        late_after: Requests after warm-up that were sent too late.
        held_up_after: Replies after warm-up of which bytes were left in the socket.
        behind_after: Replies after warm-up that we looked at too late, those with them.
        at_once_after: By metric of `OF_REPLIES`, replies after warm-up of which it is not known,
            since their tokens came at one moment.
        held: How long a cap of the rate held them.
    """

    def __init__(self, late_ns: int = LATE_NS, objectives: Sequence[Objective] = ()) -> None:
        self.late_ns = late_ns
        self.late_after = 0
        self._objectives = [one for one in objectives if one.quantile is not None]
        self.good = 0
        self.sent = 0
        self.served = 0
        self.served_after = 0
        self.tokenless = 0
        self.tokenless_after = 0
        self.warm_ups = 0
        self.refused = 0
        self.refused_after = 0
        self.lost = 0
        self.timed_out = 0
        self.timed_out_after = 0
        self.first_failure = ""
        self.spans = {name: Spans() for name in SPANS}
        self.lateness = Spans()
        self.held = Spans()
        self.held_up_after = 0
        self.behind_after = 0
        self.at_once_after = dict.fromkeys(OF_REPLIES, 0)
        self._sums = dict.fromkeys(COUNTS, 0)
        self._untold: set[str] = set()  # counts that some reply lacks
        self._waits_untold = 0  # of failed requests after warm-up
        self._output_after = 0
        self._began_ns: int | None = None  # of requests after warm-up
        self._ended_ns = 0

    @property
    def is_empty(self) -> bool:
        """Whether no request was sent."""
        return not (self.sent or self.served or self.refused or self.timed_out)

    @property
    def failed_after(self) -> int:
        """Requests after warm-up that brought no reply."""
        return self.refused_after + self.timed_out_after

    def lacking(self, name: str) -> int:
        """Requests after warm-up that one of `SPANS` is later of than of any other.

        A request without a reply never ended, and one without a token never came to its first. It
        has waited before it was sent, as any other; only where nobody knows how long, that counts.
        Tokens that came at one moment may have been made at any pace.
        """
        if name == "wait_ms":
            return self._waits_untold
        if name in OF_REPLIES:
            return self.at_once_after[name] if name == "tpot_ms" else 0
        return self.failed_after + (self.tokenless_after if name in OF_FIRST else 0)

    def lacking_words(self, name: str) -> str:
        """What those requests did not bring: `reply`, `token`, `reply or token`, `pace`."""
        if name in OF_REPLIES:
            return "pace (tokens at one moment)"
        if name not in OF_FIRST or not self.tokenless_after:
            return "reply"
        return "reply or token" if self.failed_after else "token"

    @property
    def span_ns(self) -> int:
        """From sending the first request after warm-up to the end of the last of them.

        One that failed or was given up took its time too, and ends when it was given up.
        """
        return 0 if self._began_ns is None else self._ended_ns - self._began_ns

    def sum_of(self, name: str) -> int | None:
        """A count of `COUNTS` over all replies; None where one of them lacks it, or none came."""
        return None if not self.served or name in self._untold else self._sums[name]

    @property
    def output_after(self) -> int | None:
        """Tokens generated after warm-up; None where that is not known."""
        return None if not self.served_after or self._output_untold else self._output_after

    @property
    def _output_untold(self) -> bool:
        return "output_tokens" in self._untold

    @property
    def fell_behind(self) -> int:
        """Replies after warm-up with stamps that are late through our fault; 0 for a few of many.

        What comes meanwhile is read together, and has one stamp.
        """
        few = not self.held_up_after and self.behind_after <= _BEHIND_SHARE * self.served_after
        return 0 if few else self.behind_after

    def pace_doubt(self, name: str) -> str:
        """Why a metric of `OF_REPLIES` cannot be told; empty where it can, also without a few.

        The replies that tell theirs may be unlike those whose tokens came at one moment.
        """
        untold = self.at_once_after.get(name, 0)
        if untold <= _AT_ONCE_SHARE * self.served_after:
            return ""
        return f"the tokens of {untold} of {self.served_after} replies came at one moment"

    def sending(self, late_ns: int, *, warm_up: bool) -> None:
        """Take a request that is about to be sent.

        Args:
            late_ns: From when it could have been sent to now.
            warm_up: Whether its times are left out.
        """
        self.sent += 1
        if not warm_up:
            self.lateness.add(late_ns)
            self.late_after += late_ns > self.late_ns

    def take(self, reply: Reply, due_ns: int, *, warm_up: bool) -> None:
        """Take a reply to a request that was due at a moment of the monotonic clock."""
        self.served += 1
        self._count(reply)
        self.warm_ups += warm_up
        stamps = reply.stamps
        self.tokenless += not stamps.first_token_ns
        if warm_up:
            return
        self.tokenless_after += not stamps.first_token_ns
        self.good += all(_meets(one, reply, due_ns) for one in self._objectives)
        self._output_after += reply.generated_tokens or 0
        self._under_way((stamps.sent_ns, stamps.end_ns))
        self.served_after += 1
        spans = self.spans
        spans["e2e_ms"].add(stamps.end_ns - stamps.sent_ns)
        spans["e2e_from_due_ms"].add(stamps.end_ns - due_ns)
        spans["wait_ms"].add(stamps.sent_ns - due_ns)
        self.held.add(stamps.held_ns)
        self.held_up_after += bool(stamps.held_up)
        self.behind_after += bool(stamps.held_up) or stamps.behind_ns > _BEHIND_NS
        if stamps.first_token_ns:
            spans["ttft_ms"].add(stamps.first_token_ns - stamps.sent_ns)
            spans["ttft_from_due_ms"].add(stamps.first_token_ns - due_ns)
            tokens = reply.output_tokens
            span_ns = stamps.last_token_ns - stamps.first_token_ns
            if tokens is not None and tokens > 1 and span_ns > 0:
                spans["tpot_ms"].add(span_ns // (tokens - 1))
        gaps = gaps_ns(reply)
        for gap in gaps:
            spans["itl_ms"].add(gap)
        self.at_once_after["tpot_ms"] += _is_at_once(reply)
        self.at_once_after["itl_ms"] += _has_untold_gaps(reply, gaps)

    def fail(
        self,
        words: str,
        *,
        warm_up: bool,
        timed_out: bool = False,
        span_ns: tuple[int, int] | None = None,
        wait_ns: int | None = None,
    ) -> None:
        """Take a request that brought no reply.

        Args:
            words: Which, in words.
            warm_up: Whether it is left out of rates.
            timed_out: Whether it was given up, rather than answered with an error.
            span_ns: When it was sent and had failed; None where that is not known.
            wait_ns: From when it was due to its being handed to the HTTP client, or to when the
                cap of the rate let it go; None where that is not known.
        """
        if timed_out:
            self.timed_out += 1
            self.timed_out_after += not warm_up
        else:
            self.refused += 1
            self.refused_after += not warm_up
        self.first_failure = self.first_failure or words
        self.warm_ups += warm_up
        if warm_up:
            return
        if span_ns is not None:
            self._under_way(span_ns)
        if wait_ns is None:
            self._waits_untold += 1
        else:
            self.spans["wait_ms"].add(wait_ns)

    def _under_way(self, span_ns: tuple[int, int]) -> None:
        """A request after warm-up was under way from one moment to the other."""
        began_ns, ended_ns = span_ns
        self._began_ns = began_ns if self._began_ns is None else min(self._began_ns, began_ns)
        self._ended_ns = max(self._ended_ns, ended_ns)

    def _count(self, reply: Reply) -> None:
        for name, count in (
            ("prompt_tokens", reply.prompt_tokens),
            ("cached_tokens", reply.cached_tokens),
            ("evaluated_tokens", reply.evaluated_tokens),
            ("output_tokens", reply.generated_tokens),
        ):
            if count is None:
                self._untold.add(name)
            else:
                self._sums[name] += count


def _meets(objective: Objective, reply: Reply, due_ns: int) -> bool:
    """Whether one request meets an objective; of `itl_ms` its own gaps at that quantile do.

    What a reply does not have (gaps, where it is one token) cannot miss; a first token of which
    nothing is known does, and the pace of several tokens that came at one moment.
    """
    stamps, tokens = reply.stamps, reply.output_tokens
    span_ns: float = 0.0
    match objective.metric:
        case "itl_ms":
            gaps = sorted(gaps_ns(reply))
            if _has_untold_gaps(reply, gaps):
                return False
            if gaps:
                rank = math.ceil(float(objective.quantile or 1) * len(gaps) - 1e-9)
                span_ns = gaps[max(1, rank) - 1]
        case "tpot_ms":
            if _is_at_once(reply):
                return False
            if stamps.first_token_ns and tokens is not None and tokens > 1:
                span_ns = (stamps.last_token_ns - stamps.first_token_ns) / (tokens - 1)
        case "ttft_ms" | "ttft_from_due_ms":
            if not stamps.first_token_ns:
                return False
            begin_ns = stamps.sent_ns if objective.metric == "ttft_ms" else due_ns
            span_ns = stamps.first_token_ns - begin_ns
        case "e2e_from_due_ms":
            span_ns = stamps.end_ns - due_ns
        case _:
            span_ns = stamps.end_ns - stamps.sent_ns
    return span_ns <= objective.limit * 1e6


def _is_at_once(reply: Reply) -> bool:
    """Whether its tokens came at one moment, several of them."""
    stamps, tokens = reply.stamps, reply.output_tokens
    several = bool(stamps.first_token_ns) and tokens is not None and tokens > 1
    return several and stamps.last_token_ns <= stamps.first_token_ns


def _has_untold_gaps(reply: Reply, gaps: Sequence[int]) -> bool:
    """Whether there were gaps between its tokens, and none is known."""
    tokens = reply.output_tokens
    return not gaps and tokens is not None and tokens > 1 and not reply.copies
