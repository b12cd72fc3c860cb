"""Connections whose bytes are stamped when they come: a backend of httpcore.

httpcore takes any `AsyncNetworkBackend`, which is its public interface for this. The one that comes
with it hands bytes to the task that awaits them, and whoever stamps there measures how busy the
tasks are: of 64 streams whose tokens come at one moment, the last is parsed milliseconds later.
Here each piece has the kernel's own stamp of its arrival where there is one (`StampedSocket`), else
that of the callback that takes it off the socket, and is kept until it is asked for. Tasks are
woken one a pass of the loop (`_Turns`), so that bytes that come while one of them parses are taken
before the next one does.

TLS is the event loop's own; the stamp is that of the bytes that completed a record.
"""

from __future__ import annotations

import asyncio
import platform
import select
import socket
import ssl
import struct
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakKeyDictionary

import aiohappyeyeballs
import httpcore

from benchsuite.client.silence import seconds_left

PIECE_BYTES = 64 * 1024
"""At most this is taken off a socket at once, and under one stamp."""

HELD_BYTES = 256 * 1024
"""A connection that holds so much unread is not read from until half of it is gone."""

_BUFFER = bytearray(PIECE_BYTES)
"""What sockets are read into; shared, since each callback copies what it got before it ends."""

_VIEW = memoryview(_BUFFER)

_SO_TIMESTAMPNS = 35
"""Of Linux's asm-generic/socket.h; Python does not name it."""

_STAMPS = sys.platform == "linux" and not platform.machine().startswith(("parisc", "sparc"))
"""The two whose headers give the option another number."""

_TIMESPEC = struct.Struct("@ll")
_EYEBALLS_SECONDS = 0.25
"""After which the next address of a host is tried too (RFC 8305)."""

_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size) if _STAMPS else 0


class StampedSocket(socket.socket):
    """A socket that knows when the bytes that it gave last had come.

    Linux stamps what comes over TCP where it is asked to (`SO_TIMESTAMPNS`, see socket(7)), with
    the time of day: whatever the process does meanwhile, the stamp is that of the arrival. Of
    several packets that are taken at once it is the last one's. It is brought to the monotonic
    clock by its age, and never lies before the socket was last found empty, so that a step of the
    clock is worth at most the time between two reads. Elsewhere bytes are stamped as they are
    taken off the socket.

    Attributes:
        came_ns: Monotonic nanoseconds; 0 where nothing was read, or not by `recv_into`.
    """

    __slots__ = ("_by_kernel", "_emptied_ns", "came_ns")

    def __init__(self, family: int, kind: int = socket.SOCK_STREAM, proto: int = 0) -> None:
        super().__init__(family, kind, proto)
        self.came_ns = 0
        self._emptied_ns = time.monotonic_ns()
        self._by_kernel = _STAMPS and family in (socket.AF_INET, socket.AF_INET6)
        if self._by_kernel:
            try:
                self.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            except OSError:  # a sandbox that has none
                self._by_kernel = False

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Read as `socket.recv_into`, which the event loop calls, and stamp what was read."""
        if not self._by_kernel:
            count = super().recv_into(buffer, nbytes, flags)
            self.came_ns = time.monotonic_ns()
            return count
        asked_ns = time.monotonic_ns()
        count, ancillary, _, _ = self.recvmsg_into((buffer,), _ANCILLARY_BYTES)
        wall_ns = time.time_ns()  # this clock first: held up between the two, a stamp is late
        now_ns = time.monotonic_ns()
        came_ns = now_ns
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
                seconds, rest = _TIMESPEC.unpack_from(content)
                came_ns = min(now_ns, now_ns - wall_ns + seconds * 1_000_000_000 + rest)
        self.came_ns = max(came_ns, self._emptied_ns)
        if count < len(buffer):
            self._emptied_ns = asked_ns
        return count


class _Turns:
    """Wakes the tasks that await bytes, one a pass of the event loop, first come first served."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self._due: deque[asyncio.Future[None]] = deque()
        self._running = False

    def ask(self, waiter: asyncio.Future[None]) -> None:
        """Have `waiter` answered when its turn comes."""
        self._due.append(waiter)
        if not self._running:
            self._running = True
            self._call_soon(self._next)

    def _next(self) -> None:
        due = self._due
        while due:
            waiter = due.popleft()
            if not waiter.done():
                waiter.set_result(None)
                # the task runs in the next pass; what came meanwhile is taken in the one after
                # it, ahead of the next task
                self._call_soon(self._call_soon, self._next)
                return
        self._running = False


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()


def _turns_of(loop: asyncio.AbstractEventLoop) -> _Turns:
    found = _turns.get(loop)
    if found is None:
        found = _turns[loop] = _Turns(loop)
    return found


class _Wire(asyncio.BufferedProtocol):
    """One socket: pieces with the time at which each was taken off it.

    Attributes:
        pieces: Not yet read, oldest first; (monotonic ns, bytes).
        ended_ns: When it was seen that nothing more will come; 0 before.
        fault: Why the connection was lost; None where it was closed in good order.
        sent_ns: When the last byte written so far was handed to the socket; 0 while it is not.
        held_up: How often the socket was left unread since `HELD_BYTES` were waiting: what came
            then is stamped late.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: StampedSocket) -> None:
        self.transport: asyncio.Transport | None = None
        self.pieces: deque[tuple[int, bytes]] = deque()
        self.ended_ns = 0
        self.fault: Exception | None = None
        self.sent_ns = 0
        self.held_up = 0
        self._socket = sock
        self._loop = loop
        self._turns = _turns_of(loop)
        self._held = 0
        self._paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._asked = False  # whether the waiter's turn is coming
        self._drained: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0

    # what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.use(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _VIEW

    def buffer_updated(self, nbytes: int) -> None:
        came_ns = self._socket.came_ns or time.monotonic_ns()
        self.pieces.append((came_ns, bytes(_VIEW[:nbytes])))
        self._held += nbytes
        if self._held > HELD_BYTES and not self._paused and self.transport is not None:
            self._paused = True
            self.held_up += 1
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self.ended_ns = time.monotonic_ns()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended_ns = self.ended_ns or time.monotonic_ns()
        self.fault = exc
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wake()
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def pause_writing(self) -> None:
        self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        self.sent_ns = time.monotonic_ns()
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    # what the stream calls

    def use(self, transport: asyncio.Transport) -> None:
        """Go on over `transport`, as after a TLS handshake."""
        self.transport = transport
        transport.set_write_buffer_limits(high=0)  # told of the last byte, and of no earlier one

    def write(self, content: bytes) -> asyncio.Future[None] | None:
        """Hand bytes to the socket; a future where some of them have to wait."""
        if self.transport is None or self.ended_ns or self.transport.is_closing():
            raise httpcore.WriteError(_words(self.fault) or "the server closed the connection")
        self.sent_ns = 0
        before_ns = time.monotonic_ns()
        self.transport.write(content)
        if self._drained is None:
            self.sent_ns = before_ns
        return self._drained

    def take(self, most: int) -> tuple[int, bytes]:
        """The oldest piece, at most `most` bytes of it; call it only where there is one."""
        at_ns, content = self.pieces.popleft()
        if len(content) > most:
            self.pieces.appendleft((at_ns, content[most:]))
            content = content[:most]
        self._held -= len(content)
        if self._paused and self._held <= HELD_BYTES // 2 and self.transport is not None:
            self._paused = False
            if not self.transport.is_closing():
                self.transport.resume_reading()
        return at_ns, content

    async def wait(self, timeout: float | None) -> None:
        """Return once there is a piece, or the end.

        Raises:
            httpcore.ReadTimeout: Neither came within `timeout` seconds.
        """
        self._waiter = waiter = self._loop.create_future()
        self._asked = False
        if timeout is not None:
            self._deadline = self._loop.time() + timeout
            # one timer for many waits: it looks again at the deadline of the wait that is on
            if self._timer is not None and self._timer.when() > self._deadline:
                self._timer.cancel()
                self._timer = None
            if self._timer is None:
                self._timer = self._loop.call_at(self._deadline, self._look)
        else:
            self._deadline = float("inf")
        try:
            await waiter
        finally:
            self._waiter = None

    def _look(self) -> None:
        self._timer = None
        if self._waiter is None or self._waiter.done() or self._asked:
            return
        if self._loop.time() < self._deadline:
            if self._deadline != float("inf"):
                self._timer = self._loop.call_at(self._deadline, self._look)
            return
        self._waiter.set_exception(httpcore.ReadTimeout())

    def _wake(self) -> None:
        if self._waiter is not None and not self._asked:
            self._asked = True
            self._turns.ask(self._waiter)

    def close(self) -> None:
        """Drop the connection at once."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.transport is not None:
            self.transport.abort()


class StampedStream(httpcore.AsyncNetworkStream):
    """What httpcore reads and writes; made by `StampedBackend`.

    Attributes:
        read_ns: When the bytes that were read last had come, in monotonic nanoseconds; 0 before.
        last_read: The bytes that were read last since the last write; empty where none were.
    """

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire
        self.read_ns = 0
        self.last_read = b""

    @property
    def sent_ns(self) -> int:
        """When the last byte written so far was handed to the socket; 0 where it waits."""
        return self._wire.sent_ns

    @property
    def held_up(self) -> int:
        """How often bytes were left in the socket since too many waited to be read."""
        return self._wire.held_up

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """The oldest piece that was not read; empty at the end."""
        wire = self._wire
        while not wire.pieces and not wire.ended_ns:
            try:
                await wire.wait(timeout)
            except httpcore.ReadTimeout:
                timeout = seconds_left()
                if not timeout:
                    raise
        if wire.pieces:
            self.read_ns, self.last_read = wire.take(max_bytes)
            return self.last_read
        if wire.fault is not None:
            raise httpcore.ReadError(_words(wire.fault)) from wire.fault
        self.read_ns = wire.ended_ns
        return b""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of `buffer`."""
        if not buffer:
            return
        self.last_read = b""
        rest = self._wire.write(buffer)
        if rest is None:
            return
        async with _limit(timeout, httpcore.WriteTimeout):
            await asyncio.shield(rest)
        if self._wire.ended_ns and not self._wire.sent_ns:
            raise httpcore.WriteError(_words(self._wire.fault) or "the server closed")

    async def aclose(self) -> None:
        """Close the socket."""
        self._wire.close()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """The same connection, encrypted from here on."""
        wire = self._wire
        assert wire.transport is not None
        try:
            async with _limit(timeout, httpcore.ConnectTimeout):
                secured = await asyncio.get_running_loop().start_tls(
                    wire.transport, wire, ssl_context, server_hostname=server_hostname
                )
        except (OSError, ssl.SSLError) as error:
            wire.close()
            raise httpcore.ConnectError(_words(error)) from error
        except BaseException:
            wire.close()
            raise
        if secured is None:  # the connection went while hands were shaken
            raise httpcore.ConnectError("the server closed the connection during the handshake")
        wire.use(secured)
        return self

    def get_extra_info(self, info: str) -> Any:
        """What httpcore asks of a stream; None for what is not known."""
        transport = self._wire.transport
        if transport is None:
            return None
        if info == "is_readable":
            return bool(self._wire.pieces or self._wire.ended_ns) or _readable(transport)
        names = {"client_addr": "sockname", "server_addr": "peername"}
        return transport.get_extra_info(names.get(info, info))


class StampedBackend(httpcore.AsyncNetworkBackend):
    """Opens `StampedStream`s on asyncio's event loop."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection to `host`.

        Raises:
            httpcore.ConnectError, httpcore.ConnectTimeout: There is none.
        """
        if local_address is not None:
            raise httpcore.ConnectError("no address of our own can be chosen")
        try:
            async with _limit(timeout, httpcore.ConnectTimeout):
                found = await _addresses(host, port)
                sock = await aiohappyeyeballs.start_connection(
                    found,
                    happy_eyeballs_delay=_EYEBALLS_SECONDS,
                    socket_factory=lambda info: StampedSocket(*info[:3]),
                )
                return await _stream(sock)
        except OSError as error:
            raise httpcore.ConnectError(_words(error)) from error

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


async def _addresses(host: str, port: int) -> Sequence[aiohappyeyeballs.AddrInfoType]:
    """Where a host is; what is an address already asks no resolver, which costs a thread."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def _stream(sock: socket.socket) -> StampedStream:
    """What reads and writes a connected socket; it is closed where that fails."""
    loop = asyncio.get_running_loop()
    assert isinstance(sock, StampedSocket)
    try:
        _, wire = await loop.create_connection(lambda: _Wire(loop, sock), sock=sock)
    except BaseException:
        sock.close()
        raise
    return StampedStream(wire)


@asynccontextmanager
async def _limit(seconds: float | None, error: type[Exception]) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as late:
        raise error from late


def _words(error: BaseException | None) -> str:
    return "" if error is None else str(error) or type(error).__name__


def _readable(transport: asyncio.Transport) -> bool:
    """Whether bytes or the end wait in the socket, which the loop has not taken yet."""
    raw = transport.get_extra_info("socket")
    if raw is None or raw.fileno() < 0:
        return True
    if not hasattr(select, "poll"):
        return bool(select.select([raw.fileno()], [], [], 0)[0])
    poll = select.poll()
    poll.register(raw.fileno(), select.POLLIN)
    return bool(poll.poll(0))
