"""One exchange with a llama-server: how a request goes out, its answer comes, and both can fail."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol
from urllib.parse import quote

import httpx
import msgspec

from benchsuite.client.fields import expect_object
from benchsuite.client.health import SOURCE as HEALTH
from benchsuite.client.limits import let_go, tokens_in_time, whole_request
from benchsuite.client.reply import Stopwatch
from benchsuite.client.silence import Silence, Waiting
from benchsuite.client.sse import Event, EventReader
from benchsuite.client.transport import (
    RetiringTransport,
    certificates,
    distrust,
    out_of_files,
    stamped,
)
from benchsuite.errors import (
    ConfigError,
    ConnectionLostError,
    MachineError,
    RequestRefusedError,
    ServerHangError,
    ServerLiedError,
)
from benchsuite.redact import beginning
from benchsuite.units import MIB, format_number


class Pace(Protocol):
    """What is awaited before each request; `asyncio_throttle.Throttler` is one."""

    async def acquire(self) -> None:
        """Return once the next request may be sent."""


REQUEST_ID = "X-Request-Id"
"""The header that carries a request's id, for a server's or a proxy's own log; llama-server itself
passes over it."""

_CONNECT_SECONDS = 10.0
_MAX_BODY_BYTES = 64 * MIB
_END_SECONDS = 1.0
"""How long the end of a stream's body is waited for once its last event has come."""


class Exchanges:
    """Requests to one llama-server; the arguments are those of `LlamaClient`."""

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
        self.base_url = base_url.rstrip("/")
        self._idle_seconds = idle_seconds
        self._token_seconds = token_seconds
        self._request_seconds = request_seconds
        self._pace = pace
        self._model = model
        self._ca = ca
        self._http = self._connections(api_key)
        self._silence = Silence(idle_seconds)

    @property
    def is_paced(self) -> bool:
        """Whether a cap of the rate may hold requests back."""
        return self._pace is not None

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

    async def unless_off(self, path: str) -> bytes | None:
        """What a GET answers; None where the endpoint is off (501) or absent (404)."""
        async with self.exchange("GET", path) as response:
            content = await self.read(response, path)
        if response.status_code in (404, 501):
            return None
        if response.status_code != 200:
            raise self.refused(path, response, content)
        return content

    async def json(
        self, method: str, path: str, payload: Any = None, stamps: Stopwatch | None = None
    ) -> Any:
        """The decoded answer.

        Raises:
            RequestRefusedError: Its status is not 200.
        """
        async with self.exchange(method, path, payload, stamps) as response:
            content = await self.read(response, path)
            if stamps is not None:
                stamps.end_ns = stamped(response).read_ns
        if response.status_code != 200:
            raise self.refused(path, response, content)
        return self.decode(path, content)

    def events(self, path: str, payload: Any, stamps: Stopwatch) -> AsyncGenerator[Event, None]:
        """The events of a streamed answer; `stamps.at_ns` is when the last byte of each came.

        Raises:
            RequestRefusedError: The status is not 200.
            ConnectionLostError: It is no stream of events, or was cut inside one.
            ServerHangError: A token did not come in time.
            ServerLiedError: An event is too large.
        """
        events = self._events(path, payload, stamps)
        return tokens_in_time(events, stamps, self._token_seconds, f"{self.base_url}{path}")

    async def _events(
        self, path: str, payload: Any, stamps: Stopwatch
    ) -> AsyncGenerator[Event, None]:
        reader = EventReader()
        async with self.exchange("POST", path, payload, stamps) as response:
            if response.status_code != 200:
                raise self.refused(path, response, await self.read(response, path))
            if "text/event-stream" not in response.headers.get("content-type", ""):
                content = await self.read(response, path)
                raise ConnectionLostError(
                    f"{path}: expected a stream of events, got {self._kind_of(response, content)}"
                )
            stream = stamped(response)
            chunks = response.aiter_raw()
            async for chunk in chunks:
                stamps.at(stream.read_ns)
                self._silence.heard(stream.read_ns)
                for event in reader.feed(chunk):
                    yield event
                if stamps.complete:
                    break
            if stamps.complete:
                # what still comes is held against what was said; the end of the body is waited for
                # only so that the connection can be used again
                async for chunk in _for_a_while(chunks, min(_END_SECONDS, self._idle_seconds / 2)):
                    for event in reader.feed(chunk):
                        yield event
            stamps.end_ns = stream.read_ns
            stamps.held_up = stream.held_up
            if reader.pending:
                raise ConnectionLostError(f"{path}: the stream was cut in the middle of an event")

    @asynccontextmanager
    async def exchange(
        self, method: str, path: str, payload: Any = None, stamps: Stopwatch | None = None
    ) -> AsyncIterator[httpx.Response]:
        """One request, and its answer from the head on.

        Args:
            method: GET or POST.
            path: With its query.
            payload: Sent as JSON; None sends no body.
            stamps: Told when the request went and when the head came; names its id, if any.

        Raises:
            ConfigError, ConnectionLostError, ServerHangError: It cannot be had.
            MachineError: We may open no more files.
        """
        if self._model is not None:
            path, payload = addressed(self._model, path, payload)
        content = None if payload is None else msgspec.json.encode(payload)
        headers = {} if payload is None else {"Content-Type": "application/json"}
        if stamps is not None and stamps.request_id is not None:
            headers[REQUEST_ID] = stamps.request_id
        if self._pace is not None:
            await self._pace.acquire()
            let_go()
            if stamps is not None:
                stamps.let_go_ns = time.monotonic_ns()
        waiting = None
        if stamps is not None:
            stamps.sent_ns = time.monotonic_ns()
            waiting = Waiting(self._silence)
        where = f"{self.base_url}{path}"
        try:
            async with (
                whole_request(self._request_seconds, where),
                self._http.stream(method, path, content=content, headers=headers) as response,
            ):
                if waiting is not None and stamps is not None:
                    waiting.has_come()
                    stream = stamped(response)
                    self._silence.heard(stream.read_ns)
                    stamps.headers_ns = stream.read_ns
                    # 0 where it was answered before all of it went
                    stamps.sent_ns = min(stream.sent_ns or stamps.sent_ns, stream.read_ns)
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
            if out_of_files(error):
                raise MachineError(
                    f"no connection to {self.base_url} can be opened: {error}",
                    hint="we hold as many files as we or the machine may: raise the limit "
                    "(ulimit -n 4096), or send less at once",
                ) from error
            raise ConnectionLostError(f"cannot connect to {self.base_url}: {error}") from error
        except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.LocalProtocolError) as error:
            raise ConfigError(f"cannot send to '{where}': {error}") from error
        except httpx.HTTPError as error:
            detail = str(error) or type(error).__name__
            raise ConnectionLostError(f"{where}: the connection broke: {detail}") from error

    async def read(self, response: httpx.Response, path: str) -> bytes:
        """The whole body.

        Raises:
            ServerLiedError: It is larger than 64 MiB.
        """
        pieces: list[bytes] = []
        size = 0
        async for chunk in response.aiter_bytes():
            size += len(chunk)
            if size > _MAX_BODY_BYTES:
                raise ServerLiedError(f"{path}: the answer is larger than 64 MiB")
            pieces.append(chunk)
        return b"".join(pieces)

    def decode(self, path: str, content: bytes | str) -> Any:
        """JSON as values.

        Raises:
            ConnectionLostError: It is none: something else answers there.
        """
        try:
            return msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConnectionLostError(
                f"{self.base_url}{path} did not answer with JSON but with {quoted(content)}",
                hint="is this the address of a llama-server?",
            ) from error

    def event_object(self, path: str, event: Event) -> dict[str, Any]:
        """The object that an event carries.

        Raises:
            RequestRefusedError: It is an error.
            ConnectionLostError, ServerLiedError: It is no JSON, or no object.
        """
        body = expect_object(self.decode(path, event.data), f"{path}: an event")
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
        return f"{kind}: {quoted(content)}"

    def refused(
        self, path: str, response: httpx.Response, content: bytes
    ) -> RequestRefusedError | ConnectionLostError:
        """The error that an answer with another status than 200 is, with its remedy."""
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


async def _for_a_while(chunks: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """The pieces that come within so many seconds."""
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    while clock() < until:
        try:
            async with asyncio.timeout_at(until):
                chunk = await anext(chunks)
        except (StopAsyncIteration, TimeoutError):
            return
        yield chunk


def addressed(model: str, path: str, payload: Any) -> tuple[str, Any]:
    """A request to a router, with the name of the model that is to answer it."""
    if isinstance(payload, dict):
        return path, {"model": model, **payload}
    if payload is None and path != HEALTH:  # which is the router's own
        return f"{path}{'&' if '?' in path else '?'}model={quote(model, safe='')}", None
    return path, payload


def _error_of(body: Any) -> tuple[int, str, str]:
    """Status, kind and message of an error body; tolerant, since forks vary it."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(error, dict):
        code = error.get("code")
        status = code if isinstance(code, int) and not isinstance(code, bool) else 0
        kind = error.get("type")
        message = error.get("message", "no message")
        return status, kind if isinstance(kind, str) else "", beginning(str(message), 500)
    return 0, "", beginning(str(error), 500)


def quoted(content: bytes | str) -> str:
    """The beginning of what was answered, for a message."""
    whole = content if isinstance(content, str) else content.decode("utf-8", "replace")
    text = beginning(whole, 80).strip()
    printable = "".join(c if c.isprintable() else " " for c in text)
    return f"'{printable}{'...' if len(content) > 80 else ''}'" if printable else "nothing"
