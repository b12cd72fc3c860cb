"""A server that benchsuite has not started: someone's running one, to attach to."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchsuite.server.ports import free_port
from tests.integration.desk import Desk


@contextmanager
def launched(
    desk: Desk, *flags: str, metrics: bool = True, log: Path | None = None
) -> Iterator[str]:
    """The URL of an embedded server that is not benchsuite's own; what it prints may be kept."""
    port = free_port("127.0.0.1")
    place = ("--host", "127.0.0.1", "--port", str(port), "--model", str(desk.tiny_model()))
    size = ("--parallel", "2", "--ctx-size", "2048", "--threads", "1")
    command = [sys.executable, "-m", "benchsuite.server.embedded", *place, *size, *flags]
    command += ["--metrics"] if metrics else []
    with answering(command, port, desk.env, log or Path(os.devnull)) as url:
        yield url


@contextmanager
def answering(command: list[str], port: int, env: dict[str, str], log: Path) -> Iterator[str]:
    """The URL of a server that is started so, once it answers; its standard error is kept."""
    with (
        log.open("wb") as printed,
        subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=printed) as server,
    ):
        try:
            url = f"http://127.0.0.1:{port}"
            for _ in range(600):
                try:
                    with urllib.request.urlopen(f"{url}/health", timeout=1):
                        break
                except OSError:
                    time.sleep(0.05)
            yield url
        finally:
            server.terminate()
