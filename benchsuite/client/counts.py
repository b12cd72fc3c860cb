"""Token counts of one reply, from `usage` and `timings` of any endpoint, streamed or not; pure.

| endpoint | prompt | cached | evaluated | output |
|---|---|---|---|---|
| `/completion` | `tokens_evaluated` | `timings.cache_n` | `timings.prompt_n` | `tokens_predicted` |
| `/v1/...` | `usage.prompt_tokens` | both | `timings.prompt_n` | `usage.completion_tokens` |

`timings.cache_n` is sent since September 2025 (#15827), `cached_tokens` since February 2026
(#19361); before, cached tokens are unknown. A chat stream without `include_usage` has `timings`
alone (10092 to 11549), a proxy may leave `usage` alone. `tokens_cached` is never read: it is what
the slot holds after generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from benchsuite.client.fields import expect_object, read_count
from benchsuite.errors import ServerLiedError

_CACHED_IN_USAGE = "usage.prompt_tokens_details.cached_tokens"


class Counts(msgspec.Struct, frozen=True):
    """Tokens of one request; None where the reply does not tell."""

    prompt: int | None = None  # the whole prompt
    cached: int | None = None
    evaluated: int | None = None
    output: int | None = None
    sources: dict[str, str] = {}  # field of this struct -> the reply's field


def read_counts(body: Mapping[str, Any], what: str) -> Counts:
    """The counts in a reply's body, or in what the events of a stream add up to.

    Args:
        body: With `usage`, `timings`, `tokens_evaluated`, `tokens_predicted`, each where sent.
        what: The endpoint, for messages.

    Raises:
        ServerLiedError: A count has a type that it cannot have, or `usage` and `timings` differ.
    """
    usage = _object(body, "usage", what)
    timings = _object(body, "timings", what)
    details = _object(usage, "prompt_tokens_details", what)
    found: dict[str, tuple[int, str]] = {}

    def take(name: str, holder: Mapping[str, Any], key: str, source: str) -> int | None:
        value = read_count(holder, key, what)
        if value is not None:
            found.setdefault(name, (value, source))
        return value

    cache_n = take("cached", timings, "cache_n", "timings.cache_n")
    cached = take("cached", details, "cached_tokens", _CACHED_IN_USAGE)
    if cached is not None and cache_n is not None and cached != cache_n:
        raise ServerLiedError(
            f"{what} reports {cached} cached tokens in 'usage' and {cache_n} in "
            "'timings'; both count the prompt tokens taken from the cache"
        )
    prompt_n = take("evaluated", timings, "prompt_n", "timings.prompt_n")
    take("prompt", usage, "prompt_tokens", "usage.prompt_tokens")
    take("prompt", body, "tokens_evaluated", "tokens_evaluated")
    if cache_n is not None and prompt_n is not None:
        sum_of = "timings.cache_n + timings.prompt_n"
        found.setdefault("prompt", (cache_n + prompt_n, sum_of))
    take("output", usage, "completion_tokens", "usage.completion_tokens")
    take("output", body, "tokens_predicted", "tokens_predicted")
    predicted_n = take("output", timings, "predicted_n", "timings.predicted_n")
    output, source = found.get("output", (None, ""))
    if predicted_n is not None and predicted_n != output:
        raise ServerLiedError(
            f"{what} reports {output} generated tokens in '{source}' and {predicted_n} in "
            "'timings.predicted_n'; both count the tokens of the whole reply"
        )
    return Counts(
        **{name: value for name, (value, _) in found.items()},
        sources={name: source for name, (_, source) in found.items()},
    )


def _object(body: Mapping[str, Any], key: str, what: str) -> dict[str, Any]:
    value = body.get(key)
    return {} if value is None else expect_object(value, f"{what}: '{key}'")
