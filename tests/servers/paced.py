"""A server of streams at a stated pace, which stamps each token just before it writes it.

    python tests/servers/paced.py      (prints its port, ends when its standard input does)

One thread over plain sockets, so that nothing stands between a stamp and its `send`. A request to
`/completion`, `/v1/completions` or `/v1/chat/completions` is paced by fields of its body:
`n_predict` (or `max_tokens`) tokens; `paced.rate` tokens a second, `paced.of` streams of which it
is number `paced.number`, `paced.staggered` whether these share an interval out among them or send
at one moment, as a batch of a real server does. `GET /log` answers, by `X-Request-Id`, with when a
request's last byte came and when each token was written, in CLOCK_MONOTONIC nanoseconds, and how
often a socket took no more, and forgets it.
"""

from __future__ import annotations

import heapq
import json
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import Any

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass
class Stream:
    """One reply under way."""

    connection: Connection
    path: str
    tokens: int
    interval_ns: int
    due_ns: int
    received_ns: int
    sent_ns: list[int] = field(default_factory=list)
    blocked: int = 0

    def event(self) -> bytes:
        """The next token, as llama-server sends it."""
        count = len(self.sent_ns) + 1
        if self.path == "/completion":
            body: dict[str, Any] = {
                "index": 0, "content": " word", "tokens": [417], "stop": False, "id_slot": -1,
                "tokens_predicted": count, "tokens_evaluated": 8,
            }  # fmt: skip
        else:
            chat = "chat" in self.path
            piece: dict[str, Any] = {"delta": {"content": " word"}} if chat else {"text": " word"}
            body = self._choice({**piece, "index": 0, "finish_reason": None})
        return chunk(data(body))

    def last(self) -> bytes:
        """What ends the reply."""
        count = self.tokens
        timings = {"cache_n": 0, "prompt_n": 8, "prompt_ms": 1.0, "predicted_n": count,
                   "predicted_ms": 1.0, "predicted_per_second": 1.0}  # fmt: skip
        if self.path == "/completion":
            body: dict[str, Any] = {
                "index": 0, "content": "", "tokens": [], "stop": True, "id_slot": 0,
                "tokens_predicted": count, "tokens_evaluated": 8, "stop_type": "limit",
                "truncated": False, "timings": timings,
            }  # fmt: skip
            return chunk(data(body)) + b"0\r\n\r\n"
        piece: dict[str, Any] = {"delta": {}} if "chat" in self.path else {"text": ""}
        final = self._choice({**piece, "index": 0, "finish_reason": "length"})
        usage = {"prompt_tokens": 8, "completion_tokens": count, "total_tokens": count + 8}
        told = {**self._choice(None), "usage": usage, "timings": timings}
        return chunk(data(final) + data(told) + b"data: [DONE]\n\n") + b"0\r\n\r\n"

    def _choice(self, choice: dict[str, Any] | None) -> dict[str, Any]:
        kind = "chat.completion.chunk" if "chat" in self.path else "text_completion"
        return {
            "choices": [] if choice is None else [choice], "created": 1764000000, "id": "cmpl-1",
            "model": "paced", "object": kind,
        }  # fmt: skip


@dataclass
class Connection:
    """One socket, what came on it and what waits to go."""

    socket: socket.socket
    came: bytes = b""
    waiting: bytes = b""

    def send(self, content: bytes) -> bool:
        """Write; False where some of it has to wait."""
        if self.waiting:
            self.waiting += content
            return False
        try:
            taken = self.socket.send(content)
        except BlockingIOError:
            taken = 0
        except OSError:
            return True  # the client went
        self.waiting = content[taken:]
        return not self.waiting


def data(body: Any) -> bytes:
    """A server-sent event."""
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


def chunk(content: bytes) -> bytes:
    """A chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(content), content)


class PacedServer:
    """Everything; `run` returns when standard input ends."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._listener.setblocking(False)
        self._due: list[tuple[int, int, Stream]] = []
        self._number = 0
        self._log: dict[str, Stream] = {}

    def run(self) -> None:
        """Serve."""
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        sys.stdout.write(f"{self._listener.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            wait = (self._due[0][0] - time.monotonic_ns()) / 1e9 if self._due else None
            for key, _ in self._selector.select(None if wait is None else max(0.0, wait)):
                if key.fileobj is sys.stdin:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._read(key.data)
            while self._due and self._due[0][0] <= time.monotonic_ns():
                self._token(heapq.heappop(self._due)[2])

    def _token(self, stream: Stream) -> None:
        content = stream.event()
        stream.sent_ns.append(time.monotonic_ns())
        stream.blocked += not stream.connection.send(content)
        if len(stream.sent_ns) < stream.tokens:
            stream.due_ns += stream.interval_ns
            self._plan(stream)
        else:
            stream.connection.send(stream.last())

    def _plan(self, stream: Stream) -> None:
        self._number += 1
        heapq.heappush(self._due, (stream.due_ns, self._number, stream))

    def _accept(self) -> None:
        taken, _ = self._listener.accept()
        taken.setblocking(False)
        taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(taken, selectors.EVENT_READ, Connection(taken))

    def _read(self, connection: Connection) -> None:
        try:
            came = connection.socket.recv(65536)
        except OSError:
            came = b""
        now = time.monotonic_ns()
        if not came:
            self._selector.unregister(connection.socket)
            connection.socket.close()
            return
        connection.came += came
        head, end, rest = connection.came.partition(b"\r\n\r\n")
        if not end:
            return
        lines = head.decode("latin-1").split("\r\n")
        fields = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines[1:])}
        size = int(fields.get("content-length", "0"))
        if len(rest) < size:
            return
        connection.came = rest[size:]
        path = lines[0].split()[1]
        if lines[0].startswith("POST"):
            self._begin(connection, path, fields, json.loads(rest[:size]), now)
        else:
            self._answer(connection, path)

    def _begin(
        self, connection: Connection, path: str, fields: dict[str, str], body: Any, now: int
    ) -> None:
        pace = body.get("paced", {})
        interval = int(1e9 / pace.get("rate", 50))
        share = pace.get("number", 0) * interval // pace.get("of", 1)
        due = (now // interval + 2) * interval + (share if pace.get("staggered") else 0)
        tokens = body.get("n_predict") or body.get("max_tokens") or body.get(
            "max_completion_tokens", 16
        )  # fmt: skip
        stream = Stream(connection, path, tokens, interval, due, now)
        self._number += 1
        self._log[fields.get("x-request-id", str(self._number))] = stream
        connection.send(HEAD)
        self._plan(stream)

    def _answer(self, connection: Connection, path: str) -> None:
        body: Any = {"status": "ok"}
        if path == "/log":
            body = {
                name: {"received_ns": one.received_ns, "sent_ns": one.sent_ns,
                       "blocked": one.blocked}
                for name, one in self._log.items()
            }  # fmt: skip
            self._log = {}
        elif path == "/v1/models":
            body = {"object": "list", "data": [{"id": "paced", "object": "model"}]}
        content = json.dumps(body).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        connection.socket.setblocking(True)
        connection.socket.sendall(head % len(content) + content)
        connection.socket.setblocking(False)


if __name__ == "__main__":
    PacedServer().run()
