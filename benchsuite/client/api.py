"""The client of llama-server's HTTP API: one method an endpoint, every fault a named error.

It sends what it is told and no more, and never repeats a request by itself.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Protocol
from urllib.parse import quote

import httpx
import msgspec

from benchsuite.client.body import ChatParts, CompletionParts, completion_reply, copies_asked
from benchsuite.client.fields import expect_object, read_piece, read_text
from benchsuite.client.health import SOURCE as HEALTH
from benchsuite.client.health import Health, parse_health
from benchsuite.client.models import ServedModel, parse_models
from benchsuite.client.prometheus import Exposition, parse_metrics
from benchsuite.client.props import Props, parse_props
from benchsuite.client.reply import Reply, Stopwatch
from benchsuite.client.slots import Slot, parse_slots
from benchsuite.client.sse import Event, EventReader
from benchsuite.client.transport import RetiringTransport, certificates, distrust
from benchsuite.client.vectors import read_embedding, read_position
from benchsuite.errors import (
    ConfigError,
    ConnectionLostError,
    RequestRefusedError,
    ServerHangError,
    ServerLiedError,
)
from benchsuite.model.scenario import SlotAction
from benchsuite.model.vectors import Position
from benchsuite.units import MIB, format_number


class Pace(Protocol):
    """What is awaited before each request; `asyncio_throttle.Throttler` is one."""

    async def acquire(self) -> None:
        """Return once the next request may be sent."""


_CONNECT_SECONDS = 10.0
_MAX_BODY_BYTES = 64 * MIB
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
        pace: Pace | None = None,
        model: str | None = None,
        ca: str | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._idle_seconds = idle_seconds
        self._pace = pace
        self._model = model
        self._ca = ca
        self._http = self._connections(api_key)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def move_to(self, base_url: str, api_key: str | None) -> None:
        """Close every connection and talk to another server from now on, as after a restart."""
        await self._http.aclose()
        self.base_url = base_url.rstrip("/")
        self._http = self._connections(api_key)

    def _connections(self, api_key: str | None) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._has_key = bool(api_key)
        connect = min(_CONNECT_SECONDS, self._idle_seconds)
        try:
            url = httpx.URL(self.base_url)
        except httpx.InvalidURL as error:
            raise ConfigError(f"'{self.base_url}' is not a URL: {error}") from error
        if url.query or url.fragment:  # likewise
            raise ConfigError(
                f"the URL of {url.host} has something behind '?' or '#'",
                hint="leave it out; llama-server takes a key: --api-key-env NAME",
            )
        if url.userinfo:  # it would be printed and recorded with the URL
            raise ConfigError(
                f"the URL of {url.host} holds a user or a password",
                hint="leave them out; llama-server takes a key: --api-key-env NAME",
            )
        return httpx.AsyncClient(
            base_url=self.base_url,
            headers=headers,
            timeout=httpx.Timeout(self._idle_seconds, connect=connect),
            transport=RetiringTransport(
                verify=certificates(self._ca) if url.scheme == "https" else False
            ),
            follow_redirects=False,
            trust_env=False,
        )

    # what the server says of itself

    async def health(self) -> Health:
        """What `/health` says; 503 while the model is loading is an answer, not an error.

        Raises:
            ConnectionLostError: Nobody listens, or the answer is not llama-server's.
            RequestRefusedError: It was answered with an error.
            ServerHangError: No answer within the limit.
        """
        async with self._exchange("GET", "/health") as response:
            content = await self._read(response, "/health")
        if response.status_code == 503 and b"oading" in content:
            return Health("loading")
        if response.status_code != 200:
            raise self._refused("/health", response, content)
        return parse_health(self._decode("/health", content))

    async def healthy(self) -> bool:
        """Whether `/health` says that the server is ready; False while it loads (503).

        Raises:
            ConnectionLostError, RequestRefusedError, ServerHangError: As `health`.
        """
        return (await self.health()).state == "ready"

    async def props(self) -> Props:
        """What `/props` says."""
        return parse_props(expect_object(await self._json("GET", "/props"), "/props"))

    async def slots(self) -> tuple[Slot, ...] | None:
        """What `/slots` says; None where the endpoint is off (501) or absent.

        Wakes a sleeping server.

        Raises:
            ServerLiedError: The answer is no list of slots.
        """
        content = await self._unless_off("/slots")
        if content is None:
            return None
        slots = parse_slots(self._decode("/slots", content))
        if slots is None:
            raise ServerLiedError(f"/slots should be a list of slots, got {_quoted(content)}")
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
        body = expect_object(await self._json("POST", path, payload), path)
        count = body.get(_SLOT_COUNTS[action])
        if not isinstance(count, int) or isinstance(count, bool):
            raise ServerLiedError(f"{path}: '{_SLOT_COUNTS[action]}' should be a number of tokens")
        return count

    async def exposition(self) -> Exposition | None:
        """The samples of `/metrics`; None where the endpoint is off (501) or absent.

        Every look begins a new window of the gauges `prompt_tokens_seconds` and
        `predicted_tokens_seconds`, for others who scrape them too (build 11434).
        """
        content = await self._unless_off("/metrics")
        return None if content is None else parse_metrics(content.decode("utf-8", "replace"))

    async def metrics(self) -> dict[str, float] | None:
        """The values of `/metrics` by name; None where the endpoint is off (501) or absent."""
        seen = await self.exposition()
        return None if seen is None else seen.counters()

    async def served_models(self) -> tuple[ServedModel, ...]:
        """The models that `/v1/models` lists: of a router all that it could serve."""
        return parse_models(await self._json("GET", "/v1/models"))

    # text and tokens

    async def tokenise(self, text: str) -> list[int]:
        """The token ids of `text`, no special tokens added (`/tokenize`)."""
        payload = {"content": text, "add_special": False}
        body = expect_object(await self._json("POST", "/tokenize", payload), "/tokenize")
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
        body = expect_object(await self._json("POST", "/tokenize", payload), "/tokenize")
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
        body = await self._json("POST", "/apply-template", payload)
        return read_text(expect_object(body, "/apply-template"), "prompt", "/apply-template")

    # generation

    async def chat(self, messages: Sequence[Mapping[str, str]], fields: Mapping[str, Any]) -> Reply:
        """One streamed `/v1/chat/completions`.

        Args:
            messages: The conversation, `role` and `content` each.
            fields: Everything else of the body (`max_tokens`, `temperature`, `id_slot`, ...).

        Raises:
            RequestRefusedError: The server answered with an error, at once or mid-stream.
            ConnectionLostError: The stream ended before `[DONE]`.
            ServerHangError: No byte within the limit.
            ServerLiedError: A field has a type that it cannot have.
        """
        payload = {
            "messages": list(messages),
            **_checked(fields),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        parts = ChatParts()
        stamps = Stopwatch()
        done = False
        async with aclosing(self._events("/v1/chat/completions", payload, stamps)) as events:
            async for event in events:
                if event.data == "[DONE]":
                    done = True
                elif parts.take(self._event_object("/v1/chat/completions", event)):
                    stamps.token()
        if not done:
            raise ConnectionLostError("/v1/chat/completions: the stream ended before '[DONE]'")
        return parts.reply(stamps.read(), tuple(stamps.tokens_ns))

    async def complete(self, prompt: str, fields: Mapping[str, Any]) -> Reply:
        """One streamed `/completion`.

        Args:
            prompt: The raw prompt; special tokens in it are parsed, as llama-server does.
            fields: Everything else of the body (`n_predict`, `temperature`, `id_slot`, ...).

        Raises:
            RequestRefusedError, ConnectionLostError, ServerHangError, ServerLiedError: As `chat`;
                the last event is the one with `stop: true`. A server that sends another
                number of completions than `n_cmpl` asks for has lied.
        """
        payload = {"prompt": prompt, **_checked(fields), "stream": True}
        parts = CompletionParts(copies_asked(fields))
        stamps = Stopwatch()
        async with aclosing(self._events("/completion", payload, stamps)) as events:
            async for event in events:
                if event.data == "[DONE]":
                    continue
                if parts.take(self._event_object("/completion", event)):
                    stamps.token()
        reply = parts.reply(stamps.read(), tuple(stamps.tokens_ns))
        if reply is None:
            raise ConnectionLostError(
                "/completion: the stream ended before an event with 'stop: true'"
            )
        return reply

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
        body = expect_object(await self._json("POST", "/completion", payload), "/completion")
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
        return read_embedding(expect_object(await self._json("POST", path, payload), path), path)

    # below: one exchange, and how it can fail

    async def _unless_off(self, path: str) -> bytes | None:
        async with self._exchange("GET", path) as response:
            content = await self._read(response, path)
        if response.status_code in (404, 501):
            return None
        if response.status_code != 200:
            raise self._refused(path, response, content)
        return content

    async def _json(self, method: str, path: str, payload: Any = None) -> Any:
        async with self._exchange(method, path, payload) as response:
            content = await self._read(response, path)
        if response.status_code != 200:
            raise self._refused(path, response, content)
        return self._decode(path, content)

    async def _events(
        self, path: str, payload: Any, stamps: Stopwatch
    ) -> AsyncGenerator[Event, None]:
        reader = EventReader()
        async with self._exchange("POST", path, payload, stamps) as response:
            stamps.headers_ns = time.monotonic_ns()
            if response.status_code != 200:
                raise self._refused(path, response, await self._read(response, path))
            if "text/event-stream" not in response.headers.get("content-type", ""):
                content = await self._read(response, path)
                raise ConnectionLostError(
                    f"{path}: expected a stream of events, got {self._kind_of(response, content)}"
                )
            async for chunk in response.aiter_raw():
                for event in reader.feed(chunk):
                    yield event
            stamps.end_ns = time.monotonic_ns()
            if reader.pending:
                raise ConnectionLostError(f"{path}: the stream was cut in the middle of an event")

    @asynccontextmanager
    async def _exchange(
        self, method: str, path: str, payload: Any = None, stamps: Stopwatch | None = None
    ) -> AsyncIterator[httpx.Response]:
        if self._model is not None:
            path, payload = _addressed(self._model, path, payload)
        content = None if payload is None else msgspec.json.encode(payload)
        headers = {} if payload is None else {"Content-Type": "application/json"}
        if self._pace is not None:
            await self._pace.acquire()
        if stamps is not None:
            stamps.sent_ns = time.monotonic_ns()
        where = f"{self.base_url}{path}"
        try:
            async with self._http.stream(
                method, path, content=content, headers=headers
            ) as response:
                yield response
        except httpx.ConnectTimeout as error:
            raise ServerHangError(
                f"{where}: no connection within {_CONNECT_SECONDS:g} s"
            ) from error
        except httpx.TimeoutException as error:
            raise ServerHangError(
                f"{where}: no byte for {format_number(self._idle_seconds)} s (the limit of a "
                "request without bytes)",
                hint="raise it with --idle-limit SECONDS if the server is only slow",
            ) from error
        except httpx.ConnectError as error:
            why = distrust(error)
            if why is not None:
                raise ConfigError(
                    f"the certificate of {self.base_url} is not trusted: {why}",
                    hint="name the CA that signed it, a PEM file: --ca FILE, `ca` of the "
                    "deployment, or the variable SSL_CERT_FILE",
                ) from error
            raise ConnectionLostError(f"cannot connect to {self.base_url}: {error}") from error
        except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.LocalProtocolError) as error:
            raise ConfigError(f"cannot send to '{where}': {error}") from error
        except httpx.HTTPError as error:
            detail = str(error) or type(error).__name__
            raise ConnectionLostError(f"{where}: the connection broke: {detail}") from error

    async def _read(self, response: httpx.Response, path: str) -> bytes:
        pieces: list[bytes] = []
        size = 0
        async for chunk in response.aiter_bytes():
            size += len(chunk)
            if size > _MAX_BODY_BYTES:
                raise ServerLiedError(f"{path}: the answer is larger than 64 MiB")
            pieces.append(chunk)
        return b"".join(pieces)

    def _decode(self, path: str, content: bytes) -> Any:
        try:
            return msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConnectionLostError(
                f"{self.base_url}{path} did not answer with JSON but with {_quoted(content)}",
                hint="is this the address of a llama-server?",
            ) from error

    def _event_object(self, path: str, event: Event) -> dict[str, Any]:
        body = expect_object(self._decode(path, event.data.encode()), f"{path}: an event")
        error = body.get("error") if "error" in body else (body if event.kind == "error" else None)
        if error is not None:
            status, kind, message = _error_of({"error": error})
            raise RequestRefusedError(
                f"{path}: the server ended the stream with an error: {message}",
                status=status,
                kind=kind,
            )
        return body

    def _kind_of(self, response: httpx.Response, content: bytes) -> str:
        kind = response.headers.get("content-type", "no content type").split(";")[0]
        return f"{kind}: {_quoted(content)}"

    def _refused(
        self, path: str, response: httpx.Response, content: bytes
    ) -> RequestRefusedError | ConnectionLostError:
        status = response.status_code
        where = f"{self.base_url}{path}"
        if 300 <= status < 400:
            target = response.headers.get("location", "nowhere")
            return ConnectionLostError(
                f"{where} redirects ({status}) to {target}", hint="give that address itself"
            )
        try:
            _, kind, message = _error_of(msgspec.json.decode(content))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return ConnectionLostError(
                f"{where} answered {status} with {self._kind_of(response, content)}",
                hint="is this the address of a llama-server?",
            )
        hint = None
        if status == 401:
            hint = "name the variable that holds the server's key: --api-key-env NAME"
            if self._has_key:
                hint = (
                    "the key that was sent is not the server's; a command that starts a server "
                    "must hand on the variable that it gets: '-e', '{key_env}'"
                )
        elif kind == "exceed_context_size_error":
            hint = "raise ctx-size, or shorten the prompts of the scenario"
        return RequestRefusedError(
            f"{where} answered {status}: {message}", status=status, kind=kind, hint=hint
        )


def _addressed(model: str, path: str, payload: Any) -> tuple[str, Any]:
    """A request to a router, with the name of the model that is to answer it."""
    if isinstance(payload, dict):
        return path, {"model": model, **payload}
    if payload is None and path != HEALTH:  # which is the router's own
        return f"{path}{'&' if '?' in path else '?'}model={quote(model, safe='')}", None
    return path, payload


def _checked(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    taken = _RESERVED.intersection(fields)
    if taken:
        raise ConfigError(f"a request may not set '{min(taken)}': the step sets it")
    return fields


def _error_of(body: Any) -> tuple[int, str, str]:
    """Status, kind and message of an error body; tolerant, since forks vary it."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(error, dict):
        code = error.get("code")
        status = code if isinstance(code, int) and not isinstance(code, bool) else 0
        kind = error.get("type")
        message = error.get("message", "no message")
        return status, kind if isinstance(kind, str) else "", str(message)[:500]
    return 0, "", str(error)[:500]


def _quoted(content: bytes) -> str:
    text = content[:80].decode("utf-8", "replace").strip()
    printable = "".join(c if c.isprintable() else " " for c in text)
    return f"'{printable}{'...' if len(content) > 80 else ''}'" if printable else "nothing"
