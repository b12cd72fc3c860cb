"""What one request brought: text, token counts, timings, and when each part came."""

from __future__ import annotations

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

    @property
    def generated_tokens(self) -> int | None:
        """Tokens generated in all completions; None where one of them does not tell."""
        if not self.copies:
            return self.output_tokens
        counts = [copy.output_tokens for copy in self.copies]
        return None if None in counts else sum(count or 0 for count in counts)


class Stopwatch:
    """The moments of one request, filled in as they come."""

    def __init__(self) -> None:
        self.scheduled_ns = time.monotonic_ns()
        self.sent_ns = self.scheduled_ns
        self.headers_ns = 0
        self.end_ns = 0
        self.tokens_ns: list[int] = []

    def token(self) -> None:
        """A token has come."""
        self.tokens_ns.append(time.monotonic_ns())

    def read(self) -> Stamps:
        """The moments so far; the end is now where it was not set."""
        return Stamps(
            scheduled_ns=self.scheduled_ns,
            sent_ns=self.sent_ns,
            headers_ns=self.headers_ns,
            first_token_ns=self.tokens_ns[0] if self.tokens_ns else 0,
            last_token_ns=self.tokens_ns[-1] if self.tokens_ns else 0,
            end_ns=self.end_ns or time.monotonic_ns(),
        )
