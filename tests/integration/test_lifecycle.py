"""However a run ends, no server is left, and what was measured is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from benchsuite.store.records import read_record
from tests.integration.desk import REPOSITORY, Desk, wait_until, wrapper
from tests.integration.server_under_test import wheel_binary

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and process groups"),
]

SERVERS = REPOSITORY / "tests" / "servers"
SLOW = """title: slow
server: {parallel: 1, ctx-size: 1024}
sessions: {A: {}}
steps:
  - turn: {session: A, user: {tokens: 8}, max_tokens: 2}
  - idle: 60
  - turn: {session: A, user: {tokens: 8, seed: 1}, max_tokens: 2}
gates:
  - {metric: 'output_tokens{session="A",turn="2"}', equals: 2}
"""

ON_RPC = """variants:
  R: {flags: {n-gpu-layers: 2}, require: {device: RPC}}
"""


def _servers(desk: Desk) -> list[psutil.Process]:
    """The servers that were launched from this desk, known by the log that they write."""
    found = []
    for process in psutil.process_iter(["pid"]):
        try:
            if any(str(desk.folder) in one.path for one in process.open_files()):
                words = " ".join(process.cmdline())
                if "--port" in words:
                    found.append(process)
        except psutil.Error:
            continue
    return found


def _idling(desk: Desk, *words: str, scenario: str = SLOW) -> subprocess.Popen[str]:
    """A run that has measured one turn and now idles."""
    (desk.folder / "slow.yaml").write_text(scenario)
    process = desk.start("run", "slow.yaml", *words)
    assert wait_until(desk.has_reply)
    assert _servers(desk)
    return process


def _run_folder(desk: Desk) -> Path:
    (folder,) = (desk.folder / ".benchsuite" / "runs").iterdir()
    return folder


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_stops_its_server_and_keeps_what_it_has(
    desk: Desk, number: signal.Signals
) -> None:
    """Exit 130, a record that says so, and the turn that was measured in it."""
    process = _idling(desk)
    process.send_signal(number)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 130, out
    assert "Traceback" not in out
    assert _servers(desk) == []
    record = read_record(_run_folder(desk))
    assert record.interrupted
    assert record.verdict is not None
    assert record.verdict.exit_code == 130
    assert any(m.name == "output_tokens" for m in record.measurements)


def test_a_killed_run_leaves_no_server_and_its_journal_can_be_read(desk: Desk) -> None:
    """`kill -9` of us: the guard ends the server, and the journal has the reply."""
    process = _idling(desk)
    process.kill()
    process.communicate(timeout=20)
    assert wait_until(lambda: _servers(desk) == [], 5)
    record = read_record(_run_folder(desk))
    assert record.interrupted
    assert '"kind":"reply"' in (_run_folder(desk) / "samples.jsonl").read_text()


def test_a_killed_run_leaves_no_rpc_server(desk: Desk) -> None:
    """The helper that holds the device's memory ends with the server that used it."""
    server = wheel_binary().path
    process = _idling(desk, "--server", server, scenario=SLOW + ON_RPC)
    assert sorted(Path(one.exe()).name for one in _servers(desk)) == [
        "ggml-rpc-server",
        "llama-server",
    ]
    process.kill()
    process.communicate(timeout=20)
    assert wait_until(lambda: _servers(desk) == [], 5)


def test_a_killed_run_leaves_nothing_of_a_wrapper_that_does_not_exec(desk: Desk) -> None:
    """The wrapper and the server behind it both end."""
    server = wrapper(desk.folder / "llama-server", [], kill_at_request=99)
    process = _idling(desk, "--server", str(server))
    assert len(_servers(desk)) == 2
    process.kill()
    process.communicate(timeout=20)
    assert wait_until(lambda: _servers(desk) == [], 5)


def test_a_server_that_never_gets_healthy_reaches_the_start_limit(desk: Desk) -> None:
    """Exit 4, the limit and its option are named, and the other variants are not waited for."""
    started = time.monotonic()
    done = desk.run(
        "run",
        "scenarioB",
        *("--server", str(_stand_in(desk)), "--start-limit", "1"),
        STAND_IN="loading",
    )
    assert done.code == 4, done.text
    assert "not healthy within 1 s" in done.text
    assert "--start-limit" in done.text
    assert time.monotonic() - started < 10
    assert _servers(desk) == []


def test_a_server_that_stops_answering_reaches_the_idle_limit(desk: Desk) -> None:
    """A frozen server (SIGSTOP) ends in exit 4 with the limit and its option, and is gone."""
    (desk.folder / "slow.yaml").write_text(SLOW.replace("idle: 60", "idle: 1.5"))
    process = desk.start("run", "slow.yaml", "--idle-limit", "1", "--stop-limit", "1")
    assert wait_until(lambda: bool(_servers(desk)))
    journal = desk.folder / ".benchsuite" / "runs"
    assert wait_until(lambda: any('"reply"' in f.read_text() for f in journal.glob("*/*.jsonl")))
    for server in _servers(desk):
        os.kill(server.pid, signal.SIGSTOP)
    out, _ = process.communicate(timeout=30)
    text = " ".join(out.split())
    assert process.returncode == 4, text
    assert "no byte for 1 s" in text
    assert "--idle-limit" in text
    assert _servers(desk) == []


def test_an_early_exit_is_reported_at_once_with_the_last_error_lines(desk: Desk) -> None:
    """Nobody waits for the start limit of a server that is gone."""
    started = time.monotonic()
    done = desk.run("run", "scenarioB", "--server", str(_stand_in(desk)), STAND_IN="exits")
    assert done.code == 4, done.text
    assert "the stand-in gives up" in done.text
    assert time.monotonic() - started < 10


def _stand_in(desk: Desk) -> Path:
    """The scripted server, with the help of the embedded one so that flags are known."""
    path = desk.folder / "llama-server"
    path.write_text(
        f"#!{sys.executable}\n"
        "import os, sys\n"
        "if '--help' in sys.argv:\n"
        f"    command = [{sys.executable!r}, '-m', 'benchsuite.server.embedded', '--help']\n"
        f"    os.environ['PYTHONPATH'] = {str(REPOSITORY)!r}\n"
        "else:\n"
        f"    command = [{sys.executable!r}, {str(SERVERS / 'stand_in.py')!r}, *sys.argv[1:]]\n"
        "os.execv(command[0], command)\n"
    )
    path.chmod(0o755)
    return path
