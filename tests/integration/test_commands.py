"""Servers behind commands of this machine: found, measured, stopped, whatever starts them."""

from __future__ import annotations

import shutil
import sys
from typing import Any

import psutil
import pytest

from tests.integration.desk import Desk, wait_until
from tests.integration.engine import EMBEDDED
from tests.integration.test_lifecycle import SLOW

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(sys.platform != "linux", reason="util-linux's programs and /proc"),
]

SHORT = """title: short
server: {parallel: 1, ctx-size: 1024}
sessions: {A: {}}
steps:
  - turn: {session: A, user: {tokens: 8}, max_tokens: 2}
gates:
  - {metric: 'output_tokens{session="A",turn="1"}', equals: 2}
  - {metric: kv_mib, equals: analytic}
"""
_LAST = '"--model", "{model}", "--host", "{host}", "--port", "{port}", "{flags}"]\n'


def _declare(desk: Desk, program: str, more: str) -> None:
    """A deployment that starts the embedded server through a program."""
    words = ", ".join(f'"{word}"' for word in [*program.split(), *EMBEDDED])
    text = f"[deployments.by]\ncommand = [{words}, {_LAST}flags = {{n-gpu-layers = 0}}\n{more}"
    (desk.folder / "benchsuite.toml").write_text(text)
    (desk.folder / "short.yaml").write_text(SHORT)


def _run(desk: Desk) -> dict[str, Any]:
    done = desk.run("run", "short.yaml", "-d", "by")
    assert done.code == 0, done.text
    return desk.last_record()


def _rss(record: dict[str, Any]) -> float | str:
    """MiB, or why there is none, after its outcome."""
    for one in record["measurements"]:
        if one["name"] == "rss_mib":
            return float(one["value"])
    missing = next(one for one in record["unmeasured"] if one["name"] == "rss_mib")
    return f"{missing['outcome']}: {missing['reason']}"


def _servers(desk: Desk) -> list[psutil.Process]:
    model = str(desk.tiny_model())
    found = []
    for one in psutil.process_iter(["cmdline"]):
        words = one.info["cmdline"] or []
        if model in words and words[0] == sys.executable:
            found.append(one)
    return found


def test_a_client_that_waits_beside_the_server_is_not_measured(desk: Desk) -> None:
    """`setsid --wait` stays a small program; the pattern finds what it started, in its session."""
    _declare(desk, "setsid --fork --wait", 'process = "--port {port}"\n')
    found = _rss(_run(desk))
    assert isinstance(found, float)
    assert found > 20
    assert _servers(desk) == []


def test_a_client_that_becomes_the_server_is_measured(desk: Desk) -> None:
    """`taskset` replaces itself with what it starts: the same process, another program."""
    if shutil.which("taskset") is None:
        pytest.skip("no taskset here")
    _declare(desk, "taskset -c 0", 'process = "--port {port}"\n')
    found = _rss(_run(desk))
    assert isinstance(found, float)
    assert found > 20


def test_a_pidfile_names_the_server(desk: Desk) -> None:
    """Written by what starts it; a stale one, of a process older than the command, is not taken."""
    script = desk.folder / "start"
    script.write_text('#!/bin/sh\necho $$ > "$1"\nshift\nexec "$@"\n')
    script.chmod(0o755)
    pidfile = desk.folder / "server.pid"
    _declare(desk, f"./start {pidfile}", f'pidfile = "{pidfile}"\n')
    found = _rss(_run(desk))
    assert isinstance(found, float)
    assert found > 20
    pidfile.write_text("1")
    script.write_text('#!/bin/sh\nshift\nexec "$@"\n')
    assert _rss(_run(desk)) == (
        f"missing: process 1 of pidfile {pidfile} is older than the command: an earlier server's"
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("", "not_applicable: deployment 'by' says with neither"),
        ('process = "no such program"\n', "missing: no process of this machine matches"),
        ('pidfile = "/nowhere/{name}.pid"\n', "missing: pidfile /nowhere/benchsuite-"),
    ],
)
def test_a_server_that_is_not_found_has_no_memory_rather_than_the_client_s(
    desk: Desk, more: str, said: str
) -> None:
    """The reason is in the record; the run is judged by the rest."""
    _declare(desk, "setsid --fork --wait", more)
    found = _rss(_run(desk))
    assert isinstance(found, str)
    assert found.startswith(said)


def test_a_killed_run_leaves_nothing_behind_a_command(desk: Desk) -> None:
    """The server has left the client's group and session, and is ended all the same."""
    _declare(desk, "setsid --fork --wait", 'process = "--port {port}"\n')
    (desk.folder / "slow.yaml").write_text(SLOW)
    process = desk.start("run", "slow.yaml", "-d", "by")
    assert wait_until(desk.has_reply)
    assert len(_servers(desk)) == 1
    process.kill()
    process.communicate(timeout=20)
    assert wait_until(lambda: _servers(desk) == [], 10)


def test_show_prints_the_exact_command_and_starts_nothing(desk: Desk) -> None:
    """Names and ports that are chosen at the launch are written in capitals."""
    _declare(desk, "setsid --fork --wait", 'process = "--port {port}"\nstop = ["true", "{name}"]\n')
    done = desk.run("show", "short.yaml", "-d", "by")
    assert done.code == 0, done.text
    assert f"setsid --fork --wait {' '.join(EMBEDDED)} --model" in done.out
    assert "--port PORT" in done.out
    assert "asked to stop by: true benchsuite-NAME" in done.out
    assert not (desk.folder / ".benchsuite").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--server", "embedded"), "starts its server by a 'command'; --server cannot replace it"),
        (("--url", "http://127.0.0.1:1"), "starts a server, --url attaches to a running one"),
    ],
)
def test_options_that_do_not_go_with_a_command_are_refused(
    desk: Desk, options: tuple[str, ...], said: str
) -> None:
    """Exit 2, and what to leave out."""
    _declare(desk, "setsid --fork --wait", "")
    done = desk.run("run", "short.yaml", "-d", "by", *options)
    assert done.code == 2, done.text
    assert said in done.text


def test_a_program_that_is_not_there_is_named_at_its_deployment(desk: Desk) -> None:
    """Also where it is only needed later, to stop the server."""
    _declare(desk, "setsid --fork --wait", 'stop = ["no-such-program"]\n')
    done = desk.run("run", "short.yaml", "-d", "by")
    assert done.code == 2, done.text
    assert "benchsuite.toml:1: 'stop' of deployment 'by' starts a program that is not" in done.text
    assert not (desk.folder / ".benchsuite").exists()
