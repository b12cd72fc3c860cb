"""An httpx transport whose connections are retired before the server closes them.

llama-server's HTTP library (cpp-httplib) closes a kept-alive connection after 100 requests, and
after 5 s without one, without warning: a request sent at that moment ends in "Server disconnected
without sending a response" and may not be repeated safely. The same happens after a streamed reply:
build 11549 closes a few milliseconds after its last chunk, also without a word (seen with
`Keep-Alive: timeout=5, max=100` in the head of that very reply). So every connection carries a
counted number of requests, is dropped well before both limits and after a stream, and a busy one
is never shared.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncIterator

import httpx

from benchsuite.errors import ConfigError

REQUESTS_PER_CONNECTION = 90
"""Of the 100 after which cpp-httplib closes (`CPPHTTPLIB_KEEPALIVE_MAX_COUNT`)."""

IDLE_SECONDS = 2.0
"""Of the 5 after which cpp-httplib closes (`CPPHTTPLIB_KEEPALIVE_TIMEOUT_SECOND`)."""


class _Lane:
    """One connection and how often it was used."""

    __slots__ = ("freed_at", "transport", "used")

    def __init__(self, transport: httpx.AsyncHTTPTransport) -> None:
        self.transport = transport
        self.used = 0
        self.freed_at = 0.0


class _LaneStream(httpx.AsyncByteStream):
    """A response body that gives its connection back when it is closed."""

    def __init__(
        self, inner: httpx.AsyncByteStream, owner: RetiringTransport, lane: _Lane, *, events: bool
    ) -> None:
        self._inner = inner
        self._owner = owner
        self._lane: _Lane | None = lane
        self._events = events
        self._finished = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            yield chunk
        self._finished = True

    async def aclose(self) -> None:
        await self._inner.aclose()
        lane, self._lane = self._lane, None
        if lane is not None:
            await self._owner.give_back(lane, reusable=self._finished and not self._events)


class RetiringTransport(httpx.AsyncBaseTransport):
    """As many connections as there are requests under way, each retired by count and by age.

    Args:
        verify: What httpx takes as `verify`; plain HTTP passes False, since building a TLS
            context costs about 15 ms.
    """

    def __init__(self, *, verify: bool | ssl.SSLContext) -> None:
        self._verify = verify
        self._free: list[_Lane] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send on a free connection that is young enough, else on a new one."""
        lane = await self._take()
        lane.used += 1
        try:
            response = await lane.transport.handle_async_request(request)
        except BaseException:
            await lane.transport.aclose()
            raise
        stream = response.stream
        if not isinstance(stream, httpx.AsyncByteStream):  # cannot happen with an async transport
            raise TypeError(f"expected an asynchronous stream, got {type(stream).__name__}")
        events = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _LaneStream(stream, self, lane, events=events)
        return response

    async def _take(self) -> _Lane:
        while self._free:
            lane = self._free.pop()
            if time.monotonic() - lane.freed_at < IDLE_SECONDS:
                return lane
            await lane.transport.aclose()
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1)
        return _Lane(httpx.AsyncHTTPTransport(verify=self._verify, limits=limits))

    async def give_back(self, lane: _Lane, *, reusable: bool) -> None:
        """Keep a connection for the next request, or close it."""
        if reusable and lane.used < REQUESTS_PER_CONNECTION:
            lane.freed_at = time.monotonic()
            self._free.append(lane)
        else:
            await lane.transport.aclose()

    async def aclose(self) -> None:
        """Close every free connection; busy ones close when their response does."""
        while self._free:
            await self._free.pop().transport.aclose()


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
        return ssl.create_default_context(cafile=ca)
    except ssl.SSLError:
        raise ConfigError("holds no certificate in PEM form", where=ca) from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", where=ca) from error


def distrust(error: BaseException) -> str | None:
    """Why the certificate was not trusted, where that is what an error comes of; else None."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            return seen.verify_message or str(seen)
        seen = seen.__cause__ or seen.__context__
    return None
