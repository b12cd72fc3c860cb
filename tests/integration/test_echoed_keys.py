"""An attached server that echoes the client's key: the key is in no file and in no line of ours."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchsuite.cli.main import run_command_line
from benchsuite.redact import HIDDEN
from benchsuite.report.formats import FORMATS
from benchsuite.server.ports import free_port
from tests.faults.faulty import SCENARIO
from tests.integration.desk import REPOSITORY, Desk
from tests.integration.foreign_server import answering
from tests.servers.strikes.keys import told
from tests.servers.strikes.strike import STRIKES, find

HALVES = ("a81f5c0d92e64b73", "7e20b9d4138cf65a")
"""What no output may hold either: a key that is hidden in half is told."""

KEY = f'proof/{HALVES[0]}+"\\={HALVES[1]}'

find("key-in-error")  # fills the table
_needles = runpy.run_path(str(REPOSITORY / "ci" / "secret_proof.py"))["needles"]

NEVER_QUOTED = ("key-in-header", "key-in-slots", "key-in-status")
"""What is in headers, fields and reasons that nothing of ours repeats."""

IN_EVERY_FORMAT = ("key-in-error", "key-in-props", "key-in-text")
"""An error, facts and texts; the records of the others are searched alone."""

ECHOES = sorted(name for name in STRIKES if name.startswith("key-in-"))


@contextmanager
def echoing(desk: Desk, strike: str, log: Path) -> Iterator[str]:
    """The URL of a server with the key, that is not benchsuite's own."""
    port = free_port("127.0.0.1")
    program = str(REPOSITORY / "tests" / "servers" / "faulty.py")
    words = ["-m", str(desk.tiny_model()), "--host", "127.0.0.1", "--port", str(port)]
    words += ["-c", "4096", "-np", "2", "--metrics", "--slots", "--threads", "1", "-lv", "4"]
    command = [sys.executable, program, strike, *words]
    with answering(command, port, {**desk.env, "LLAMA_API_KEY": KEY}, log) as url:
        yield url


def leaks(desk: Desk, printed: str) -> list[str]:
    """Where the key stands, in what form."""
    found = []
    pieces = [("printed", printed.encode())]
    for path in desk.folder.rglob("*"):
        pieces.append(("a name", str(path).encode()))
        if path.is_file():
            pieces.append((str(path.relative_to(desk.folder)), path.read_bytes()))
    for where, data in pieces:
        for secret in (KEY, *HALVES):  # the halves in every form, all other pieces as text
            found += [f"{where}: {name}" for name, form in _needles(secret) if form in data]
    return sorted(set(found))


def reported(desk: Desk) -> None:
    """Every format of the run, each in a file."""
    (run,) = (desk.folder / ".benchsuite" / "runs").iterdir()
    for number, one in enumerate(FORMATS.values()):
        file = str(desk.folder / f"r{number}{one.suffix}")
        code = run_command_line(["report", str(run), "--format", one.name, "--to", file])
        assert code == 0, (one.name, code)


@pytest.mark.server
@pytest.mark.parametrize("strike", ECHOES)
def test_a_key_that_the_server_echoes_is_kept_and_printed_nowhere(
    desk: Desk,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    strike: str,
) -> None:
    """Neither in the record, the journal, the reports of every format, nor in errors."""
    (desk.folder / "small.yaml").write_text(SCENARIO.replace("{flags: {threads: 1}}", "{}"))
    log = tmp_path_factory.mktemp("server") / "log"
    with echoing(desk, strike, log) as url:
        done = desk.run(
            *("run", "small.yaml", "--url", url, "--api-key-env", "PROOF_KEY"),
            *("--json", "out.json", "--html", "out.html", "--junit", "out.xml"),
            *("--markdown", "out.md"),
            PROOF_KEY=KEY,
        )
        looked = desk.run("inspect", "server", url, "--api-key-env", "PROOF_KEY", PROOF_KEY=KEY)
    assert "not applicable" not in done.out, done.text
    (record,) = desk.folder.glob(".benchsuite/runs/*/record.json")
    told_of = (record.read_text() + looked.text).count(HIDDEN)
    assert bool(told_of) is (strike not in NEVER_QUOTED), "what it echoes was not met"
    if strike in IN_EVERY_FORMAT:
        reported(desk)
    own = capsys.readouterr()
    assert not leaks(desk, done.out + done.err + looked.out + looked.err + own.out + own.err)


@pytest.mark.server
def test_a_key_in_an_observed_log_is_kept_and_printed_nowhere(
    desk: Desk, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """Though its lines are evidence; the log itself is the server's, and stays as it is."""
    (desk.folder / "small.yaml").write_text(SCENARIO.replace("{flags: {threads: 1}}", "{}"))
    log = tmp_path_factory.mktemp("server") / "log"
    with echoing(desk, "logged-key", log) as url:
        (desk.folder / "benchsuite.toml").write_text(
            f'[deployments.x]\nurl = "{url}"\napi_key_env = "PROOF_KEY"\n'
            f'observe = {{ log = "{log}" }}\n'
        )
        done = desk.run(
            *("run", "small.yaml", "-d", "x", "--json", "out.json", "--html", "out.html"),
            PROOF_KEY=KEY,
        )
    assert KEY in log.read_text("utf-8", "replace")
    reported(desk)
    own = capsys.readouterr()
    assert not leaks(desk, done.out + done.err + own.out + own.err)
    assert HIDDEN in (desk.folder / "out.json").read_text(), done.text


def test_an_echo_that_is_kept_is_found(desk: Desk) -> None:
    """The search would see each form."""
    (desk.folder / "planted").write_text(told(KEY))
    names = {one.partition(": ")[2] for one in leaks(desk, "")}
    assert names == {"plain", "percent-encoded", "in JSON", "in base64", "a piece of it"}
