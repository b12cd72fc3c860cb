"""The client against scripted answers: every fault is a named error, nothing is sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from benchsuite.client import exchange
from benchsuite.client.api import LlamaClient
from benchsuite.client.exchange import addressed
from benchsuite.client.reply import Reply
from benchsuite.errors import (
    BenchsuiteError,
    ConfigError,
    ConnectionLostError,
    RequestRefusedError,
    ServerHangError,
    ServerLiedError,
)
from benchsuite.model.scenario import SlotAction

Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def _server(answer: Answer) -> AsyncIterator[str]:
    """A loopback HTTP server that answers every request by `answer(head, writer)`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                for line in head.split(b"\r\n"):
                    if line.lower().startswith(b"content-length:"):
                        await reader.readexactly(int(line.split(b":")[1]))
                await answer(head, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def _fixed(status: str, body: bytes, kind: str = "application/json", extra: str = "") -> Answer:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{extra}"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await writer.drain()

    return answer


async def _ask(answer: Answer, call: str, *, idle_seconds: float = 5.0) -> object:
    async with _server(answer) as url:
        client = LlamaClient(url, idle_seconds=idle_seconds)
        try:
            if call == "healthy":
                return await client.healthy()
            if call == "props":
                return await client.props()
            if call == "tokenise":
                return await client.tokenise("x")
            if call == "chat":
                return await client.chat([{"role": "user", "content": "x"}], {})
            return await client.complete("x", {})
        finally:
            await client.aclose()


def _run(answer: Answer, call: str, *, idle_seconds: float = 5.0) -> object:
    return asyncio.run(_ask(answer, call, idle_seconds=idle_seconds))


STREAM = "text/event-stream"


@pytest.mark.parametrize(
    ("answer", "call", "error", "words"),
    [
        (_fixed("200 OK", b"<html>hi</html>", "text/html"), "healthy", ConnectionLostError,
         "did not answer with JSON but with '<html>hi</html>'"),
        (_fixed("502 Bad Gateway", b"<html>", "text/html"), "props", ConnectionLostError,
         "answered 502 with text/html"),
        (_fixed("301 Moved", b"", extra="Location: http://127.0.0.1:1/\r\n"), "props",
         ConnectionLostError, r"redirects \(301\) to http://127.0.0.1:1/"),
        (_fixed("401 Unauthorized", b'{"error":{"code":401,"message":"Invalid API Key"}}'),
         "props", RequestRefusedError, "answered 401: Invalid API Key"),
        (_fixed("200 OK", b"[1]"), "props", ServerLiedError, "/props should be a JSON object"),
        (_fixed("200 OK", b'{"tokens": ["a"]}'), "tokenise", ServerLiedError, "token ids"),
        (_fixed("200 OK", b"{}"), "chat", ConnectionLostError, "expected a stream of events"),
        (_fixed("200 OK", b'data: {"choices":[]}\n\n', STREAM), "chat", ConnectionLostError,
         r"ended before '\[DONE\]'"),
        (_fixed("200 OK", b'data: [DONE]\n\ndata: {"choices":[]}\n\n', STREAM), "chat",
         ServerLiedError, r"an event follows '\[DONE\]'"),
        (_fixed("200 OK", b'data: {"content":"a","stop":false}\n\n', STREAM), "complete",
         ConnectionLostError, "ended before an event with 'stop: true'"),
        (_fixed("200 OK", b'data: {"choices":[]}\n\ndata: {"ch', STREAM), "chat",
         ConnectionLostError, "cut in the middle of an event"),
        (_fixed("200 OK", b'data: {"error":{"code":500,"message":"Context size has been '
                b'exceeded."}}\n\n', STREAM), "complete", RequestRefusedError,
         "ended the stream with an error: Context size has been exceeded"),
        (_fixed("200 OK", b"data: {oops\n\n", STREAM), "complete", ConnectionLostError,
         "did not answer with JSON"),
    ],
)  # fmt: skip
def test_each_fault_is_a_named_error(
    answer: Answer, call: str, error: type[BenchsuiteError], words: str
) -> None:
    """A wrong answer is told apart from a refusal and from a broken connection."""
    with pytest.raises(error, match=words):
        _run(answer, call)


def test_loading_is_not_yet_healthy() -> None:
    """503 with 'Loading model' is normal while a server starts."""
    body = b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'
    assert _run(_fixed("503 Service Unavailable", body), "healthy") is False
    assert _run(_fixed("200 OK", b'{"status":"ok"}'), "healthy") is True


def test_a_missing_key_says_how_to_give_one() -> None:
    """The remedy of a 401 names the option."""
    with pytest.raises(RequestRefusedError) as caught:
        _run(_fixed("401 Unauthorized", b'{"error":{"code":401,"message":"no"}}'), "props")
    assert "--api-key-env" in str(caught.value.hint)


def test_silence_reaches_the_limit_and_names_it() -> None:
    """A server that accepts and never replies ends in a hang, with the limit in the message."""

    async def silent(head: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    with pytest.raises(ServerHangError, match=r"no byte for 0\.2 s"):
        _run(silent, "props", idle_seconds=0.2)


def test_a_stall_between_two_events_reaches_the_limit() -> None:
    """A stream that began and then says nothing ends in a hang, too."""

    async def stalling(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
            b'data: {"content":"a","stop":false,"tokens_predicted":1}\n\n'
        )
        await writer.drain()
        await asyncio.sleep(30)

    with pytest.raises(ServerHangError, match=r"no byte for 0\.2 s"):
        _run(stalling, "complete", idle_seconds=0.2)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("chat", b'data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: [DONE]\n\n'),
        ("complete", b'data: {"content":"a","stop":true,"tokens_predicted":1}\n\n'),
    ],
)
@pytest.mark.parametrize("rest", [b"", b": ping\n\n"])
def test_a_stream_is_over_with_its_last_event(
    call: str, told: bytes, rest: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection may stay open, silent or with comments: neither is a hang."""
    monkeypatch.setattr(exchange, "_END_SECONDS", 0.05)

    async def staying(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + told)
        while True:
            writer.write(rest)
            await writer.drain()
            await asyncio.sleep(0.001)

    reply = _run(staying, call)
    assert isinstance(reply, Reply)
    assert reply.text == "a"


def test_a_refused_connection_says_where() -> None:
    """Nobody listens on port 1."""
    with pytest.raises(ConnectionLostError, match=r"cannot connect to http://127\.0\.0\.1:1"):
        asyncio.run(LlamaClient("http://127.0.0.1:1").props())


def test_a_server_that_closes_after_100_requests_is_never_surprising() -> None:
    """llama-server's HTTP library drops a connection after 100 requests without a word."""
    served: dict[asyncio.StreamWriter, int] = {}  # keeps writers, so that none is taken twice

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        served[writer] = served.get(writer, 0) + 1
        await _fixed("200 OK", b"{}")(head, writer)
        if served[writer] == 100:
            writer.close()

    async def many() -> None:
        async with _server(answer) as url:
            client = LlamaClient(url)
            for _ in range(350):
                await client.props()
            await asyncio.gather(*(client.props() for _ in range(150)))
            await client.aclose()

    asyncio.run(many())
    assert sum(served.values()) == 500
    assert max(served.values()) < 100


def test_no_request_follows_a_stream_on_its_connection() -> None:
    """Build 11549 closes a connection shortly after a streamed reply, without a word."""
    body = b'data: {"content":"a","stop":true}\n\n'
    after: list[bytes] = []
    streamed: set[asyncio.StreamWriter] = set()

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        if writer in streamed:
            after.append(head)
        if head.startswith(b"POST /completion"):
            streamed.add(writer)
            await _fixed("200 OK", body, STREAM)(head, writer)
        else:
            await _fixed("200 OK", b"{}")(head, writer)

    async def both() -> None:
        async with _server(answer) as url:
            client = LlamaClient(url)
            await client.complete("x", {})
            await client.props()
            await client.aclose()

    asyncio.run(both())
    assert streamed
    assert after == []


@pytest.mark.parametrize("url", ["not a url", "ftp://127.0.0.1/", "http://[::1"])
def test_what_is_no_address_is_a_usage_error(url: str) -> None:
    """A malformed URL is the user's to mend."""
    with pytest.raises(ConfigError):
        asyncio.run(LlamaClient(url).props())


def test_a_step_keeps_its_own_fields() -> None:
    """Extra request fields cannot replace the prompt."""
    with pytest.raises(ConfigError, match="may not set 'prompt'"):
        asyncio.run(LlamaClient("http://127.0.0.1:1").complete("x", {"prompt": "y"}))


@pytest.mark.parametrize(
    ("action", "body", "expected"),
    [
        ("save", b'{"n_saved": 208, "n_written": 9}', 208),
        ("restore", b'{"n_restored": 207}', 207),
        ("erase", b'{"n_erased": 0}', 0),
        ("erase", b'{"n_saved": 3}', None),
        ("save", b'{"n_saved": true}', None),
    ],
)
def test_slot_actions_count_tokens(action: SlotAction, body: bytes, expected: int | None) -> None:
    """A count that is not told is a lie, and not 0."""

    async def ask() -> int:
        async with _server(_fixed("200 OK", body)) as url:
            client = LlamaClient(url)
            try:
                return await client.slot_action(1, action, None if action == "erase" else "a.bin")
            finally:
                await client.aclose()

    if expected is None:
        with pytest.raises(ServerLiedError, match="should be a number of tokens"):
            asyncio.run(ask())
    else:
        assert asyncio.run(ask()) == expected


def test_a_client_can_move_to_another_server() -> None:
    """After a restart there are another port and another key."""
    heads: list[bytes] = []

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        heads.append(head)
        await _fixed("200 OK", b'{"status": "ok"}')(head, writer)

    async def ask() -> None:
        async with _server(answer) as one, _server(answer) as other:
            client = LlamaClient(one, api_key="first")
            assert await client.healthy()
            await client.move_to(other, "second")
            assert client.base_url == other
            assert await client.healthy()
            await client.aclose()

    asyncio.run(ask())
    assert b"Bearer first" in heads[0]
    assert b"Bearer second" in heads[1]


def test_a_model_is_named_in_every_request() -> None:
    """A router takes it from the body of a POST and from the query of a GET."""
    heads: list[bytes] = []

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        heads.append(head.split(b"\r\n")[0])
        await _fixed("200 OK", b'{"tokens": [1], "status": "ok"}')(head, writer)

    async def ask() -> None:
        async with _server(answer) as url:
            client = LlamaClient(url, model="a/b:Q4")
            try:
                await client.healthy()
                await client.props()
                await client.tokenise("x")
            finally:
                await client.aclose()

    asyncio.run(ask())
    assert heads[0].startswith(b"GET /health ")
    assert heads[1].startswith(b"GET /props?model=a%2Fb%3AQ4 ")
    assert heads[2].startswith(b"POST /tokenize ")


def test_the_model_of_a_post_is_in_its_body() -> None:
    """A scenario's own `model` field is left as it is."""
    assert addressed("m", "/tokenize", {"content": "x"}) == (
        "/tokenize",
        {"model": "m", "content": "x"},
    )
    assert addressed("m", "/completion", {"model": "n"})[1] == {"model": "n"}
    assert addressed("m", "/slots/0?action=erase", {})[1] == {"model": "m"}
