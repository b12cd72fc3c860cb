"""A reverse proxy before a server: another client, a restart, TLS or a path prefix at will."""

from __future__ import annotations

import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@contextmanager
def front(
    upstream: Callable[[], str],
    *,
    before: Callable[[int], None] | None = None,
    prefix: str = "",
    certificate: Path | None = None,
    key: Path | None = None,
) -> Iterator[str]:
    """The URL of a proxy.

    Args:
        upstream: Gives the URL behind, for each request.
        before: Called with the number (from 1) of each chat or completion, before it goes on.
        prefix: Paths begin with it, and it is taken off; others are answered with 404.
        certificate: PEM file; TLS is spoken where it is given.
        key: Of the certificate.
    """
    count = 0

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.forward(None)

        def do_POST(self) -> None:
            self.forward(self.rfile.read(int(self.headers.get("Content-Length", 0))))

        def forward(self, body: bytes | None) -> None:
            nonlocal count
            if not self.path.startswith(prefix + "/"):
                self.send_error(404)
                return
            path = self.path[len(prefix) :]
            if "completion" in path:
                count += 1
                if before is not None:
                    before(count)
            asked = urllib.request.Request(upstream() + path, data=body)
            for name in ("Content-Type", "Authorization"):
                if name in self.headers:
                    asked.add_header(name, self.headers[name])
            try:
                answer = urllib.request.urlopen(asked, timeout=60)
            except urllib.error.HTTPError as error:
                answer = error
            with answer:
                content = answer.read()
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.headers["Content-Type"])
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        scheme = "http" if certificate is None else "https"
        yield f"{scheme}://127.0.0.1:{server.server_address[1]}{prefix}"
    finally:
        server.shutdown()
        server.server_close()
