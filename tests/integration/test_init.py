"""`benchsuite init`: what it writes for three kinds of server passes `check`, and runs."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchsuite.server.guard import Guard
from benchsuite.server.launch import LaunchedServer, launch, wait_until_healthy
from benchsuite.server.locate import ServerBinary
from tests.integration.desk import Desk
from tests.integration.server_under_test import embedded, is_healthy, wheel_binary

pytestmark = pytest.mark.server

FIFTEEN = (
    *("-c", "8192", "-np", "4", "-b", "512", "-ub", "128", "-ctk", "f16", "-ctv", "f16"),
    *("-fa", "on", "--cache_ram", "0", "--no-context-shift", "-sps", "0.2", "-ngl", "0"),
    *("-t", "1", "--metrics", "--swa-full", "--no-warmup"),
)
"""Fifteen flags as people type them: short names, negations, an underscore."""


def _written(desk: Desk) -> dict[str, Any]:
    (name,) = (found := tomllib.loads((desk.folder / "benchsuite.toml").read_text()))["deployments"]
    deployment: dict[str, Any] = found["deployments"][name]
    return {"name": name, **deployment}


def _checks_and_runs(desk: Desk, name: str, *, gates: int, not_applicable: int = 0) -> str:
    """`check` and `run` of what was written: exit 0, with so many gates; the run's output."""
    done = desk.run("check", "scenarios/first.yaml")
    assert done.code == 0, done.text
    done = desk.run("run", "first", "-d", name)
    assert done.code == 0, done.text
    outcomes = [gate["outcome"] for gate in desk.last_record()["gates"]]
    assert outcomes.count("pass") == gates
    assert outcomes.count("not applicable") == not_applicable == len(outcomes) - gates
    return done.text


def test_init_for_the_embedded_server(desk: Desk) -> None:
    """Without a model it is the tiny model, which the file says."""
    embedded()
    done = desk.run("init", "--server", "embedded")
    assert done.code == 0, done.text
    assert "next: benchsuite run first -d mine" in done.text
    assert "without it the tiny model is served" in (desk.folder / "benchsuite.toml").read_text()
    assert _written(desk)["server"] == "embedded"
    _checks_and_runs(desk, "mine", gates=3)


def test_init_for_a_command_line_of_fifteen_flags(desk: Desk) -> None:
    """Flags by their long names; keys and what is ours to set left out, and said so."""
    model = desk.tiny_model()
    words = [wheel_binary().path, "-m", str(model), *FIFTEEN]
    secret = ["--api-key", "open-sesame", "--host", "0.0.0.0", "--port", "8080"]
    done = desk.run("init", "--name", "box", "--", "HF_TOKEN=hf_secret", "A=b", *words, *secret)
    assert done.code == 0, done.text
    text = (desk.folder / "benchsuite.toml").read_text()
    for hidden in ("open-sesame", "hf_secret"):
        assert hidden not in text + done.text
    assert "left out: --api-key (a secret" in text
    assert 'api_key_env = "LLAMA_KEY"' in text
    found = _written(desk)
    assert found["env"] == {"A": "b"}
    assert found["flags"] == {
        "ctx-size": 8192,
        "parallel": 4,
        "batch-size": 512,
        "ubatch-size": 128,
        "cache-type-k": "f16",
        "cache-type-v": "f16",
        "flash-attn": "on",
        "cache-ram": 0,
        "context-shift": False,
        "slot-prompt-similarity": "0.2",
        "n-gpu-layers": 0,
        "threads": 1,
        "metrics": True,
        "swa-full": True,
        "warmup": False,
    }
    _checks_and_runs(desk, "box", gates=3)
    flags = desk.last_record()["launches"][0]["server"]["flags"]
    assert (flags["ctx-size"], flags["slot-prompt-similarity"]) == ("8192", "0.2")


@pytest.mark.parametrize(("kind", "gates"), [("swa", 2), ("recurrent", 2), ("hybrid", 3)])
def test_init_sets_no_limit_that_a_model_cannot_hold(desk: Desk, kind: str, gates: int) -> None:
    """Models that reuse from checkpoints are not held to a number of cached tokens."""
    embedded()
    done = desk.run("init", "--server", "embedded", "--model", str(desk.tiny_model(kind)))
    assert done.code == 0, done.text
    assert "reuses from checkpoints" in (desk.folder / "scenarios" / "first.yaml").read_text()
    _checks_and_runs(desk, _written(desk)["name"], gates=gates, not_applicable=1)


@contextmanager
def _running(binary: ServerBinary, desk: Desk, *flags: str) -> Iterator[LaunchedServer]:
    with Guard() as guard:
        server = launch(
            binary,
            ["-c", "4096", "-np", "2", "-lv", "4", "--threads", "1", *flags],
            model=str(desk.tiny_model()),
            log_path=desk.folder / "theirs.log",
            env={},
            guard=guard,
        )
        try:
            asyncio.run(wait_until_healthy(server, lambda: is_healthy(server), 60))
            yield server
        finally:
            server.stop(5)


def test_init_for_a_url(desk: Desk) -> None:
    """With key and log: KV as logged, and cached tokens as a trial showed that they are reused."""
    with _running(wheel_binary(), desk, "--metrics") as server:
        desk.env["THEIR_KEY"] = server.api_key
        words = ("init", "--url", server.url, "--api-key-env", "THEIR_KEY")
        done = desk.run(*words, "--log", "theirs.log", "--name", "theirs")
        assert done.code == 0, done.text
        found = _written(desk)
        assert (found["url"], found["api_key_env"]) == (server.url, "THEIR_KEY")
        assert server.api_key not in (desk.folder / "benchsuite.toml").read_text()
        scenario = (desk.folder / "scenarios" / "first.yaml").read_text()
        assert "tokens of the second turn were cached" in scenario
        assert "equals: 8" in scenario
        text = _checks_and_runs(desk, "theirs", gates=3)
        assert "cached_tokens" in text
        # over HTTP alone, nothing is asked that cannot be seen
        assert desk.run(*words, "--force", "--name", "theirs").code == 0
        _checks_and_runs(desk, "theirs", gates=2)


def test_init_with_a_key_in_a_file(desk: Desk) -> None:
    """The configuration names the file, never the key."""
    with _running(wheel_binary(), desk, "--metrics") as server:
        (desk.folder / "their.key").write_text(f"{server.api_key}\n")
        words = ("init", "--url", server.url, "--api-key-file", "their.key", "--name", "theirs")
        done = desk.run(*words)
        assert done.code == 0, done.text
        assert _written(desk)["api_key_file"] == "their.key"
        assert server.api_key not in (desk.folder / "benchsuite.toml").read_text()
        _checks_and_runs(desk, "theirs", gates=2)


def test_init_for_a_server_whose_cache_is_off(desk: Desk) -> None:
    """What a trial did not show is not asked of it."""
    with _running(wheel_binary(), desk, "--no-cache-prompt") as server:
        desk.env["THEIR_KEY"] = server.api_key
        done = desk.run("init", "--url", server.url, "--api-key-env", "THEIR_KEY", "--name", "t")
        assert done.code == 0, done.text
        scenario = (desk.folder / "scenarios" / "first.yaml").read_text()
        assert "or a cache that is off" in scenario
        _checks_and_runs(desk, "t", gates=1, not_applicable=1)


def test_init_overwrites_nothing_unless_told(desk: Desk) -> None:
    """Neither the configuration nor the scenario, whichever is there; --print writes nothing."""
    embedded()
    done = desk.run("init", "--print", "--server", "embedded")
    assert done.code == 0, done.text
    assert "[deployments.mine]" in done.out
    assert "title: " in done.out
    assert list(desk.folder.iterdir()) == []
    for there in (Path("benchsuite.toml"), Path("scenarios/first.yaml")):
        path = desk.folder / there
        path.parent.mkdir(exist_ok=True)
        path.write_text("# mine\n")
        done = desk.run("init", "--server", "embedded")
        assert done.code == 2, done.text
        assert "--print shows what would be written" in done.text
        assert path.read_text() == "# mine\n"
        path.unlink()
    (desk.folder / "benchsuite.toml").write_text("# mine\n")
    assert desk.run("init", "--server", "embedded", "--force").code == 0
    assert "[deployments.mine]" in (desk.folder / "benchsuite.toml").read_text()


def test_init_names_what_it_cannot_use(desk: Desk) -> None:
    """A flag that the build lacks, a program that is none, a router without a model, ..."""
    server = wheel_binary().path
    for words, told in (
        (
            ["--", server, "-m", str(desk.tiny_model()), "--ctx-sise", "9"],
            "did you mean 'ctx-size'",
        ),
        (["--", server, "-c"], "flag '-c' of the command line lacks its value"),
        (["--", server, "--ctx-size=9"], "write '--ctx-size VALUE', with a space"),
        (["--", "/bin/true", "-c", "9"], "is not a llama-server"),
        (["--", server, "--models-dir", "."], "--model-name NAME"),
        (["--", "A=b"], "names no program"),
        (["--url", "http://127.0.0.1:1", "--server", "embedded"], "give one of them"),
        (["--api-key-env", "K"], "is for a running server"),
    ):
        done = desk.run("init", *words)
        assert done.code == 2, done.text
        assert told in done.text
    done = desk.run("init", "--url", "http://127.0.0.1:1")
    assert done.code == 4, done.text
    assert list(desk.folder.iterdir()) == []
