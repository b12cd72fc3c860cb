#!/usr/bin/env python3
"""A stand-in for ggml-rpc-server that behaves as RPC_STAND_IN says.

aborts        listens; aborts once a client has sent something
exits         prints an error line and exits with code 1
"""

# ruff: noqa: T201  # a program prints

import os
import socket
import sys


def main() -> None:
    if os.environ.get("RPC_STAND_IN", "aborts") == "exits":
        print("Failed to find any backend devices", file=sys.stderr)
        sys.exit(1)
    port = int(sys.argv[sys.argv.index("--port") + 1])
    with socket.create_server(("127.0.0.1", port)) as server:
        while True:
            connection, _ = server.accept()
            with connection:
                if connection.recv(1):
                    print("ggml-rpc.cpp:1234: GGML_ASSERT(status) failed", file=sys.stderr)
                    sys.stderr.flush()
                    os.abort()


if __name__ == "__main__":
    main()
