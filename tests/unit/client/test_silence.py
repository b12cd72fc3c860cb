"""A request that waits its turn is not a server that hung."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from benchsuite.client.exchange import Exchanges
from benchsuite.client.reply import Stopwatch
from benchsuite.errors import ServerHangError

IDLE = 0.5
BUSY_SECONDS = 1.5
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
LIST = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]"


async def _answer(path: bytes, writer: asyncio.StreamWriter) -> None:
    """`/busy` sends events for 1.5 s; `/after` begins then, `/never` never, `/stall` stops."""
    if path == b"/slots":
        writer.write(LIST)
    elif path == b"/busy":
        writer.write(HEAD)
        until = time.monotonic() + BUSY_SECONDS
        while time.monotonic() < until:
            writer.write(b"data: {}\n\n")
            await asyncio.sleep(0.05)
    elif path == b"/after":
        await asyncio.sleep(BUSY_SECONDS)
        writer.write(HEAD + b"data: {}\n\n")
    elif path == b"/stall":
        writer.write(HEAD + b"data: {}\n\n")
        await asyncio.sleep(60)
    else:
        await asyncio.sleep(60)


@asynccontextmanager
async def _asking() -> AsyncIterator[Exchanges]:
    """A client of such a server, which is gone afterwards."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with suppress(asyncio.CancelledError):
                await _answer((await reader.readline()).split()[1], writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    wire = Exchanges(url, idle_seconds=IDLE)
    try:
        yield wire
    finally:
        await wire.aclose()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _struck(wire: Exchanges, path: str) -> float | None:
    """After how many seconds the limit struck; None where the reply was had."""
    began = time.monotonic()
    try:
        async for _ in wire.events(path, {}, Stopwatch()):
            pass
    except ServerHangError:
        return time.monotonic() - began
    return None


async def _beside_busy(path: str) -> float | None:
    async with _asking() as wire:
        busy, other = await asyncio.gather(_struck(wire, "/busy"), _struck(wire, path))
    assert busy is None
    return other


def test_a_request_waits_while_others_are_answered() -> None:
    """Three times the limit here: that is what a backlog costs, and is measured."""
    assert asyncio.run(_beside_busy("/after")) is None


def test_a_server_that_answers_nothing_any_more_has_hung() -> None:
    """The limit counts from its last byte."""
    struck = asyncio.run(_beside_busy("/never"))
    assert struck is not None
    assert struck > BUSY_SECONDS


def test_a_stream_that_has_begun_is_held_to_its_own_bytes() -> None:
    """Whatever others get meanwhile."""
    struck = asyncio.run(_beside_busy("/stall"))
    assert struck is not None
    assert struck < BUSY_SECONDS


def test_a_question_that_needs_no_slot_waits_for_nothing() -> None:
    """`/metrics` is answered at once, or the server is out of order."""

    async def ask() -> None:
        async with _asking() as wire:
            busy = asyncio.ensure_future(_struck(wire, "/busy"))
            with pytest.raises(ServerHangError, match=r"no byte for 0\.5 s"):
                await wire.unless_off("/never")
            assert not busy.done()
            await busy

    asyncio.run(ask())


def test_answers_to_questions_are_no_replies() -> None:
    """A server whose HTTP threads live while its inference hangs has hung."""

    async def ask() -> float | None:
        async with _asking() as wire:
            reply = asyncio.ensure_future(_struck(wire, "/never"))
            while not reply.done():
                assert await wire.json("GET", "/slots") == []
                await asyncio.sleep(0.05)
            return await reply

    assert asyncio.run(ask()) is not None
