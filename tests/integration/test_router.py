"""Models by name: a router with two of them, launched and attached, asleep and awake."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchsuite.server.locate import ServerBinary
from benchsuite.server.ports import free_port
from tests.integration.desk import Desk
from tests.integration.server_under_test import wheel_binary

pytestmark = pytest.mark.server

SCENARIO = """title: reuse
server: {parallel: {default: 1}, ctx-size: {default: 1024}}
sessions: {A: {system: {tokens: 50, seed: 1}}}
steps:
  - turn: {session: A, user: {tokens: 8}, max_tokens: 2}
  - turn: {session: A, user: {tokens: 8, seed: 1}, max_tokens: 2}
gates:
  - {metric: 'cached_tokens{session="A",turn="2"}', min: 50}
  - {metric: kv_mib, min: 0.1}
"""


@pytest.fixture
def named(desk: Desk) -> Desk:
    """A desk with a scenario, and a folder with the models `full` and `window`."""
    (desk.folder / "scenarios").mkdir()
    (desk.folder / "scenarios" / "reuse.yaml").write_text(SCENARIO)
    models = desk.folder / "models"
    models.mkdir()
    shutil.copy(desk.tiny_model(), models / "full.gguf")
    shutil.copy(desk.tiny_model("swa"), models / "window.gguf")
    return desk


@contextmanager
def _router(binary: ServerBinary, desk: Desk, *flags: str) -> Iterator[str]:
    """A router on the desk's models, as someone else would run it; its URL and log are theirs."""
    port = free_port("127.0.0.1")
    command = [*binary.argv, "--models-dir", str(desk.folder / "models"), "--port", str(port)]
    command += ["--host", "127.0.0.1", "-c", "2048", "-np", "2", "-ngl", "0", "-lv", "4"]
    with (desk.folder / "router.log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--metrics", *flags],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**desk.env, **binary.env},
        )
        url = f"http://127.0.0.1:{port}"
        try:
            deadline = time.monotonic() + 60
            while True:
                try:
                    _get(f"{url}/health")
                    break
                except OSError:
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
            yield url
        finally:
            server.terminate()
            server.wait(30)


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as reply:
        return json.loads(reply.read())


def _state(url: str, model: str) -> str:
    return next(
        str(one["status"]["value"])
        for one in _get(f"{url}/v1/models")["data"]
        if one["id"] == model
    )


def _kv_mib(desk: Desk) -> float:
    found = [m["value"] for m in desk.last_record()["measurements"] if m["name"] == "kv_mib"]
    return float(next(value for value in found))


def test_a_router_of_ours_serves_the_model_that_is_named(named: Desk) -> None:
    """Its identity and KV are read from the file that the child names; each model has its own."""
    server = wheel_binary().path
    (named.folder / "benchsuite.toml").write_text(
        "".join(
            f'[deployments.{name}]\nserver = "{server}"\nmodel_name = "{name}"\n'
            f'flags = {{ models-dir = "{named.folder / "models"}", n-gpu-layers = 0 }}\n'
            for name in ("full", "window")
        )
    )
    text = SCENARIO.replace("min: 0.1", "equals: analytic")
    (named.folder / "scenarios" / "reuse.yaml").write_text(text)
    seen = {}
    for name in ("full", "window"):
        done = named.run("run", "reuse", "-d", name)
        assert done.code == 0, done.text
        (launch,) = named.last_record()["launches"]
        model = launch["server"]["model"]
        assert Path(model["path"]).name == f"{name}.gguf"
        assert len(model["sampled_sha256"]) == 64
        assert "--model" not in launch["server"]["command"]
        seen[name] = (model["attention"], _kv_mib(named))
    assert seen["full"][0] == "full"
    assert seen["window"][0] == "sliding_window"
    assert seen["full"][1] > seen["window"][1]


def test_a_router_of_others_is_asked_for_one_of_its_models(named: Desk) -> None:
    """Loaded on purpose, which is said; KV is that model's, though another was loaded too."""
    with _router(wheel_binary(), named) as url:
        (named.folder / "benchsuite.toml").write_text(
            "".join(
                f'[deployments.{name}]\nurl = "{url}"\nmodel_name = "{name}"\n'
                f'observe = {{ log = "{named.folder / "router.log"}" }}\n'
                for name in ("full", "window")
            )
        )
        seen = {}
        for name in ("window", "full"):
            done = named.run("run", "reuse", "-d", name)
            assert done.code == 0, done.text
            assert f"model '{name}' was unloaded: the router was asked to load it" in done.text
            seen[name] = _kv_mib(named)
        done = named.run("run", "reuse", "-d", "window")
        assert done.code == 0, done.text
        assert "the router was asked" not in done.text
        assert _kv_mib(named) == seen["window"] < seen["full"]
        model = named.last_record()["launches"][0]["server"]["model"]
        assert (model["name"], Path(model["path"]).name) == ("window", "window.gguf")


def test_a_router_wants_a_name_that_it_knows(named: Desk) -> None:
    """Both are said before a model is loaded, with the names that there are."""
    with _router(wheel_binary(), named) as url:
        done = named.run("run", "reuse", "--url", url)
        assert done.code == 2, done.text
        assert "is a router and needs the name of a model; it has full, window" in done.text
        assert "--model-name NAME" in done.text
        done = named.run("run", "reuse", "--url", url, "--model-name", "windwo")
        assert done.code == 2, done.text
        assert "has no model 'windwo'; did you mean 'window'?" in done.text
        assert _state(url, "window") == "unloaded"


def test_a_sleeping_model_is_woken_and_said_so(named: Desk) -> None:
    """The first run loads it; once it sleeps the next one wakes it."""
    with _router(wheel_binary(), named, "--sleep-idle-seconds", "1") as url:
        words = ("run", "reuse", "--url", url, "--model-name", "full")
        done = named.run(*words)
        assert done.code == 0, done.text
        deadline = time.monotonic() + 30
        while _state(url, "full") != "sleeping":
            assert time.monotonic() < deadline
            time.sleep(0.1)
        done = named.run(*words)
        assert done.code == 0, done.text
        assert "the server was asleep and was woken for this run" in done.text


def test_a_router_of_ours_needs_the_name_before_it_is_started(named: Desk) -> None:
    """So does a model that is given twice."""
    server = wheel_binary().path
    (named.folder / "benchsuite.toml").write_text(
        f'[deployments.many]\nserver = "{server}"\nflags = {{ models-dir = "models" }}\n'
        f'[deployments.twice]\nserver = "{server}"\nmodel = "models/full.gguf"\n'
        'flags = { LLAMA_ARG_HF_REPO = "user/model" }\n'
    )
    done = named.run("run", "reuse", "-d", "many")
    assert done.code == 2, done.text
    assert "benchsuite.toml:1" in done.text
    assert 'model_name = "NAME" under [deployments.many]' in done.text
    done = named.run("run", "reuse", "-d", "twice")
    assert done.code == 2, done.text
    assert "gives both 'model' and flag 'hf-repo'; keep one" in done.text
    done = named.run("show", "reuse", "-d", "many", "--model-name", "full")
    assert done.code == 0, done.text
    assert "with model full of --models-dir models" in done.text
    assert "--model " not in done.text
