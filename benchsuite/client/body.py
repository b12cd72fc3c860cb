"""From llama-server's JSON to replies: pure, strict about types, tolerant of absent fields.

Field meanings were seen on builds 10068, 10434 and 11549. `tokens_cached` is deliberately not
read: it is what the slot holds after generation, not what was reused.
"""

from __future__ import annotations

import math
from typing import Any

from benchsuite.client.reply import Reply, Stamps, Timings
from benchsuite.errors import ServerLiedError


def expect_object(value: Any, what: str) -> dict[str, Any]:
    """`value` if it is a JSON object.

    Raises:
        ServerLiedError: It is something else.
    """
    if not isinstance(value, dict):
        raise ServerLiedError(f"{what} should be a JSON object, got {_shape(value)}")
    return value


def read_count(body: dict[str, Any], key: str, what: str) -> int | None:
    """A token count; None where the field is absent or null.

    Raises:
        ServerLiedError: It is not a whole number of 0 or more.
    """
    value = body.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ServerLiedError(f"{what}: '{key}' should be a count, got {_shape(value)}")
    return value


def read_number(body: dict[str, Any], key: str, what: str) -> float | None:
    """A finite number; None where the field is absent or null.

    Raises:
        ServerLiedError: It is no finite number.
    """
    value = body.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ServerLiedError(f"{what}: '{key}' should be a number, got {_shape(value)}")
    return float(value)


def read_text(body: dict[str, Any], key: str, what: str) -> str:
    """A text; empty where the field is absent or null.

    Raises:
        ServerLiedError: It is something else.
    """
    value = body.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ServerLiedError(f"{what}: '{key}' should be text, got {_shape(value)}")
    return value


def read_piece(token: Any, what: str) -> tuple[int, str]:
    """Id and text of one token: `{"id", "piece"}`, the piece as bytes where it is no text.

    Raises:
        ServerLiedError: It is something else.
    """
    if isinstance(token, int) and not isinstance(token, bool):
        return token, f"<{token}>"  # a build that does not know pieces
    body = expect_object(token, f"{what}: a token")
    number, piece = body.get("id"), body.get("piece")
    if not isinstance(number, int) or isinstance(number, bool):
        raise ServerLiedError(f"{what}: a token's 'id' should be a number, got {_shape(number)}")
    if isinstance(piece, list) and all(isinstance(part, int) for part in piece):
        return number, "".join(f"\\x{part:02x}" for part in piece)
    return number, piece if isinstance(piece, str) else f"<{number}>"


def read_timings(body: dict[str, Any], what: str) -> Timings:
    """The `timings` object of a reply; empty where it is absent."""
    raw = body.get("timings")
    if raw is None:
        return Timings()
    timings = expect_object(raw, f"{what}: 'timings'")
    return Timings(
        cache_n=read_count(timings, "cache_n", what),
        prompt_n=read_count(timings, "prompt_n", what),
        prompt_ms=read_number(timings, "prompt_ms", what),
        predicted_n=read_count(timings, "predicted_n", what),
        predicted_ms=read_number(timings, "predicted_ms", what),
        predicted_per_second=read_number(timings, "predicted_per_second", what),
    )


def completion_reply(
    final: dict[str, Any], text: str, stamps: Stamps, token_ns: tuple[int, ...]
) -> Reply:
    """The reply of `/completion` from its last event and the text of all events."""
    what = "/completion"
    timings = read_timings(final, what)
    prompt = read_count(final, "tokens_evaluated", what)  # counts the whole prompt
    slot = final.get("id_slot")
    return Reply(
        text=text,
        content=text,
        prompt_tokens=prompt,
        cached_tokens=timings.cache_n,
        evaluated_tokens=timings.prompt_n,
        output_tokens=read_count(final, "tokens_predicted", what),
        slot=slot if isinstance(slot, int) and not isinstance(slot, bool) and slot >= 0 else None,
        finish=read_text(final, "stop_type", what),
        truncated=final.get("truncated") is True,
        timings=timings,
        stamps=stamps,
        token_ns=token_ns,
    )


class ChatParts:
    """The pieces of a streamed chat completion, put together event by event."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._finish = ""
        self._usage: dict[str, Any] | None = None
        self._timings: dict[str, Any] = {}

    def take(self, chunk: dict[str, Any]) -> bool:
        """Add one event's object; whether it carried generated text."""
        what = "/v1/chat/completions"
        if chunk.get("usage") is not None:
            self._usage = expect_object(chunk["usage"], f"{what}: 'usage'")
        if chunk.get("timings") is not None:
            self._timings = chunk
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            raise ServerLiedError(f"{what}: 'choices' should be a list, got {_shape(choices)}")
        carried = False
        for raw in choices[:1]:
            choice = expect_object(raw, f"{what}: a choice")
            delta = expect_object(choice.get("delta") or {}, f"{what}: 'delta'")
            content = read_text(delta, "content", what)
            reasoning = read_text(delta, "reasoning_content", what)
            carried = bool(content or reasoning)
            self._content.append(content)
            self._reasoning.append(reasoning)
            self._finish = read_text(choice, "finish_reason", what) or self._finish
        return carried

    def reply(self, stamps: Stamps, token_ns: tuple[int, ...]) -> Reply:
        """The whole reply."""
        what = "/v1/chat/completions"
        timings = read_timings(self._timings, what)
        usage = self._usage or {}
        details = expect_object(
            usage.get("prompt_tokens_details") or {}, f"{what}: 'prompt_tokens_details'"
        )
        reported = read_count(details, "cached_tokens", what)
        if reported is not None and timings.cache_n is not None and reported != timings.cache_n:
            raise ServerLiedError(
                f"{what} reports {reported} cached tokens in 'usage' and {timings.cache_n} in "
                "'timings'; both count the prompt tokens taken from the cache"
            )
        cached = timings.cache_n if timings.cache_n is not None else reported
        prompt = read_count(usage, "prompt_tokens", what)
        if prompt is None and timings.cache_n is not None and timings.prompt_n is not None:
            prompt = timings.cache_n + timings.prompt_n
        output = read_count(usage, "completion_tokens", what)
        content = "".join(self._content)
        return Reply(
            text="".join(self._reasoning) + content,
            content=content,
            prompt_tokens=prompt,
            cached_tokens=cached,
            evaluated_tokens=timings.prompt_n,
            output_tokens=output if output is not None else timings.predicted_n,
            slot=None,
            finish=self._finish,
            truncated=False,
            timings=timings,
            stamps=stamps,
            token_ns=token_ns,
        )


def _shape(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
