"""Signals that come while the program is still being imported, or strike twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


def _run(*words: str, path: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_program_is_imported_is_an_interruption(
    tmp_path: Path, number: int
) -> None:
    """One word and exit 130, where Python would print a traceback or die by the signal."""
    (tmp_path / "click.py").write_text(
        f"import os, time\nos.kill(os.getpid(), {int(number)})\ntime.sleep(20)\n"
    )
    done = _run("-m", "benchsuite", "list", path=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_signals_that_were_ignored_stay_so(tmp_path: Path) -> None:
    """As under nohup."""
    (tmp_path / "click.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGHUP)\n")
    ignoring = (
        "import runpy, signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "runpy.run_module('benchsuite', run_name='__main__')\n"
    )
    done = _run("-c", ignoring, path=str(tmp_path))
    assert "interrupted" not in done.stderr
    assert "has no attribute" in done.stderr  # it went on, to find that this is no click


_STRUCK = """
from benchsuite.cli import main as module
def struck(argv=None):
    try:
{body}
    except KeyboardInterrupt:
        return 130
    return 0
module.run_command_line = struck
module.main([])
"""


def _struck(folder: Path, body: str) -> subprocess.CompletedProcess[str]:
    """Runs our `main` with a command line that does as the body says."""
    (folder / "struck.py").write_text(_STRUCK.format(body=body))
    return _run("-m", "struck", path=str(folder))


def test_an_interrupt_that_was_answered_ends_nothing_by_a_signal(tmp_path: Path) -> None:
    """CPython ends itself by SIGINT where one left code given as text, as of a dataclass."""
    done = _struck(tmp_path, "        exec('raise KeyboardInterrupt')")
    assert (done.returncode, done.stderr) == (130, "")


def test_an_interrupt_where_none_can_be_raised_is_raised_after(tmp_path: Path) -> None:
    """Python would print that it was ignored, and go on."""
    lost = (
        "        import time, weakref\n"
        "        class One: pass\n"
        "        def callback(ref): raise KeyboardInterrupt\n"
        "        one = One()\n"
        "        ref = weakref.ref(one, callback)\n"
        "        del one\n"
        "        time.sleep(20)"
    )
    done = _struck(tmp_path, lost)
    assert (done.returncode, done.stderr) == (130, "")
