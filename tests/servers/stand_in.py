#!/usr/bin/env python3
"""A stand-in for llama-server that behaves as STAND_IN says.

healthy       answers 200; leaves when asked
deaf          answers 200; ignores every request to leave
loading       answers 503 for ever
silent        takes connections and never answers
flood         answers 200 and writes to its log without end
escape        starts a child in a session of its own, then answers 200
exits         prints an error line and exits with code 1
"""

# ruff: noqa: T201  # a program prints

import os
import signal
import socket
import subprocess
import sys
import time

HELP = "--model FNAME\n--ctx-size N\n--parallel N\n--port PORT\n"


def main() -> None:
    mode = os.environ.get("STAND_IN", "healthy")
    if "--help" in sys.argv:
        print(HELP)
        return
    if "--list-devices" in sys.argv:
        print("Available devices:\n  (none)")
        return
    if mode == "exits":
        print("0.00.001.000 I srv: hello\n0.00.002.000 E srv: the stand-in gives up")
        sys.exit(1)
    if mode == "deaf":
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    if mode == "escape":
        child = subprocess.Popen(["sleep", "300"], start_new_session=True)
        print(f"child {child.pid}", flush=True)
    port = int(sys.argv[sys.argv.index("--port") + 1])
    with socket.create_server(("127.0.0.1", port)) as server:
        if mode == "flood":
            server.settimeout(0.001)
        status = "503 Service Unavailable" if mode == "loading" else "200 OK"
        while True:
            try:
                connection, _ = server.accept()
            except TimeoutError:
                print("x" * 100_000, flush=True)
                continue
            with connection:
                if mode == "silent":
                    time.sleep(300)
                connection.recv(65536)
                connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())


if __name__ == "__main__":
    main()
