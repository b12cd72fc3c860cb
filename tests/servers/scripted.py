"""An HTTP server that answers each path as it is told, and remembers what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Answer(NamedTuple):
    """What one path answers."""

    status: int
    body: bytes
    kind: str = "application/json"


class Scripted(NamedTuple):
    """A scripted server that runs."""

    url: str
    asked: list[str]  # paths, in order


@contextmanager
def scripted_server(answers: Mapping[str, Answer], *, key: str | None = None) -> Iterator[Scripted]:
    """Answer GET requests by path; unknown ones with 404.

    Args:
        answers: Path -> answer.
        key: Wanted as a bearer token for every path but /health, as llama-server does.
    """
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            answer = answers.get(self.path, Answer(404, b'{"error":{"message":"Not found"}}'))
            locked = key is not None and self.path != "/health"
            if locked and self.headers.get("Authorization") != f"Bearer {key}":
                answer = Answer(401, b'{"error":{"code":401,"message":"Invalid API Key"}}')
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name there
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield Scripted(f"http://127.0.0.1:{server.server_address[1]}", asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
