"""The embedded server, true in all, until a strike makes one thing of it go wrong.

    faulty.py STRIKE [llama-server's flags]

The strikes are the functions of `tests/servers/strikes` that `@strike` names. Requests go through
a proxy of one connection a request, which a strike may answer itself, byte by byte.
"""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import sys
import threading
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY)]

from tests.servers.hidden import start_hidden  # noqa: E402
from tests.servers.strikes.strike import Exchange, Proxy, Strike, find  # noqa: E402


def _serve(proxy: Proxy, strike: Strike, connection: socket.socket) -> None:
    with connection, contextlib.suppress(ConnectionError):
        exchange = _read(proxy, connection)
        if exchange is None:
            return
        if re.fullmatch(strike.path, exchange.path):
            count = proxy.count()
            if strike.at in (0, count):
                strike.make(exchange)
                return
        exchange.pass_on()


def _read(proxy: Proxy, connection: socket.socket) -> Exchange | None:
    """The request on a connection; None where there was none."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    size = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
    while size is not None and len(body) < int(size[1]):
        body += connection.recv(65536)
    method, path, _ = head.split(b" ", 2)
    key = re.search(rb"\r\nauthorization: *([^\r]+)", head, re.IGNORECASE)
    return Exchange(
        proxy,
        connection,
        method.decode(),
        path.decode(),
        body,
        None if key is None else key[1].decode(),
    )


def main() -> None:
    """Start the server on a port of its own, and relay until told to leave."""
    strike = find(sys.argv[1])
    server, port, outer = start_hidden(sys.argv[2:], strike.starting or (lambda _: None))
    proxy = Proxy(server, port)

    def leave(number: int, frame: object) -> None:
        if strike.leaving is not None:
            strike.leaving()
        server.terminate()  # what `main` waits for

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)

    def accept() -> None:
        with socket.create_server(("127.0.0.1", outer)) as listening:
            while True:
                connection, _ = listening.accept()
                threading.Thread(
                    target=_serve, args=(proxy, strike, connection), daemon=True
                ).start()

    threading.Thread(target=accept, daemon=True).start()
    code = server.wait()
    while proxy.ending:
        signal.pause()
    sys.exit(code)


if __name__ == "__main__":
    main()
