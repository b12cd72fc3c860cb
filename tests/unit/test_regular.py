"""What is named and is no regular file is refused in words, and never waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchsuite.cli.main import run_command_line
from benchsuite.regular import NotRegularError, open_regular, read_regular

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CI", raising=False)  # where `accept` is refused for another reason
    monkeypatch.chdir(tmp_path)
    for name in ("ff.yaml", "fifo", "fifo.json", "fifo.zip"):
        os.mkfifo(tmp_path / name)
    return tmp_path


def test_a_file_is_read_and_all_else_refused(here: Path) -> None:
    """A link to a file is one; a FIFO and a device are not, and a folder is told as ever."""
    (here / "plain").write_bytes(b"text")
    (here / "link").symlink_to("plain")
    assert read_regular(here / "link") == b"text"
    for path in (here / "fifo", Path(os.devnull)):
        with pytest.raises(NotRegularError, match="is no regular file"):
            open_regular(path)
    with pytest.raises(IsADirectoryError):
        open_regular(here)
    with pytest.raises(FileNotFoundError):
        open_regular(here / "none")


@pytest.mark.parametrize(
    "words",
    [
        "check ff.yaml",
        "run ff.yaml",
        "show ff.yaml",
        "ci ./ff.yaml",
        "inspect log fifo",
        "inspect server http://127.0.0.1:9 --api-key-file fifo",
        "init --url http://127.0.0.1:9 --api-key-file fifo",
        "report fifo --format markdown",
        "report fifo.json --format markdown",
        "report fifo.zip --format markdown",
        "diff fifo fifo",
        "accept fifo --reason x",
        "inspect server https://127.0.0.1:9 --ca fifo",
    ],
)
def test_commands_refuse_a_fifo(here: Path, capsys: pytest.CaptureFixture[str], words: str) -> None:
    """Exit 2 with its name, whatever was expected there."""
    assert run_command_line(words.split()) == 2
    told = capsys.readouterr().err
    assert "is no regular file" in told
    assert "fifo" in told or "ff.yaml" in told


@pytest.mark.parametrize("name", ["record.json", "samples.jsonl"])
def test_a_fifo_in_a_run_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """As its record or its journal."""
    (here / "run").mkdir()
    os.mkfifo(here / "run" / name)
    assert run_command_line(["report", "run", "--format", "markdown"]) == 2
    assert f"{name}: cannot read it: is no regular file" in capsys.readouterr().err


def test_a_fifo_as_configuration_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is not passed over either."""
    os.mkfifo(here / "benchsuite.toml")
    assert run_command_line(["check"]) == 2
    assert "benchsuite.toml: cannot be read: is no regular file" in capsys.readouterr().err
