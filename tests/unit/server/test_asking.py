"""Programs that are asked a question end, whether they answer or not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchsuite.server.asking import ask
from benchsuite.server.processes import started_at

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX programs")


def test_what_a_program_prints_and_ends_with_is_told() -> None:
    """Both of its outputs."""
    assert ask(["sh", "-c", "echo a; echo b >&2; exit 3"], dict(os.environ), 20) == (3, "a\nb\n")


def test_one_that_answers_late_is_waited_for() -> None:
    """As long as the limit allows."""
    assert ask(["sh", "-c", "sleep 0.7; echo a"], dict(os.environ), 20) == (0, "a\n")


def test_one_that_hangs_is_killed_with_its_children() -> None:
    """At the limit."""
    words = ["sh", "-c", "sleep 297 & sleep 297"]
    with pytest.raises(subprocess.TimeoutExpired):
        ask(words, dict(os.environ), 0.2)


@pytest.mark.skipif(sys.platform != "linux", reason="marks are read from /proc")
def test_one_that_hangs_is_killed_with_what_left_its_group(tmp_path: Path) -> None:
    """A wrapper may start the server in a session of its own."""
    told = tmp_path / "pid"
    words = ["sh", "-c", f"setsid sh -c 'echo $$ > {told}; exec sleep 297' & wait"]
    with pytest.raises(subprocess.TimeoutExpired):
        ask(words, dict(os.environ), 2)
    assert started_at(int(told.read_text())) is None
