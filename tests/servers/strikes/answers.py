"""The server answers what no client should have to read."""

from __future__ import annotations

import contextlib
import gzip
import json
import time

from tests.servers.strikes.strike import CHAT, Exchange, strike

_MIB = 1024 * 1024
_ERROR = b'{"error":{"code":%d,"message":"%s","type":"server_error"}}'


@strike("/health", 0)
def loading_for_ever(exchange: Exchange) -> None:
    exchange.reply(503, _ERROR % (503, b"Loading model"))


@strike()
def busy_once(exchange: Exchange) -> None:
    exchange.reply(503, _ERROR % (503, b"Loading model"))


@strike()
def internal_error(exchange: Exchange) -> None:
    exchange.reply(500, _ERROR % (500, b"Compute error."))


@strike("/completion", 1)
def no_such_endpoint(exchange: Exchange) -> None:
    exchange.reply(404, b'{"error":{"code":404,"message":"File Not Found","type":"not_found"}}')


@strike()
def too_many_requests(exchange: Exchange) -> None:
    exchange.reply(429, b'{"error":{"message":"slow down"}}')


@strike()
def error_without_json(exchange: Exchange) -> None:
    exchange.reply(502, b"<html><body>Bad Gateway</body></html>", "text/html")


@strike("/props", 1)
def malformed_json(exchange: Exchange) -> None:
    exchange.reply(200, b'{"default_generation_settings": {"n_ctx": 2048,,}}')


@strike("/props", 1)
def cut_json(exchange: Exchange) -> None:
    _, _, body = exchange.upstream()
    exchange.reply(200, body[: len(body) // 2])


@strike("/props", 1)
def nan_literal(exchange: Exchange) -> None:
    exchange.reply(200, b'{"default_generation_settings": {"n_ctx": NaN}, "total_slots": Infinity}')


@strike("/props", 1)
def deep_json(exchange: Exchange) -> None:
    exchange.reply(200, b'{"a":' * 100_000 + b"1" + b"}" * 100_000)


@strike("/props", 1)
def list_for_object(exchange: Exchange) -> None:
    exchange.reply(200, b"[1, 2, 3]")


@strike("/props", 1)
def html_page(exchange: Exchange) -> None:
    exchange.reply(200, b"<!doctype html><title>Log in</title>", "text/html")


@strike()
def html_for_stream(exchange: Exchange) -> None:
    exchange.reply(200, b"<!doctype html><title>Log in</title>", "text/html")


@strike()
def empty_body(exchange: Exchange) -> None:
    exchange.reply(200, b"", "text/event-stream")


@strike()
def wrong_content_type(exchange: Exchange) -> None:
    exchange.stream(exchange.events(), "text/plain")


@strike("/props", 1)
def huge_body(exchange: Exchange) -> None:
    exchange.head(200, "application/json", f"Content-Length: {100 * _MIB}")
    with contextlib.suppress(ConnectionError):
        for _ in range(100):
            exchange.send(b" " * _MIB)


@strike("/props", 1)
def endless_body(exchange: Exchange) -> None:
    exchange.head(200, "application/json")
    with contextlib.suppress(ConnectionError):
        while True:
            exchange.send(b" " * _MIB)


@strike("/props", 1)
def gzip_bomb(exchange: Exchange) -> None:
    body = gzip.compress(b" " * (512 * _MIB), 1)
    exchange.head(200, "application/json", "Content-Encoding: gzip", f"Content-Length: {len(body)}")
    with contextlib.suppress(ConnectionError):
        exchange.send(body)


@strike()
def redirect(exchange: Exchange) -> None:
    exchange.head(307, "text/plain", "Location: http://127.0.0.2:9/elsewhere", "Content-Length: 0")


@strike("/props", 1)
def redirect_of_props(exchange: Exchange) -> None:
    exchange.head(302, "text/plain", "Location: https://example.org/login", "Content-Length: 0")


@strike()
def body_too_short(exchange: Exchange) -> None:
    body = b"".join(exchange.events())
    exchange.head(200, "text/event-stream", f"Content-Length: {len(body) + 100}")
    exchange.send(body)


@strike()
def body_too_long(exchange: Exchange) -> None:
    body = b"".join(exchange.events())
    exchange.head(200, "text/event-stream", f"Content-Length: {len(body) - 100}")
    exchange.send(body)


@strike()
def broken_chunks(exchange: Exchange) -> None:
    exchange.head(200, "text/event-stream", "Transfer-Encoding: chunked")
    for event in exchange.events()[:2]:
        exchange.send(b"%x\r\n%b\r\n" % (len(event), event))
    exchange.send(b"zz\r\nno number\r\n")


@strike()
def no_last_chunk(exchange: Exchange) -> None:
    exchange.head(200, "text/event-stream", "Transfer-Encoding: chunked")
    for event in exchange.events():
        exchange.send(b"%x\r\n%b\r\n" % (len(event), event))


@strike()
def garbage_for_http(exchange: Exchange) -> None:
    exchange.send(b"\x00\x01\x02 what is this\r\n" * 20)


@strike()
def header_of_a_megabyte(exchange: Exchange) -> None:
    with contextlib.suppress(ConnectionError):
        exchange.head(200, "text/event-stream", "X-Long: " + "x" * _MIB)
        exchange.send(b"data: [DONE]\n\n")


@strike()
def reset_before_headers(exchange: Exchange) -> None:
    exchange.upstream()
    exchange.reset()


@strike()
def reset_after_headers(exchange: Exchange) -> None:
    exchange.upstream()
    exchange.head(200, "text/event-stream")
    exchange.reset()


@strike()
def closed_before_headers(exchange: Exchange) -> None:
    exchange.upstream()


@strike(CHAT, 0)
def slots_busy(exchange: Exchange) -> None:
    exchange.reply(503, b'{"error":{"code":503,"message":"no slot is free","type":"unavailable"}}')


@strike("/tokenize", 0)
def two_answers(exchange: Exchange) -> None:
    """The second is what the next request on the connection could take for its own."""
    _, _, body = exchange.upstream()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    false = json.dumps({"tokens": "smuggled"}).encode()
    exchange.send(head % len(body) + body + head % len(false) + false)
    with contextlib.suppress(ConnectionError):
        while exchange.connection.recv(65536):  # the connection stays, and says nothing more
            pass


@strike()
def informational_for_ever(exchange: Exchange) -> None:
    with contextlib.suppress(ConnectionError):
        while True:
            exchange.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")
            time.sleep(0.02)
