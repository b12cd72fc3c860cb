"""Short commands end, or we stop waiting for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from benchsuite.server import asking, behind, engine
from benchsuite.server.bounded import run_bounded

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups")


@pytest.fixture
def roots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """A command that sleeps for a minute and that we may not kill, as one of `sudo`."""
    real, noted = os.killpg, tmp_path / "pid"

    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "killpg", refused)
    monkeypatch.setattr(subprocess.Popen, "send_signal", refused)
    program = tmp_path / "sudo"
    program.write_text(f"#!/bin/sh\necho $$ > {noted}\nexec sleep 60\n")
    program.chmod(0o755)
    yield [str(program)]
    with suppress(OSError):
        real(int(noted.read_text()), signal.SIGKILL)


def test_both_outputs_and_the_code_are_told() -> None:
    """As `subprocess.run` tells them."""
    done = run_bounded(["sh", "-c", "echo out; echo err >&2; exit 3"], 20)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")


def test_it_is_in_a_group_of_its_own() -> None:
    """So that Ctrl-C, which goes to our group, does not end the removal of a container."""
    done = run_bounded([sys.executable, "-c", "import os; print(os.getpgrp())"], 20)
    assert int(done.stdout) != os.getpgrp()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_may_not_be_killed_is_waited_for_no_longer(
    roots: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether an engine is asked, a container removed or a help read: all end long before it."""
    monkeypatch.setattr(engine, "_ASK_LIMIT_S", 0.5)
    monkeypatch.setattr(asking, "_REAP_S", 0.5)
    started = time.monotonic()
    told = engine.inspect_container(roots, "x")
    assert isinstance(told, engine.NoContainer)
    assert "did not answer 'inspect'" in told.reason
    assert "took longer than 0.5 s" in behind._run(roots, 0.5)
    with pytest.raises(subprocess.TimeoutExpired):
        asking.ask(roots, dict(os.environ), 0.5)
    assert time.monotonic() - started < 40
