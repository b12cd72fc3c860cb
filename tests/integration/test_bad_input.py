"""Bad input: one clear error that names what is concerned, the right exit code, nothing left."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.integration.desk import REPOSITORY, Desk

SERVERS = REPOSITORY / "tests" / "servers"

GOOD = """title: small
server: {parallel: 1, ctx-size: 1024}
sessions: {A: {}}
steps:
  - turn: {session: A, user: {tokens: 8}, max_tokens: 2}
gates:
  - {metric: 'output_tokens{session="A",turn="1"}', equals: 2}
"""


@pytest.fixture
def nothing_left(desk: Desk) -> Iterator[None]:
    """After the test no process of the desk is left."""
    yield
    left = []
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or ())
        if str(desk.folder) in words:
            left.append(words)
    assert left == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD.replace("max_tokens", "max_token"), "f.yaml:5: unknown key 'max_token'"),
        (GOOD.replace("{tokens: 8}", "{tokens: many}"), "f.yaml:5: "),
        (GOOD + "title: again\n", "f.yaml:8: "),
        (GOOD.replace("session: A,", "session: AA,"), "f.yaml:5: unknown session 'AA'"),
        (GOOD.replace("  - turn", "\t- turn"), "f.yaml:5: "),
        ("", "f.yaml"),
        (GOOD.replace("output_tokens", "output_token"), "did you mean 'output_tokens'?"),
        (GOOD.replace('turn="1"', 'turn="3"'), "f.yaml:7: "),
        ("a: " + "x" * (10 * 1024 * 1024), "f.yaml"),
        ("title: [unclosed\n", "f.yaml:"),
        ("\x00\xff", "f.yaml"),
        ("- a list\n", "f.yaml:1: "),
    ],
    ids=["typo", "type", "duplicate", "session", "tab", "empty", "metric", "turn", "10MB",
         "unclosed", "binary", "list"],
)  # fmt: skip
def test_a_bad_scenario_is_refused_at_its_line(desk: Desk, text: str, words: str) -> None:
    """Exit 2 before anything is started, for `check` and for `run`."""
    (desk.folder / "f.yaml").write_text(text)
    for command in ("check", "run"):
        done = desk.run(command, "f.yaml")
        assert done.code == 2, done.text
        assert words in done.text
        assert len(done.text) < 2000
    assert not (desk.folder / ".benchsuite").exists()


def test_a_folder_is_no_scenario(desk: Desk) -> None:
    """A path that is a folder, and one that is not there, are named."""
    assert desk.run("run", "./").code == 2
    done = desk.run("run", "./nowhere.yaml")
    assert done.code == 2
    assert "nowhere.yaml" in done.text
    done = desk.run("run", "scenarioC")
    assert done.code == 2
    assert "scenario" in done.text


@pytest.mark.parametrize(
    ("words", "code", "found"),
    [
        (["--server", "./missing"], 2, ["missing", "--server"]),
        (["--server", str(SERVERS / "not_a_server.sh")], 2, ["not_a_server.sh", "llama-server"]),
        (["--server", str(SERVERS)], 2, ["servers"]),
        (["--server", str(SERVERS / "illegal_instruction.sh")], 4, ["illegal instruction"]),
        (["--server", str(SERVERS / "illegal_when_loading.sh")], 4, ["illegal instruction"]),
        (["--set", "cache-typ-k=q8_0"], 2, ["cache-typ-k", "did you mean"]),
        (["--set", "cache-type-k=q9_9"], 2, ["cache-type-k", "q9_9"]),
        (["--set", "parallel=3"], 2, ["parallel", "exactly 1"]),
        (["--set", "=3"], 2, ["FLAG=VALUE"]),
        (["--variant", "Z"], 2, ["Z"]),
        (["-d", "nowhere"], 2, ["nowhere"]),
        (["--url", "http://127.0.0.1:1"], 4, ["cannot connect", "127.0.0.1:1"]),
        (["--url", "not-a-url"], 2, ["not-a-url"]),
        (["--url", "http://127.0.0.1:1", "--api-key-env", "NO_SUCH_KEY"], 2, ["NO_SUCH_KEY"]),
        (["--model", "missing.gguf"], 2, ["missing.gguf"]),
        (["--model", "f.yaml"], 2, ["f.yaml", "GGUF"]),
        (["--trials", "0"], 2, ["trials"]),
        (["--against", "nothing-such"], 2, ["nothing-such"]),
        (["--against", "git:nothing"], 2, ["git"]),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("nothing_left")
def test_a_bad_option_is_named(desk: Desk, words: list[str], code: int, found: list[str]) -> None:
    """What was given, what was expected, and nothing is left running."""
    (desk.folder / "f.yaml").write_text(GOOD)
    done = desk.run("run", "f.yaml", *words)
    assert done.code == code, done.text
    for word in found:
        assert word in done.text, done.text


def test_a_port_in_use_is_named(desk: Desk) -> None:
    """A port of the user's choice that someone else has is the machine's fault: exit 5."""
    (desk.folder / "f.yaml").write_text(GOOD)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = desk.run("run", "f.yaml", "--set", f"port={port}")
    assert done.code == 5, done.text
    assert f"port {port}" in done.text


def test_a_fixed_port_that_is_free_is_used(desk: Desk) -> None:
    """The port of the user's choice is the server's."""
    (desk.folder / "f.yaml").write_text(GOOD)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert desk.run("run", "f.yaml", "--set", f"port={port}").code == 0
    assert str(port) in desk.last_record()["launches"][0]["server"]["command"]


class _Html(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<html><body>It works!</body></html>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Print nothing."""


def test_a_url_that_answers_html_is_no_server(desk: Desk) -> None:
    """The page is quoted, and the user asked whether the address is right."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Html)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        done = desk.run("run", "scenarioB", "--url", f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert done.code == 4, done.text
    assert "It works" in done.text
    assert "is this the address of a llama-server?" in done.text


def test_a_flag_that_the_server_refuses_is_named(desk: Desk) -> None:
    """A quantised V cache needs flash attention: the server's own sentence is in the verdict."""
    done = desk.run("run", "scenarioA", "--set", "cache-type-v=q8_0", "--set", "flash-attn=off")
    assert done.code == 4, done.text
    assert "flash_attn" in done.text


def test_an_unwritable_place_is_the_machines_fault(desk: Desk, tmp_path: Path) -> None:
    """A file where the folder of runs should be."""
    (desk.folder / "f.yaml").write_text(GOOD)
    (desk.folder / "blocked").write_text("")
    done = desk.run("run", "f.yaml", "--out", "blocked")
    assert done.code == 5, done.text
    assert "blocked" in done.text
