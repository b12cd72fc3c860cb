"""What one request brought: text, token counts, timings, and when each part came.

Stamps are taken where bytes leave the socket (`client/network.py`): `sent_ns` when the request's
last byte was handed to it, the others when the last byte of the head, of an event or of the body
had come.
"""

from __future__ import annotations

import itertools
import time

import msgspec


class Stamps(msgspec.Struct, frozen=True):
    """When things happened, in integer nanoseconds of the monotonic clock; 0 where they did not."""

    scheduled_ns: int  # before any wait of ours (rate cap)
    sent_ns: int
    headers_ns: int = 0
    first_token_ns: int = 0
    last_token_ns: int = 0
    end_ns: int = 0
    held_up: int = 0  # times that bytes were left in the socket, unread: later stamps are late
    behind_ns: int = 0  # the longest that stamped bytes waited until we looked at them
    let_go_ns: int = 0  # when the rate cap let it go, before a connection was made; 0 without a cap

    @property
    def held_ns(self) -> int:
        """How long the rate cap held the request."""
        return self.let_go_ns - self.scheduled_ns if self.let_go_ns else 0


class Timings(msgspec.Struct, frozen=True):
    """The server's own `timings`; None where this build does not send the field."""

    cache_n: int | None = None  # prompt tokens from the cache; since Sep 2025 (#15827)
    prompt_n: int | None = None  # prompt tokens evaluated now
    prompt_ms: float | None = None
    predicted_n: int | None = None
    predicted_ms: float | None = None  # leaves out the first token
    predicted_per_second: float | None = None


class Copy(msgspec.Struct, frozen=True):
    """One of several completions of a prompt. Counts are None where the server does not tell."""

    text: str
    cached_tokens: int | None
    evaluated_tokens: int | None  # of the prompt that it shares with the others
    output_tokens: int | None
    slot: int | None  # where the reply names it


class Reply(msgspec.Struct, frozen=True):
    """One finished request. Counts are None where the server does not tell them.

    Of several completions of one prompt (`n_cmpl`) text, counts and slot are the first one's.
    """

    text: str  # reasoning, if any, then content
    content: str  # what belongs into the conversation's history
    prompt_tokens: int | None  # the whole prompt
    cached_tokens: int | None
    evaluated_tokens: int | None
    output_tokens: int | None
    slot: int | None  # where the reply names it
    finish: str  # `length`, `stop`, `limit`, ...
    truncated: bool
    timings: Timings
    stamps: Stamps
    token_ns: tuple[int, ...] = ()  # arrival of each token event
    # `prompt`, `cached`, `evaluated`, `output` -> the field that told it: `timings.cache_n`
    sources: dict[str, str] = {}
    copies: tuple[Copy, ...] = ()  # all completions, the first one too, where several were asked
    # tokens that came with each event of `token_ns`, as the server's running counts tell, else one
    # an event that carries text; empty: one each
    event_tokens: tuple[int, ...] = ()

    @property
    def generated_tokens(self) -> int | None:
        """Tokens generated in all completions; None where one of them does not tell."""
        if not self.copies:
            return self.output_tokens
        counts = [copy.output_tokens for copy in self.copies]
        return None if None in counts else sum(count or 0 for count in counts)


class Embedded(msgspec.Struct, frozen=True):
    """The embeddings of one request."""

    vectors: tuple[bytes, ...]  # 32-bit little-endian floats each; several without pooling
    stamps: Stamps  # without tokens
    prompt_tokens: int | None = None  # where the server tells (`usage` of `/v1/embeddings`)

    @property
    def reply(self) -> Reply:
        """As a reply without text: it counts no cached, evaluated or generated tokens."""
        counted = (self.prompt_tokens, None, None, None)
        return Reply("", "", *counted, None, "", False, Timings(), self.stamps)


def gaps_ns(reply: Reply) -> tuple[int, ...]:
    """How long each token, or group of tokens, was waited for: inter-token latency (ITL).

    A gap lies between two arrivals, and what came at one moment is one arrival: several tokens in
    an event (held-back characters), or several events in one piece off the socket (a speculated
    run). It is counted once whatever number of tokens ended it, neither divided among them nor
    followed by gaps of 0: a reader waited so long, and then had them all. The pace per token is
    `tpot_ms`. So a reply has at most one gap less than tokens.

    Returns:
        Nanoseconds, in order; empty for less than two arrivals, and for several completions of
        one prompt, whose tokens come interleaved.
    """
    if reply.copies:
        return ()
    arrivals = list(dict.fromkeys(reply.token_ns))
    return tuple(after - before for before, after in itertools.pairwise(arrivals))


class Stopwatch:
    """The moments of one request, filled in as they come.

    Args:
        request_id: Sent with the request; None sends none.

    Attributes:
        at_ns: When the last byte of what is looked at now had come; 0 before anything has.
        complete: Whether the last event of a stream has come, told by whoever takes its events.
    """

    def __init__(self, request_id: str | None = None) -> None:
        self.request_id = request_id
        self.scheduled_ns = time.monotonic_ns()
        self.sent_ns = self.scheduled_ns
        self.headers_ns = 0
        self.at_ns = 0
        self.complete = False
        self.end_ns = 0
        self.held_up = 0
        self.behind_ns = 0
        self.let_go_ns = 0
        self.tokens_ns: list[int] = []
        self.counts: list[int] = []

    def at(self, came_ns: int) -> None:
        """Bytes are looked at now that came at `came_ns`."""
        self.at_ns = came_ns
        self.behind_ns = max(self.behind_ns, time.monotonic_ns() - came_ns)

    def tokens(self, count: int) -> None:
        """So many tokens have come with the event at `at_ns`; of 0 nothing is kept."""
        if count:
            self.tokens_ns.append(self.at_ns or time.monotonic_ns())
            self.counts.append(count)

    def timed(self, reply: Reply) -> Reply:
        """`reply` with what is known of each of its tokens."""
        counts = () if all(count == 1 for count in self.counts) else tuple(self.counts)
        return msgspec.structs.replace(
            reply, stamps=self.read(), token_ns=tuple(self.tokens_ns), event_tokens=counts
        )

    def read(self) -> Stamps:
        """The moments so far; the end is now where it was not set."""
        return Stamps(
            scheduled_ns=self.scheduled_ns,
            sent_ns=self.sent_ns,
            headers_ns=self.headers_ns,
            first_token_ns=self.tokens_ns[0] if self.tokens_ns else 0,
            last_token_ns=self.tokens_ns[-1] if self.tokens_ns else 0,
            end_ns=self.end_ns or time.monotonic_ns(),
            held_up=self.held_up,
            behind_ns=self.behind_ns,
            let_go_ns=self.let_go_ns,
        )
