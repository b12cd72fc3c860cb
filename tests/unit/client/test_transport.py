"""A connection is used again only where nothing but the answer came on it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os

import httpx
import pytest

from benchsuite.client import network
from benchsuite.client.exchange import Exchanges
from benchsuite.client.transport import RetiringTransport
from benchsuite.errors import ConnectionLostError, MachineError

_PIECE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n%b"
_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n%b\r\n0\r\n\r\n"


def _ask(times: int, *answers: bytes) -> tuple[list[str], int]:
    """The bodies of so many requests, one after another, and how many connections they took."""
    opened = 0
    left = asyncio.Semaphore(0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"".join(answers))
                await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        left.release()

    async def run() -> list[str]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            async with httpx.AsyncClient(transport=RetiringTransport(verify=False)) as client:
                return [(await client.get(f"http://127.0.0.1:{port}/")).text for _ in range(times)]
        finally:
            server.close()
            for _ in range(opened):
                await left.acquire()

    return asyncio.run(run()), opened


@pytest.mark.parametrize("answer", [_PIECE, _CHUNKED])
def test_a_connection_is_used_again(answer: bytes) -> None:
    """Nothing but the answer came, of a length or in chunks."""
    assert _ask(5, answer % b"true") == (["true"] * 5, 1)


def test_a_second_answer_is_not_the_next_requests() -> None:
    """What came behind an answer ends its connection."""
    assert _ask(3, _PIECE % b"true", _PIECE % b"lies") == (["true"] * 3, 3)


def test_a_second_answer_like_the_first_is_an_error() -> None:
    """It cannot be told from the first's end; but it is there before the next request is sent."""
    with pytest.raises(httpx.RemoteProtocolError, match="before its request was sent"):
        _ask(2, _PIECE % b"true", _PIECE % b"true")


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EMFILE, MachineError),
        (errno.ENFILE, MachineError),
        (errno.ECONNREFUSED, ConnectionLostError),
    ],
)
def test_files_that_we_cannot_open_are_no_fault_of_the_server(
    number: int, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit of open files is ours; that nobody listens is not."""

    def none(*_: object) -> network.StampedSocket:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(network, "StampedSocket", none)

    async def ask() -> None:
        wire = Exchanges("http://127.0.0.1:9")
        try:
            async with wire.exchange("GET", "/health"):
                pass
        finally:
            await wire.aclose()

    with pytest.raises(kind, match=os.strerror(number)):
        asyncio.run(ask())
