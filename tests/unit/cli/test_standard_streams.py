"""Standard streams that are closed, full, left by their reader, or ASCII only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "benchsuite", "schema"]
ENV = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="closes descriptors by a shell")


def in_shell(streams: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run `benchsuite schema`, which prints 20 KB, with streams as bash has them."""
    line = f'"$@" {streams}'
    return subprocess.run(
        ["bash", "-c", line, "bash", *COMMAND], env={**ENV, **env}, capture_output=True, timeout=60
    )


@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams_are_as_if_nobody_looked(streams: str) -> None:
    """Closed streams change no exit code, and files that are opened never become them."""
    assert in_shell(streams).returncode == 0


def test_a_reader_that_left_is_no_failed_gate() -> None:
    """A broken pipe is exit 5: 1 would say that a gate failed."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(COMMAND, env=ENV, stdout=write, stderr=subprocess.PIPE, timeout=60)
    os.close(write)
    assert done.returncode == 5
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_device_is_named() -> None:
    """Output that cannot be written is the machine's failure, in a sentence."""
    done = in_shell("> /dev/full")
    assert done.returncode == 5
    assert b"error: standard output: the system refused: No space left on device" in done.stderr


def test_letters_that_a_terminal_has_not_are_printed_all_the_same(tmp_path: Path) -> None:
    """In a locale of ASCII only, text is printed as UTF-8 rather than failing the command."""
    (tmp_path / "short.yaml").write_text("title: kürzer\n", encoding="utf-8")
    done = subprocess.run(
        [*COMMAND[:-1], "check", "kürzer.yaml"],
        cwd=tmp_path,
        env={**ENV, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert b"UnicodeEncodeError" not in done.stderr
