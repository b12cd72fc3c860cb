"""Stamps are those of the socket, and tokens are counted as the server counts them."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpcore
import pytest

from benchsuite.client import network
from benchsuite.client.api import LlamaClient
from benchsuite.client.body import TEXT, ChatParts, CompletionParts
from benchsuite.client.network import StampedBackend, StampedSocket, StampedStream
from benchsuite.client.reply import Reply, Stamps, Timings, gaps_ns

PACED = Path(__file__).parents[2] / "servers" / "paced.py"


def _reply(*token_ns: int) -> Reply:
    return Reply("", "", None, None, None, None, None, "", False, Timings(), Stamps(0, 0), token_ns)


def test_tokens_of_one_moment_end_one_gap() -> None:
    """A run of tokens that came together makes no gaps of 0."""
    assert gaps_ns(_reply(10, 30, 30, 30, 35)) == (20, 5)
    assert gaps_ns(_reply(10, 10)) == ()
    assert gaps_ns(_reply()) == ()


def test_running_counts_tell_tokens_that_were_held_back() -> None:
    """No event is sent for a part of a character; the next one's count has both."""
    parts = CompletionParts(1)
    events = [("a", 1), ("é", 3), ("", 4), ("b", 5)]
    assert [parts.take({"content": c, "tokens_predicted": n}) for c, n in events] == [1, 2, 1, 1]
    assert parts.take({"content": "", "stop": True, "tokens_predicted": 5}) == 0


def test_without_running_counts_text_is_a_token() -> None:
    """The count in a chat's last event is of the whole reply, and no tokens came with it."""
    parts = ChatParts(TEXT)
    assert parts.take({"choices": [{"text": "a"}]}) == 1
    assert parts.take({"choices": [{"text": "b"}], "timings": {"predicted_n": 4}}) == 3
    assert parts.take({"choices": [{"text": ""}], "timings": {"predicted_n": 9}}) == 0


async def _stream(serve: object) -> tuple[StampedStream, asyncio.Server]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)  # type: ignore[arg-type]
    port = server.sockets[0].getsockname()[1]
    stream = await StampedBackend().connect_tcp("127.0.0.1", port, timeout=5)
    assert isinstance(stream, StampedStream)
    return stream, server


def test_bytes_are_stamped_when_they_come_and_not_when_they_are_read() -> None:
    """A task that reads late does not make them late."""

    async def read() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(1)
            writer.write(b"x")
            await reader.read()  # until the client goes
            writer.close()
            gone.set()

        gone = asyncio.Event()
        stream, server = await _stream(serve)
        before = time.monotonic_ns()
        await stream.write(b"a")
        assert before <= stream.sent_ns <= time.monotonic_ns()
        while not stream.get_extra_info("is_readable"):  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0)
        while not stream._wire.pieces:  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0)
        between = time.monotonic_ns()
        assert await stream.read(10) == b"x"
        assert before < stream.read_ns < between
        with pytest.raises(httpcore.ReadTimeout):
            await stream.read(10, timeout=0.01)
        await stream.aclose()
        await gone.wait()
        server.close()

    asyncio.run(read())


def test_what_is_not_read_is_held_up_and_comes_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory stays bounded, nothing is lost, and that stamps are late then is told."""
    monkeypatch.setattr(network, "HELD_BYTES", 1000)

    async def read() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"x" * 3_000_000)
            await writer.drain()
            writer.close()

        stream, server = await _stream(serve)
        while not stream.held_up:  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0)
        size = 0
        while content := await stream.read(65536, timeout=5):
            size += len(content)
        assert size == 3_000_000
        await stream.aclose()
        server.close()

    asyncio.run(read())


def test_stamps_of_a_paced_server_pair_with_its_own() -> None:
    """Each endpoint's tokens are counted and come in order, and ids pair both logs."""

    async def ask() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(PACED),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        client = LlamaClient(f"http://127.0.0.1:{int(await process.stdout.readline())}")
        fields = {"paced": {"rate": 200}}
        replies = [
            await client.complete("x", {"n_predict": 5, **fields}, request_id="a"),
            await client.complete_text("x", {"max_tokens": 5, **fields}, request_id="b"),
            await client.chat([], {"max_tokens": 5, **fields}, request_id="c"),
        ]
        log = await client._wire.json("GET", "/log")
        await client.aclose()
        process.stdin.close()
        await process.wait()
        assert sorted(log) == ["a", "b", "c"]
        for reply, told in zip(replies, (log[name] for name in "abc"), strict=True):
            assert reply.output_tokens == 5
            assert reply.text == " word" * 5
            stamps = reply.stamps
            assert stamps.scheduled_ns <= stamps.sent_ns <= stamps.headers_ns
            assert stamps.headers_ns <= stamps.first_token_ns <= stamps.last_token_ns
            assert stamps.last_token_ns <= stamps.end_ns
            pairs = list(zip(told["sent_ns"], reply.token_ns, strict=True))
            assert all(sent < came for sent, came in pairs)

    asyncio.run(ask())


@contextmanager
def _connected(address: str = "127.0.0.1") -> Iterator[tuple[StampedSocket, socket.socket]]:
    """A socket of ours, and the other end of its connection."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with (
        socket.create_server((address, 0), family=family) as server,
        StampedSocket(family) as ours,
    ):
        ours.connect(server.getsockname())
        theirs, _ = server.accept()
        with theirs:
            yield ours, theirs


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux stamps what comes over TCP")
def test_a_process_that_is_busy_takes_the_stamp_of_the_kernel() -> None:
    """Bytes that come while nobody looks are stamped when they came, not when they were taken."""
    with _connected() as (ours, theirs):
        before = time.monotonic_ns()
        sender = threading.Thread(target=theirs.sendall, args=(b"x",))
        sender.start()
        sender.join()
        time.sleep(0.2)
        looked = time.monotonic_ns()
        assert ours.recv_into(bytearray(10)) == 1
        assert before < ours.came_ns < looked


@pytest.mark.parametrize("step_ns", [-3_600_000_000_000, 3_600_000_000_000])
def test_a_step_of_the_clock_moves_no_stamp_out_of_its_bounds(
    monkeypatch: pytest.MonkeyPatch, step_ns: int
) -> None:
    """A stamp lies between the last look that found all taken, and now."""
    true_ns = time.time_ns
    with _connected() as (ours, theirs):
        theirs.sendall(b"x")
        assert ours.recv_into(bytearray(10)) == 1
        emptied = time.monotonic_ns()
        monkeypatch.setattr(time, "time_ns", lambda: true_ns() + step_ns)
        theirs.sendall(b"y")
        time.sleep(0.01)
        assert ours.recv_into(bytearray(10)) == 1
        assert emptied - 1_000_000_000 < ours.came_ns <= time.monotonic_ns()


def test_what_no_kernel_stamps_is_stamped_as_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the option is unknown, the time of the read is taken."""
    monkeypatch.setattr(network, "_STAMPS", False)
    with _connected() as (ours, theirs):
        theirs.sendall(b"x")
        time.sleep(0.01)
        before = time.monotonic_ns()
        assert ours.recv_into(bytearray(10)) == 1
        assert before <= ours.came_ns <= time.monotonic_ns()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_host_is_reached_by_name_and_by_address(host: str) -> None:
    """A name is looked up, and any of its addresses will do."""

    async def connect() -> object:
        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            stream = await StampedBackend().connect_tcp(host, port, timeout=5)
            try:
                return stream.get_extra_info("server_addr")
            finally:
                await stream.aclose()

    assert asyncio.run(connect())[0] == "127.0.0.1"  # type: ignore[index]


def test_nobody_listening_is_an_error_of_the_connection() -> None:
    """The words are the system's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(httpcore.ConnectError, match="Connect call failed"):
        asyncio.run(StampedBackend().connect_tcp("127.0.0.1", port, timeout=5))
