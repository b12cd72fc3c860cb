"""What one request brought: text, token counts, timings, and when each part came."""

from __future__ import annotations

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


class Reply(msgspec.Struct, frozen=True):
    """One finished request. Counts are None where the server does not tell them."""

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
