"""The embedded server behind a proxy that keeps its clients waiting in one way.

    slow_proxy.py WAY [llama-server's flags]

silent     takes a request for text and never answers
head       sends the answer's head a byte at a time, for ever
body       sends the head, then bytes of a comment that never ends, one at a time
stall      sends two tokens, then nothing
comments   sends two tokens, then keep-alive comments for ever
props      answers /props a byte at a time
deaf       is like `silent`, and does not leave when asked

All but `silent` and `stall` send something every 0.1 s, so that nobody can call them silent.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2])]

from tests.servers.hidden import start_hidden  # noqa: E402

_PAUSE_S = 0.1


def _drip(connection: socket.socket, data: bytes) -> None:
    """Send bytes one at a time; the last one for ever."""
    for number in range(10**6):
        connection.sendall(data[min(number, len(data) - 1) :][:1])
        time.sleep(_PAUSE_S)


def _strike(way: str, connection: socket.socket, upstream: socket.socket) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    if way in ("silent", "deaf"):
        time.sleep(10**6)
    if way in ("head", "props"):
        _drip(connection, b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x")
    if way == "body":
        connection.sendall(head)
        _drip(connection, b": x")
    seen = 0
    with upstream.makefile("rb") as answer:
        for line in answer:
            connection.sendall(line)
            seen += b'"content":' in line and b'"content":null' not in line
            if seen == 2:
                break
        for _ in range(2):  # the end of the event, and of its chunk
            connection.sendall(answer.readline())
    while way == "stall":
        time.sleep(1)
    while True:
        connection.sendall(b"8\r\n: ping\n\n\r\n")
        time.sleep(_PAUSE_S)


def _serve(way: str, port: int, connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):
        request = b""
        while b"\r\n\r\n" not in request:
            part = connection.recv(65536)
            if not part:
                return
            request += part
        with socket.create_connection(("127.0.0.1", port)) as upstream:
            # one request a connection, and an answer without chunks
            first, _, rest = request.partition(b"\r\n")
            asked = first.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\nConnection: close\r\n" + rest
            upstream.sendall(asked)
            struck = b"/props" if way == "props" else b"/v1/chat/completions"
            threading.Thread(target=_pass_on, args=(connection, upstream), daemon=True).start()
            if struck in first:
                _strike(way, connection, upstream)
            while part := upstream.recv(65536):
                connection.sendall(part)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """What comes later of a request's body."""
    with contextlib.suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part)


def main() -> None:
    """Start the server on a port of its own, and relay until told to leave."""
    way = sys.argv[1]
    server, port, outer = start_hidden(sys.argv[2:])

    def leave(number: int, frame: object) -> None:
        if way != "deaf":
            server.terminate()
            os._exit(server.wait())

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    with socket.create_server(("127.0.0.1", outer)) as listening:
        while True:
            connection, _ = listening.accept()
            threading.Thread(target=_serve, args=(way, port, connection), daemon=True).start()


if __name__ == "__main__":
    main()
