"""An httpx transport whose connections are retired before the server closes them.

llama-server's HTTP library (cpp-httplib) closes a kept-alive connection after 100 requests, and
after 5 s without one, without warning: a request sent at that moment ends in "Server disconnected
without sending a response" and may not be repeated safely. The same happens after a streamed reply:
build 11549 closes a few milliseconds after its last chunk, also without a word (seen with
`Keep-Alive: timeout=5, max=100` in the head of that very reply). So every connection carries a
counted number of requests, is dropped well before both limits and after a stream, and a busy one
is never shared.

Nor is one used again on which more came than the answer: those bytes would be taken for the answer
to the next request.

Each is a connection of httpcore over `StampedBackend`, made by httpcore's public classes alone:
httpx's own transport takes no backend.
"""

from __future__ import annotations

import errno
import ssl
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpcore
import httpx

from benchsuite.client.network import StampedBackend, StampedStream
from benchsuite.errors import ConfigError
from benchsuite.regular import open_regular

REQUESTS_PER_CONNECTION = 90
"""Of the 100 after which cpp-httplib closes (`CPPHTTPLIB_KEEPALIVE_MAX_COUNT`)."""

IDLE_SECONDS = 2.0
"""Of the 5 after which cpp-httplib closes (`CPPHTTPLIB_KEEPALIVE_TIMEOUT_SECOND`)."""


class _Lane:
    """One connection and how often it was used."""

    __slots__ = ("connection", "freed_at", "origin", "used")

    def __init__(self, origin: httpcore.Origin, context: ssl.SSLContext | None) -> None:
        self.origin = origin
        self.connection = httpcore.AsyncHTTPConnection(
            origin, ssl_context=context, network_backend=StampedBackend()
        )
        self.used = 0
        self.freed_at = 0.0


class _LaneStream(httpx.AsyncByteStream):
    """A response body that gives its connection back when it is closed."""

    def __init__(
        self, inner: httpcore.Response, owner: RetiringTransport, lane: _Lane, *, events: bool
    ) -> None:
        self._inner = inner
        self._owner = owner
        self._lane: _Lane | None = lane
        self._events = events
        self._finished = False
        self._last = b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = self._inner.stream
        if not isinstance(body, AsyncIterable):  # cannot happen with an async connection
            raise TypeError(f"expected an asynchronous stream, got {type(body).__name__}")
        with _as_httpx():
            async for chunk in body:
                self._last = chunk
                yield chunk
        self._finished = True

    async def aclose(self) -> None:
        with _as_httpx():
            await self._inner.aclose()
        lane, self._lane = self._lane, None
        if lane is not None:
            whole = self._finished and not self._events and self._nothing_follows()
            await self._owner.give_back(lane, reusable=whole)

    def _nothing_follows(self) -> bool:
        """Whether the bytes read last end where the body does, or with its last chunk."""
        stream = self._inner.extensions.get("network_stream")
        if not isinstance(stream, StampedStream):
            return False
        return stream.last_read.endswith((self._last or b"\r\n\r\n", b"\r\n0\r\n\r\n"))


class RetiringTransport(httpx.AsyncBaseTransport):
    """As many connections as there are requests under way, each retired by count and by age.

    Args:
        verify: What certificates are verified by; plain HTTP passes False, since building a TLS
            context costs about 15 ms.
    """

    def __init__(self, *, verify: bool | ssl.SSLContext) -> None:
        self._context = verify if isinstance(verify, ssl.SSLContext) else None
        self._free: list[_Lane] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send on a free connection that is young enough, else on a new one."""
        url = request.url
        if url.scheme not in ("http", "https"):
            raise httpx.UnsupportedProtocol(f"'{url.scheme}' is neither http nor https")
        if url.scheme == "https" and self._context is None:
            raise httpx.UnsupportedProtocol("https needs certificates to verify the server by")
        target = httpcore.URL(
            scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
        )
        lane = await self._take(target.origin)
        lane.used += 1
        asked = httpcore.Request(
            request.method,
            target,
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        try:
            with _as_httpx():
                reply = await lane.connection.handle_async_request(asked)
        except BaseException:
            await lane.connection.aclose()
            raise
        stream = reply.extensions.get("network_stream")
        if isinstance(stream, StampedStream) and not stream.last_read:
            await lane.connection.aclose()
            raise httpx.RemoteProtocolError(
                "an answer was there before its request was sent: the server answered the request "
                "before it twice"
            )
        kind = httpx.Headers(reply.headers).get("content-type", "")
        events = kind.startswith("text/event-stream")
        return httpx.Response(
            reply.status,
            headers=reply.headers,
            stream=_LaneStream(reply, self, lane, events=events),
            extensions=reply.extensions,
        )

    async def _take(self, origin: httpcore.Origin) -> _Lane:
        while self._free:
            lane = self._free.pop()
            is_young = time.monotonic() - lane.freed_at < IDLE_SECONDS
            if is_young and lane.origin == origin and not lane.connection.has_expired():
                return lane
            await lane.connection.aclose()
        return _Lane(origin, self._context)

    async def give_back(self, lane: _Lane, *, reusable: bool) -> None:
        """Keep a connection for the next request, or close it."""
        is_open = lane.connection.is_idle() and not lane.connection.is_closed()
        if reusable and is_open and lane.used < REQUESTS_PER_CONNECTION:
            lane.freed_at = time.monotonic()
            self._free.append(lane)
        else:
            await lane.connection.aclose()

    async def aclose(self) -> None:
        """Close every free connection; busy ones close when their response does."""
        while self._free:
            await self._free.pop().connection.aclose()


def stamped(response: httpx.Response) -> StampedStream:
    """The stream that a response is read from, which knows when its bytes came.

    Raises:
        TypeError: It is another one: this version of httpcore hands on another stream, and no
            stamp could be trusted.
    """
    stream = response.extensions.get("network_stream")
    if not isinstance(stream, StampedStream):
        raise TypeError(
            f"httpcore {httpcore.__version__} reads from {type(stream).__name__} instead of the "
            "stream that stamps bytes"
        )
    return stream


_ERRORS: dict[type[Exception], type[httpx.TransportError]] = {
    httpcore.ConnectTimeout: httpx.ConnectTimeout,
    httpcore.ReadTimeout: httpx.ReadTimeout,
    httpcore.WriteTimeout: httpx.WriteTimeout,
    httpcore.PoolTimeout: httpx.PoolTimeout,
    httpcore.TimeoutException: httpx.TimeoutException,
    httpcore.ConnectError: httpx.ConnectError,
    httpcore.ReadError: httpx.ReadError,
    httpcore.WriteError: httpx.WriteError,
    httpcore.NetworkError: httpx.NetworkError,
    httpcore.UnsupportedProtocol: httpx.UnsupportedProtocol,
    httpcore.LocalProtocolError: httpx.LocalProtocolError,
    httpcore.RemoteProtocolError: httpx.RemoteProtocolError,
    httpcore.ProtocolError: httpx.ProtocolError,
}
"""Of httpcore -> of httpx; the more special ones first."""


@contextmanager
def _as_httpx() -> Iterator[None]:
    """Make httpcore's errors httpx's, as its own transport does."""
    try:
        yield
    except tuple(_ERRORS) as error:
        kind = next(theirs for ours, theirs in _ERRORS.items() if isinstance(error, ours))
        raise kind(str(error)) from error


def certificates(ca: str | None) -> ssl.SSLContext:
    """What a server's certificate is verified by.

    Args:
        ca: A file of PEM certificates to trust instead of the public ones; None: those that
            `SSL_CERT_FILE` names, else the public ones.

    Raises:
        ConfigError: The file cannot be read, or holds no certificate.
    """
    if ca is None:
        return httpx.create_ssl_context(trust_env=True)
    try:
        open_regular(Path(ca)).close()
        return ssl.create_default_context(cafile=ca)
    except ssl.SSLError:
        raise ConfigError("holds no certificate in PEM form", where=ca) from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", where=ca) from error


def distrust(error: BaseException) -> str | None:
    """Why the certificate was not trusted, where that is what an error comes of; else None."""
    for seen in _chain(error):
        if isinstance(seen, ssl.SSLCertVerificationError):
            return seen.verify_message or str(seen)
    return None


def out_of_files(error: BaseException) -> bool:
    """Whether an error comes of our own, or the machine's, limit of open files."""
    return any(
        isinstance(seen, OSError) and seen.errno in (errno.EMFILE, errno.ENFILE)
        for seen in _chain(error)
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what it comes of."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
