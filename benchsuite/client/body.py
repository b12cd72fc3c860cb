"""From llama-server's JSON to replies: pure, strict about types, tolerant of absent fields.

Field meanings were seen on builds 10068, 10092, 10434 and 11549, older ones in the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchsuite.client.counts import read_counts
from benchsuite.client.fields import expect_object, read_count, read_number, read_text, shape
from benchsuite.client.reply import Reply, Stamps, Timings
from benchsuite.errors import ServerLiedError


def read_timings(body: Mapping[str, Any], what: str) -> Timings:
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
    counts = read_counts(final, what)
    slot = final.get("id_slot", final.get("slot_id"))  # `slot_id` until March 2024
    return Reply(
        text=text,
        content=text,
        prompt_tokens=counts.prompt,
        cached_tokens=counts.cached,
        evaluated_tokens=counts.evaluated,
        output_tokens=counts.output,
        slot=slot if isinstance(slot, int) and not isinstance(slot, bool) and slot >= 0 else None,
        finish=read_text(final, "stop_type", what) or _old_finish(final),
        truncated=final.get("truncated") is True,
        timings=read_timings(final, what),
        stamps=stamps,
        token_ns=token_ns,
        sources=counts.sources,
    )


def _old_finish(final: Mapping[str, Any]) -> str:
    """Why generation ended, as builds before December 2024 say it: one flag a reason."""
    return next(
        (why for why in ("eos", "word", "limit") if final.get(f"stopped_{why}") is True), ""
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
            self._timings = {"timings": chunk["timings"]}
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            raise ServerLiedError(f"{what}: 'choices' should be a list, got {shape(choices)}")
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
        counts = read_counts({"usage": self._usage, **self._timings}, what)
        content = "".join(self._content)
        return Reply(
            text="".join(self._reasoning) + content,
            content=content,
            prompt_tokens=counts.prompt,
            cached_tokens=counts.cached,
            evaluated_tokens=counts.evaluated,
            output_tokens=counts.output,
            slot=None,
            finish=self._finish,
            truncated=False,
            timings=read_timings(self._timings, what),
            stamps=stamps,
            token_ns=token_ns,
            sources=counts.sources,
        )
