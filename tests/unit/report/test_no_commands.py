"""What is printed in GitHub Actions is never a workflow command by accident."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.cli.main import run_command_line
from benchsuite.report.no_commands import CommandlessStream, obeyed, without_commands

HARMFUL = "::set-output name=x::y"


def is_command(line: str) -> bool:
    """As actions/runner decides it."""
    return line.strip().lstrip("\u200b\ufeff").startswith("::") or "##[" in line


def written(*pieces: str) -> str:
    """What comes out of the stream."""
    out = io.StringIO(newline="")
    stream = CommandlessStream(out)
    for piece in pieces:
        assert stream.write(piece) == len(piece)
    return out.getvalue()


@given(st.lists(st.text(alphabet=":# [\n\r\tx\u200b\ufeff\u3000", max_size=12), max_size=6))
def test_no_line_is_a_command_however_it_is_written(pieces: list[str]) -> None:
    """In one piece or many; nothing but the two marks is changed."""
    out = written(*pieces)
    assert not any(is_command(line) for line in re.split(r"[\r\n]", out)), out
    assert out.replace("\\u003a", ":").replace("\\u005b", "[") == "".join(pieces)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{HARMFUL}\n", ":\\u003aset-output name=x::y\n"),
        (f"a\n   {HARMFUL}", "a\n   :\\u003aset-output name=x::y"),
        ("a ##[error]b", "a ##\\u005berror]b"),
        ("plain a::b ## [x]\n", "plain a::b ## [x]\n"),
    ],
)
def test_what_is_changed_stays_readable(text: str, shown: str) -> None:
    """And JSON stays JSON."""
    assert written(text) == shown


def test_only_where_actions_reads_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere the streams are left alone; commands that are meant have their own way."""
    before = sys.stdout
    with without_commands({}):
        assert sys.stdout is before
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    with without_commands({"GITHUB_ACTIONS": "true"}):
        sys.stdout.write(HARMFUL)
        obeyed(sys.stdout).write(f"\n{HARMFUL}")
        assert obeyed(out) is out
    assert sys.stdout is out
    assert out.getvalue() == f":\\u003aset-output name=x::y\n{HARMFUL}"


def test_a_scenarios_title_and_errors_are_no_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a scenario that came with a pull request."""
    title = f"{HARMFUL} {'x' * 90} ::error::a ##[add-mask]b"
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "s.yaml").write_text(f"title: '{title}'\nsteps:\n  - idle: 1 s\n")
    (tmp_path / "scenarios" / "bad.yaml").write_text("title: t\n'::error::a ##[error]': 1\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.chdir(tmp_path)
    for words in (["list"], ["check"], ["show", "s"], ["run", "::error::x"]):
        run_command_line(words)
    told = capsys.readouterr()
    for line in re.split(r"[\r\n]", told.out + told.err):
        assert not is_command(line), line
    assert "\\u005b" in told.out + told.err
