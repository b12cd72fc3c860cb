"""Attached servers: run twice, shared with another client, started again, behind TLS and a path."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from pathlib import Path

import psutil
import pytest

from tests.integration.desk import Desk
from tests.integration.foreign_server import launched
from tests.servers.front import front

pytestmark = pytest.mark.server

_SCENARIO = """\
title: Two turns
variants:
  V: {}
sessions:
  A: {system: {tokens: 200, seed: 1}}
steps:
  - turn: {session: A, user: {tokens: 20, seed: 11}, max_tokens: 8}
  - turn: {session: A, user: {tokens: 20, seed: 12}, max_tokens: 8}
gates:
  - {metric: 'cached_tokens{session="A",turn="2"}', min: 200}
"""


@pytest.fixture
def two_turns(desk: Desk) -> Desk:
    (desk.folder / "two.yaml").write_text(_SCENARIO)
    return desk


def _generate(url: str) -> None:
    body = json.dumps({"prompt": "the cat", "n_predict": 4}).encode()
    kind = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{url}/completion", body, kind)):
        pass


def _declare(desk: Desk, url: str, observe: str) -> None:
    text = f'[deployments.live]\nurl = "{url}"\n[deployments.live.observe]\n{observe}\n'
    (desk.folder / "benchsuite.toml").write_text(text)


def _cached(desk: Desk) -> list[float]:
    measured = desk.last_record()["measurements"]
    return [one["value"] for one in measured if one["name"] == "cached_tokens"]


def test_the_same_prompts_twice_against_one_server_give_the_same_verdict(two_turns: Desk) -> None:
    """What the first run left in the caches does not change what the second counts."""
    with launched(two_turns) as url:
        runs, counts = [], []
        for _ in range(2):
            runs.append(two_turns.run("run", "two.yaml", "--url", url))
            counts.append(_cached(two_turns))
    assert [done.code for done in runs] == [0, 0], runs[-1].text
    assert counts[0]
    assert counts[0] == counts[1]


def test_another_client_makes_counts_inconclusive(two_turns: Desk) -> None:
    """Requests of someone else between ours end in 3, not in a failed gate."""
    with (
        launched(two_turns) as url,
        front(lambda: url, before=lambda n: _generate(url) if n == 2 else None) as shared,
    ):
        done = two_turns.run("run", "two.yaml", "--url", shared)
    assert done.code == 3, done.text
    assert "someone else uses this server" in done.text


def test_another_client_is_seen_by_its_slot_where_there_are_no_metrics(two_turns: Desk) -> None:
    """Another slot's last task is another one, though no request of ours ran there."""
    with (
        launched(two_turns, metrics=False) as url,
        front(lambda: url, before=lambda n: _generate(url) if n == 2 else None) as shared,
    ):
        done = two_turns.run("run", "two.yaml", "--url", shared)
        alone = two_turns.run("run", "two.yaml", "--url", url)
    assert done.code == 3, done.text
    assert "of /slots have served another request" in done.text
    assert alone.code == 0, alone.text


def test_the_log_may_be_what_a_command_prints(two_turns: Desk) -> None:
    """KV memory and slots are read from it; its process ends with the run."""
    log = two_turns.folder / "server.log"
    follow = ["tail", "-n", "+1", "-f", str(log)]
    with launched(two_turns, "-lv", "4", log=log) as url:
        _declare(two_turns, url, f"log = {json.dumps(follow)}")
        done = two_turns.run("run", "two.yaml", "-d", "live", "-v")
    assert done.code == 0, done.text
    values = {one["name"]: one["value"] for one in two_turns.last_record()["measurements"]}
    assert values["kv_mib"] == 4.0
    assert "slot" in values
    left = [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == follow]
    assert left == []


@pytest.mark.parametrize(
    ("observe", "expected"),
    [
        ('log = ["tail", "/no/such/file"]', "the log command of deployment 'live' ended with code"),
        ('log = ["no-such-program"]', "cannot be started: no-such-program"),
        ('container = "x"\nengine = ["no-such-engine"]', "no-such-engine could not be asked"),
        ("pid = 4194304", "the process that deployment 'live' declares is not there: 4194304"),
    ],
)
def test_what_is_declared_and_not_there_is_an_error(
    two_turns: Desk, observe: str, expected: str
) -> None:
    """At the deployment's line, before anything is sent."""
    with launched(two_turns) as url:
        _declare(two_turns, url, observe)
        done = two_turns.run("run", "two.yaml", "-d", "live")
    assert done.code == 2, done.text
    assert expected in done.text
    assert "benchsuite.toml:1" in done.text


def test_a_server_started_again_between_two_requests_is_noticed(two_turns: Desk) -> None:
    """Counters that go back tell of it, although no request failed."""
    with launched(two_turns) as first, launched(two_turns) as second:
        for _ in range(3):
            _generate(first)
        current = [first]

        def restart(number: int) -> None:
            if number == 2:
                current[0] = second

        with front(lambda: current[0], before=restart) as url:
            done = two_turns.run("run", "two.yaml", "--url", url)
    assert done.code == 3, done.text
    assert "the server was restarted during the run" in done.text


def test_a_private_ca_and_a_path_prefix(two_turns: Desk, tmp_path: Path) -> None:
    """Without the CA the error says which key to set; with it the run passes, under a path."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl command to make a certificate with")
    certificate, key = tmp_path / "ca.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=benchsuite test", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-out", str(certificate), "-keyout", str(key)),
        ],
        check=True,
        capture_output=True,
    )
    with (
        launched(two_turns) as server,
        front(lambda: server, prefix="/llm", certificate=certificate, key=key) as url,
    ):
        refused = two_turns.run("run", "two.yaml", "--url", url)
        trusted = two_turns.run("run", "two.yaml", "--url", url, "--ca", str(certificate))
    assert refused.code == 2, refused.text
    assert "is not trusted" in refused.text
    assert "--ca FILE" in refused.text
    assert trusted.code == 0, trusted.text
