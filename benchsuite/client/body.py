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

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


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
        self._told: dict[int, int] = {}  # tokens so far, by completion

    def take(self, body: dict[str, Any]) -> int:
        """Add one event's object; how many generated tokens came with it.

        Raises:
            ServerLiedError: It follows its completion's last event, or the one before it counted
                more tokens.

        `tokens_predicted` counts up from event to event, so that its change also tells tokens
        held back until a character was whole, for which no event is sent, and tokens without text
        (builds 10092 to 11434; `tokens` holds the last id alone). Where it is not sent, an event
        with text is one token.
        """
        what = "/completion"
        index = (read_count(body, "index", what) or 0) if self._wanted > 1 else 0
        piece = read_text(body, "content", what)
        self._pieces.setdefault(index, []).append(piece)
        ends = body.get("stop") is True
        if index in self._finals:
            what_came = f"completion {index} ended twice" if ends else "an event follows the last"
            raise ServerLiedError(f"{what}: {what_came}")
        before = self._told.get(index, 0)
        told = read_count(body, "tokens_predicted", what)
        if told is not None and told < before and not ends:
            raise ServerLiedError(
                f"{what}: an event counts {told} generated tokens where the one before it counted "
                f"{before}: they are out of order"
            )
        if ends:
            self._finals[index] = body
            texts = sum(map(bool, self._pieces[index]))
            if told is not None and texts > told:
                raise ServerLiedError(
                    f"{what}: {texts} events with text came of {told} generated tokens; "
                    "no token makes two"
                )
        now = before + bool(piece) if told is None else max(told, before)
        self._told[index] = now
        return now - before

    @property
    def complete(self) -> bool:
        """Whether as many completions as were asked for have come to their ends."""
        return len(self._finals) >= self._wanted

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
    """The pieces of a streamed `/v1/...` completion, put together event by event.

    Args:
        path: The endpoint: the text of `/v1/completions` is in `text`, that of a chat in `delta`.
    """

    def __init__(self, path: str = CHAT) -> None:
        self._path = path
        self._told = 0  # tokens so far
        self._texts = 0  # events with text, without one that also tells why generation ended
        self._repeats = False  # whether one of them had the text of the one before it
        self._last = ("", "")  # text of the one before, and its reasoning
        self._several = False  # whether it is of several completions, interleaved
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._finish = ""
        self._usage: dict[str, Any] | None = None
        self._timings: dict[str, Any] = {}

    def take(self, chunk: dict[str, Any]) -> int:
        """Add one event's object; how many generated tokens came with it.

        With `timings_per_token` each event has `timings.predicted_n`, which counts up; without, an
        event with text is one token, though it may hold more: of a chat, no event is sent for
        tokens that add nothing to the parsed message (build 11434).
        """
        what = self._path
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
            if what == CHAT:
                delta = expect_object(choice.get("delta") or {}, f"{what}: 'delta'")
                content = read_text(delta, "content", what)
                reasoning = read_text(delta, "reasoning_content", what)
            else:
                content, reasoning = read_text(choice, "text", what), ""
            carried = bool(content or reasoning)
            self._content.append(content)
            self._reasoning.append(reasoning)
            ends = read_text(choice, "finish_reason", what)
            self._finish = ends or self._finish
            self._several = self._several or bool(choice.get("index"))
            if carried and not (ends and what == CHAT):
                self._texts += 1
                self._repeats = self._repeats or self._last == (content, reasoning)
                self._last = (content, reasoning)
        if not carried:  # the last event's count is that of the whole reply
            return 0
        before = self._told
        timings = chunk.get("timings")
        told = timings.get("predicted_n") if isinstance(timings, dict) else None
        is_count = isinstance(told, int) and not isinstance(told, bool)
        self._told = max(told, before) if is_count and told else before + 1
        return self._told - before

    def _refuse_more_than(self, tokens: int | None) -> None:
        """Hold the events with text against the number of tokens that was told.

        Most tokens have an event, some share one or have none, so there are not more events than
        tokens; with two exceptions of chats (builds 10092 to 11434, `compute_diffs` in
        common/chat.cpp): the token that ends reasoning may have an event for either text; and where
        generation ended by its limit, what was held back of a token may follow as an event of its
        own. An event that came twice is told from the latter by its text.
        """
        if tokens is None or self._several:
            return
        more = self._texts - tokens
        if self._path == CHAT:
            more -= any(self._reasoning) and any(self._content)
            more -= self._finish == "length" and not self._repeats
        if more > 0:
            raise ServerLiedError(
                f"{self._path}: {self._texts} events with text came of {tokens} generated tokens; "
                "no token makes two"
            )

    def reply(self, stamps: Stamps, token_ns: tuple[int, ...]) -> Reply:
        """The whole reply.

        Raises:
            ServerLiedError: Its counts contradict each other, or the events that came.
        """
        what = self._path
        counts = read_counts({"usage": self._usage, **self._timings}, what)
        self._refuse_more_than(counts.output)
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
