"""What a strike is, and the exchange that it is made on."""

from __future__ import annotations

import http.client
import importlib
import json
import os
import pkgutil
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn

CHAT = r"/v1/chat/completions"
COMPLETION = r"/completion"


class Proxy:
    """What all exchanges share: the server behind, and how many requests could have been struck."""

    def __init__(self, server: subprocess.Popen[bytes], port: int) -> None:
        self.server = server
        self.port = port
        self.ending = False  # a strike ends the program, whatever the server behind does
        self._count = 0
        self._lock = threading.Lock()

    def count(self) -> int:
        """The number, from 1, of one more request."""
        with self._lock:
            self._count += 1
            return self._count


class Exchange:
    """One request, and the connection that it is answered on."""

    def __init__(
        self,
        proxy: Proxy,
        connection: socket.socket,
        method: str,
        path: str,
        body: bytes,
        key: str | None,
    ) -> None:
        self.proxy = proxy
        self.connection = connection
        self.method = method
        self.path = path
        self.body = body
        self.key = key

    def upstream(self) -> tuple[int, str, bytes]:
        """Status, content type and body of what the true server answers."""
        upstream = http.client.HTTPConnection("127.0.0.1", self.proxy.port, timeout=60)
        try:
            headers = {"Content-Type": "application/json"}
            if self.key is not None:
                headers["Authorization"] = self.key
            upstream.request(self.method, self.path, self.body or None, headers)
            reply = upstream.getresponse()
            return reply.status, reply.getheader("Content-Type") or "", reply.read()
        finally:
            upstream.close()

    def pass_on(self) -> None:
        """Answer as the true server does; not at all where it does not listen yet."""
        try:
            status, kind, body = self.upstream()
        except ConnectionError:
            return
        self.reply(status, body, kind)

    def events(self) -> list[bytes]:
        """The events of the true server's stream, each with its blank line."""
        _, _, body = self.upstream()
        return [event + b"\n\n" for event in body.split(b"\n\n") if event.strip()]

    def objects(self) -> list[dict[str, Any]]:
        """The objects of the true server's stream, without `[DONE]`."""
        return [json.loads(event[6:]) for event in self.events() if event.startswith(b"data: {")]

    def reply(self, status: int, body: bytes, kind: str = "application/json") -> None:
        """Answer with a whole body."""
        self.head(status, kind, f"Content-Length: {len(body)}")
        self.send(body)

    def stream(self, pieces: Iterable[bytes], kind: str = "text/event-stream") -> None:
        """Answer with a body that ends with the connection."""
        self.head(200, kind)
        for piece in pieces:
            self.send(piece)

    def say(self, objects: Iterable[object], *, done: bool = True) -> None:
        """Answer with a stream of these objects."""
        self.stream([event(one) for one in objects] + ([b"data: [DONE]\n\n"] if done else []))

    def head(self, status: int, kind: str, *more: str) -> None:
        """Send the head of an answer."""
        lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", "Connection: close", *more]
        self.send("".join(f"{line}\r\n" for line in [*lines, ""]).encode())

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.connection.sendall(data)

    def reset(self) -> None:
        """Close the connection by a reset (RST)."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def die(self, number: int = signal.SIGKILL, words: bytes = b"") -> NoReturn:
        """End the whole server by a signal, after printing `words`."""
        self.proxy.ending = True
        os.write(2, words)
        self.proxy.server.kill()
        self.proxy.server.wait()
        os.kill(os.getpid(), number)
        signal.pause()
        raise AssertionError("outlived a signal")


class Strike(NamedTuple):
    """What goes wrong, and when."""

    path: str  # regular expression of the paths that it may be made on
    at: int  # on which of these requests, from 1; 0: on each
    make: Callable[[Exchange], None]  # answers the request in the server's place
    starting: Callable[[int], None] | None = None  # before the server starts; given its port
    leaving: Callable[[], None] | None = None  # when it is asked to stop


STRIKES: dict[str, Strike] = {}
"""Every strike by its name; filled by `find`."""


def strike(
    path: str = CHAT, at: int = 2
) -> Callable[[Callable[[Exchange], None]], Callable[[Exchange], None]]:
    """Make a function a strike; its name with dashes is the strike's."""

    def take(make: Callable[[Exchange], None]) -> Callable[[Exchange], None]:
        STRIKES[make.__name__.replace("_", "-")] = Strike(path, at, make)
        return make

    return take


def at_start(make: Callable[[int], None]) -> Callable[[int], None]:
    """Make a function, given the port, a strike before the server starts."""
    STRIKES[make.__name__.replace("_", "-")] = Strike("", -1, Exchange.pass_on, starting=make)
    return make


def at_end(make: Callable[[], None]) -> Callable[[], None]:
    """Make a function a strike when the server is asked to stop."""
    STRIKES[make.__name__.replace("_", "-")] = Strike("", -1, Exchange.pass_on, leaving=make)
    return make


def find(name: str) -> Strike:
    """The strike of a name."""
    package = importlib.import_module("tests.servers.strikes")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"tests.servers.strikes.{module.name}")
    return STRIKES[name]


def event(body: object) -> bytes:
    """One event of a stream."""
    return b"data: " + json.dumps(body).encode() + b"\n\n"
