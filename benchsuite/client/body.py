"""From llama-server's JSON to replies: pure, strict about types, tolerant of absent fields.

Field meanings were seen on builds 10068, 10092, 10434 and 11549, older ones in the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from benchsuite.client.counts import read_counts
from benchsuite.client.fields import expect_object, read_count, read_number, read_text, shape
from benchsuite.client.reply import Copy, Reply, Stamps, Timings
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


class CompletionParts:
    """The events of a streamed `/completion`, of one completion or several.

    Several completions of one prompt (`n_cmpl`, or `n`; builds 10092 to 11549) come interleaved,
    each event with its `index` from 0, and each ends with a `stop: true` of its own.

    Args:
        wanted: How many completions were asked for.
    """

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._pieces: dict[int, list[str]] = {}
        self._finals: dict[int, dict[str, Any]] = {}

    def take(self, body: dict[str, Any]) -> bool:
        """Add one event's object; whether it carried generated text."""
        what = "/completion"
        index = (read_count(body, "index", what) or 0) if self._wanted > 1 else 0
        piece = read_text(body, "content", what)
        self._pieces.setdefault(index, []).append(piece)
        if body.get("stop") is True:
            if index in self._finals:
                raise ServerLiedError(f"{what}: completion {index} ended twice")
            self._finals[index] = body
        return bool(piece)

    def reply(self, stamps: Stamps, token_ns: tuple[int, ...]) -> Reply | None:
        """The whole reply; None where no completion has come to its end.

        Raises:
            ServerLiedError: There are fewer or more completions than were asked for.
        """
        if not self._finals:
            return None
        replies = [
            completion_reply(final, "".join(self._pieces[index]), stamps, token_ns)
            for index, final in sorted(self._finals.items())
        ]
        if len(replies) != self._wanted or sorted(self._finals) != list(range(self._wanted)):
            raise ServerLiedError(
                f"/completion was asked for {self._wanted} completions of a prompt and sent "
                f"{len(replies)}",
                hint="builds that do not know n_cmpl pass over it",
            )
        if self._wanted == 1:
            return replies[0]
        copies = tuple(
            Copy(one.text, one.cached_tokens, one.evaluated_tokens, one.output_tokens, one.slot)
            for one in replies
        )
        return msgspec.structs.replace(replies[0], copies=copies)


def copies_asked(fields: Mapping[str, Any]) -> int:
    """How many completions a request body asks for: `n_cmpl`, else its other name `n`."""
    wanted = fields.get("n_cmpl", fields.get("n", 1))
    return wanted if isinstance(wanted, int) and not isinstance(wanted, bool) else 1


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
