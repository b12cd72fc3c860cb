"""The client of llama-server's HTTP API: one method an endpoint, every fault a named error.

It sends what it is told and no more, and never repeats a request by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal

from benchsuite.client.body import (
    CHAT,
    TEXT,
    ChatParts,
    CompletionParts,
    completion_reply,
    copies_asked,
)
from benchsuite.client.exchange import Exchanges, Pace, quoted
from benchsuite.client.fields import expect_object, read_piece, read_text
from benchsuite.client.health import Health, parse_health
from benchsuite.client.models import ServedModel, parse_models
from benchsuite.client.prometheus import Exposition, parse_metrics
from benchsuite.client.props import Props, parse_props
from benchsuite.client.reply import Embedded, Reply, Stopwatch
from benchsuite.client.slots import Slot, parse_slots
from benchsuite.client.vectors import (
    read_embedding,
    read_embeddings,
    read_position,
    read_usage,
)
from benchsuite.errors import ConfigError, ConnectionLostError, ServerLiedError
from benchsuite.model.scenario import SlotAction
from benchsuite.model.vectors import Position

__all__ = ["LlamaClient", "Pace"]

_SLOT_COUNTS: dict[SlotAction, str] = {
    "save": "n_saved",
    "restore": "n_restored",
    "erase": "n_erased",
}
_RESERVED = frozenset({"prompt", "messages", "stream", "stream_options"})


class LlamaClient:
    """Talks to one llama-server.

    Args:
        base_url: `http://host:port`, without a trailing slash.
        api_key: Sent as a bearer token; None sends none.
        idle_seconds: How long a request may go without a byte (keep-alive comments count).
        token_seconds: How long one token of a stream may come after another; None: any time.
        request_seconds: How long a whole request may take; None: any time.
        pace: Awaited before each request; None sends at once.
        model: A router's name for the model that is meant, as `model` of every request (build
            10434 takes it from the body of a POST and from the query of a GET); None sends none.
        ca: PEM file that an https server's certificate is verified by; None: the public ones.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        idle_seconds: float = 60.0,
        token_seconds: float | None = None,
        request_seconds: float | None = None,
        pace: Pace | None = None,
        model: str | None = None,
        ca: str | None = None,
    ) -> None:
        self._wire = Exchanges(
            base_url,
            api_key=api_key,
            idle_seconds=idle_seconds,
            token_seconds=token_seconds,
            request_seconds=request_seconds,
            pace=pace,
            model=model,
            ca=ca,
        )

    @property
    def base_url(self) -> str:
        """Where the server is, without a trailing slash."""
        return self._wire.base_url

    @property
    def is_paced(self) -> bool:
        """Whether a cap of the rate may hold requests back."""
        return self._wire.is_paced

    async def aclose(self) -> None:
        """Close every connection."""
        await self._wire.aclose()

    async def move_to(self, base_url: str, api_key: str | None) -> None:
        """Close every connection and talk to another server from now on, as after a restart."""
        await self._wire.move_to(base_url, api_key)

    # what the server says of itself

    async def health(self) -> Health:
        """What `/health` says; 503 while the model is loading is an answer, not an error.

        Raises:
            ConnectionLostError: Nobody listens, or the answer is not llama-server's.
            RequestRefusedError: It was answered with an error.
            ServerHangError: No answer within the limit.
        """
        async with self._wire.exchange("GET", "/health") as response:
            content = await self._wire.read(response, "/health")
        if response.status_code == 503 and b"oading" in content:
            return Health("loading")
        if response.status_code != 200:
            raise self._wire.refused("/health", response, content)
        return parse_health(self._wire.decode("/health", content))

    async def healthy(self) -> bool:
        """Whether `/health` says that the server is ready; False while it loads (503).

        Raises:
            ConnectionLostError, RequestRefusedError, ServerHangError: As `health`.
        """
        return (await self.health()).state == "ready"

    async def props(self) -> Props:
        """What `/props` says."""
        return parse_props(expect_object(await self._wire.json("GET", "/props"), "/props"))

    async def slots(self) -> tuple[Slot, ...] | None:
        """What `/slots` says; None where the endpoint is off (501) or absent.

        Wakes a sleeping server.

        Raises:
            ServerLiedError: The answer is no list of slots.
        """
        content = await self._wire.unless_off("/slots")
        if content is None:
            return None
        slots = parse_slots(self._wire.decode("/slots", content))
        if slots is None:
            raise ServerLiedError(f"/slots should be a list of slots, got {quoted(content)}")
        return slots

    async def slot_action(self, slot: int, action: SlotAction, file: str | None = None) -> int:
        """Save, restore or erase a slot (`POST /slots/SLOT?action=...`).

        Args:
            slot: Its id.
            action: What to do.
            file: A name inside the server's `--slot-save-path`; None for erase.

        Returns:
            Tokens saved, restored or erased (`n_saved`, `n_restored`, `n_erased`).

        Raises:
            RequestRefusedError: 501 without `--slot-save-path`, 400 where a file is not fit.
            ServerLiedError: The answer does not count tokens.
        """
        path = f"/slots/{slot}?action={action}"
        payload = {} if file is None else {"filename": file}
        body = expect_object(await self._wire.json("POST", path, payload), path)
        count = body.get(_SLOT_COUNTS[action])
        if not isinstance(count, int) or isinstance(count, bool):
            raise ServerLiedError(f"{path}: '{_SLOT_COUNTS[action]}' should be a number of tokens")
        return count

    async def exposition(self) -> Exposition | None:
        """The samples of `/metrics`; None where the endpoint is off (501) or absent.

        Every look begins a new window of the gauges `prompt_tokens_seconds` and
        `predicted_tokens_seconds`, for others who scrape them too (build 11434).
        """
        content = await self._wire.unless_off("/metrics")
        return None if content is None else parse_metrics(content.decode("utf-8", "replace"))

    async def metrics(self) -> dict[str, float] | None:
        """The values of `/metrics` by name; None where the endpoint is off (501) or absent."""
        seen = await self.exposition()
        return None if seen is None else seen.counters()

    async def served_models(self) -> tuple[ServedModel, ...]:
        """The models that `/v1/models` lists: of a router all that it could serve."""
        return parse_models(await self._wire.json("GET", "/v1/models"))

    # text and tokens

    async def tokenise(self, text: str) -> list[int]:
        """The token ids of `text`, no special tokens added (`/tokenize`)."""
        payload = {"content": text, "add_special": False}
        body = expect_object(await self._wire.json("POST", "/tokenize", payload), "/tokenize")
        tokens = body.get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
            raise ServerLiedError("/tokenize: 'tokens' should be a list of token ids")
        return tokens

    async def prompt_tokens(self, text: str) -> list[int]:
        """The token ids of a prompt, special tokens added as for a prompt (`/tokenize`)."""
        return [number for number, _ in await self.token_pieces(text)]

    async def token_pieces(self, text: str) -> list[tuple[int, str]]:
        """Ids and texts of the tokens of a prompt, special tokens added as for a prompt.

        `with_pieces` is known since September 2024; bytes that are no text are shown as escapes.
        """
        payload = {"content": text, "add_special": True, "with_pieces": True}
        body = expect_object(await self._wire.json("POST", "/tokenize", payload), "/tokenize")
        tokens = body.get("tokens")
        if not isinstance(tokens, list):
            raise ServerLiedError("/tokenize: 'tokens' should be a list")
        return [read_piece(token, "/tokenize") for token in tokens]

    async def apply_template(
        self, messages: Sequence[Mapping[str, str]], fields: Mapping[str, Any] | None = None
    ) -> str:
        """The prompt that a chat with these messages becomes (`/apply-template`).

        Args:
            messages: The conversation.
            fields: Other fields of the chat's body, which a template may read; None: none.
        """
        payload = {**(fields or {}), "messages": list(messages)}
        body = await self._wire.json("POST", "/apply-template", payload)
        return read_text(expect_object(body, "/apply-template"), "prompt", "/apply-template")

    # generation

    async def chat(
        self,
        messages: Sequence[Mapping[str, str]],
        fields: Mapping[str, Any],
        *,
        request_id: str | None = None,
    ) -> Reply:
        """One streamed `/v1/chat/completions`.

        Args:
            messages: The conversation, `role` and `content` each.
            fields: Everything else of the body (`max_tokens`, `temperature`, `id_slot`, ...).
            request_id: Sent as `X-Request-Id`; None sends none.

        Raises:
            RequestRefusedError: The server answered with an error, at once or mid-stream.
            ConnectionLostError: The stream ended before `[DONE]`.
            ServerHangError: No byte within the limit.
            ServerLiedError: A field has a type that it cannot have, or an event follows `[DONE]`.
        """
        return await self._openai(CHAT, {"messages": list(messages)}, fields, request_id)

    async def complete_text(
        self,
        prompt: str | Sequence[int],
        fields: Mapping[str, Any],
        *,
        request_id: str | None = None,
    ) -> Reply:
        """One streamed `/v1/completions`; arguments and errors as of `chat`, with a raw prompt.

        Args:
            prompt: Text, or token ids.
            fields: As of `chat`.
            request_id: As of `chat`.
        """
        raw = prompt if isinstance(prompt, str) else list(prompt)
        return await self._openai(TEXT, {"prompt": raw}, fields, request_id)

    async def _openai(
        self, path: str, asked: dict[str, Any], fields: Mapping[str, Any], request_id: str | None
    ) -> Reply:
        payload = {
            **asked,
            **_checked(fields),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        parts = ChatParts(path)
        stamps = Stopwatch(request_id)
        async with aclosing(self._wire.events(path, payload, stamps)) as events:
            async for event in events:
                if stamps.complete:
                    raise ServerLiedError(f"{path}: an event follows '[DONE]'")
                if event.data == "[DONE]":
                    stamps.complete = True
                else:
                    stamps.tokens(parts.take(self._wire.event_object(path, event)))
        if not stamps.complete:
            raise ConnectionLostError(f"{path}: the stream ended before '[DONE]'")
        return stamps.timed(parts.reply(stamps.read(), ()))

    async def complete(
        self, prompt: str, fields: Mapping[str, Any], *, request_id: str | None = None
    ) -> Reply:
        """One streamed `/completion`.

        Args:
            prompt: The raw prompt; special tokens in it are parsed, as llama-server does.
            fields: Everything else of the body (`n_predict`, `temperature`, `id_slot`, ...).
            request_id: As of `chat`.

        Raises:
            RequestRefusedError, ConnectionLostError, ServerHangError, ServerLiedError: As `chat`;
                the last event is the one with `stop: true`. A server that sends another
                number of completions than `n_cmpl` asks for has lied.
        """
        payload = {"prompt": prompt, **_checked(fields), "stream": True}
        parts = CompletionParts(copies_asked(fields))
        stamps = Stopwatch(request_id)
        async with aclosing(self._wire.events("/completion", payload, stamps)) as events:
            async for event in events:
                if event.data != "[DONE]":
                    stamps.tokens(parts.take(self._wire.event_object("/completion", event)))
                stamps.complete = parts.complete
        reply = parts.reply(stamps.read(), ())
        if reply is None:
            raise ConnectionLostError(
                "/completion: the stream ended before an event with 'stop: true'"
            )
        return stamps.timed(reply)

    async def next_token(self, prompt: Sequence[int], top: int) -> tuple[Reply, Position]:
        """How likely each token is to come after a prompt of token ids (`/completion`).

        Args:
            prompt: Ids, taken as they are.
            top: Of so many of the likeliest tokens; above the vocabulary's size, of all.

        Raises:
            RequestRefusedError, ConnectionLostError, ServerHangError, ServerLiedError: As `chat`.
        """
        payload = {
            "prompt": list(prompt),
            "n_predict": 1,
            "n_probs": top,
            "temperature": 0,
            "post_sampling_probs": False,  # of the raw logits, before any sampler
            "stream": False,
        }
        stamps = Stopwatch()
        body = expect_object(
            await self._wire.json("POST", "/completion", payload, stamps), "/completion"
        )
        text = read_text(body, "content", "/completion")
        reply = completion_reply(body, text, stamps.read(), ())
        return reply, read_position(body, "/completion")

    async def embedding(self, prompt: Sequence[int]) -> bytes:
        """The embedding of a prompt of token ids, as 32-bit little-endian floats.

        Raises:
            RequestRefusedError, ConnectionLostError, ServerHangError, ServerLiedError: As `chat`;
                a server without `--embedding` refuses.
        """
        path = "/v1/embeddings"
        payload = {"input": list(prompt), "encoding_format": "float"}
        return read_embedding(
            expect_object(await self._wire.json("POST", path, payload), path), path
        )

    async def embed(
        self,
        prompt: str | Sequence[int],
        *,
        path: Literal["/embedding", "/v1/embeddings"] = "/embedding",
        request_id: str | None = None,
    ) -> Embedded:
        """The embeddings of one prompt, and when they came.

        Args:
            prompt: Text, or token ids.
            path: The endpoint; `/v1/embeddings` refuses a server without pooling.
            request_id: As of `chat`.

        Raises:
            RequestRefusedError, ConnectionLostError, ServerHangError, ServerLiedError: As `chat`.
        """
        raw = prompt if isinstance(prompt, str) else list(prompt)
        key = "content" if path == "/embedding" else "input"
        stamps = Stopwatch(request_id)
        body = await self._wire.json("POST", path, {key: raw}, stamps)
        return Embedded(read_embeddings(body, path), stamps.read(), read_usage(body))


def _checked(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    taken = _RESERVED.intersection(fields)
    if taken:
        raise ConfigError(f"a request may not set '{min(taken)}': the step sets it")
    return fields
