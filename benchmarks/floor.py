"""The least that a run can cost: starts the servers of a tape and sends its requests, stdlib only.

A tape is JSON: `[{"command": [...], "env": {...}, "requests": [[method, path, body], ...]}, ...]`
with `{port}` where a command names the port. Written by `overhead.py`.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _replay(launch: dict[str, object], log: Path) -> None:
    port = _free_port()
    command = [str(word).replace("{port}", str(port)) for word in launch["command"]]  # type: ignore[attr-defined]  # JSON
    env = {**os.environ, **launch["env"]}  # type: ignore[dict-item]  # JSON
    with log.open("wb") as stream:
        server = subprocess.Popen(command, stdout=stream, stderr=stream, env=env)
    try:
        while not _healthy(port):
            if server.poll() is not None:
                raise SystemExit(f"the server exited with {server.returncode}; see {log}")
            time.sleep(0.002)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for method, path, body in launch["requests"]:  # type: ignore[attr-defined]  # JSON
            headers = {"Content-Type": "application/json"} if body is not None else {}
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            response.read()
            if response.headers.get("Content-Type", "").startswith("text/event-stream"):
                connection.close()  # the server drops it after a stream
        connection.close()
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def main() -> None:
    """Replay each launch of the tape, one after another."""
    tape = json.loads(Path(sys.argv[1]).read_text())
    with tempfile.TemporaryDirectory() as folder:
        for number, launch in enumerate(tape):
            _replay(launch, Path(folder, f"{number}.log"))


if __name__ == "__main__":
    main()
