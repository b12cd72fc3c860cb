"""The proof that keys stay hidden finds leaks that are made on purpose, and none in a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_PROOF = Path(__file__).parents[2] / "ci" / "secret_proof.py"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")


def _prove(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(_PROOF), "--proc", *words], capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize(
    ("plant", "told"),
    [
        ("argv", "found in command line: plain"),
        ("file", "found in work/planted: in base64"),
        ("print", "found in standard output: plain"),
        ("piece", "found in standard output: a piece of it"),
    ],
)
def test_a_planted_leak_is_found(plant: str, told: str) -> None:
    """In a command line, in a file, in what is printed."""
    done = _prove("--plant", plant)
    assert done.returncode == 1, done.stderr
    assert told in done.stdout


@pytest.mark.server
def test_no_key_is_found_after_real_runs() -> None:
    """Of a launched server and of an attached one."""
    done = _prove()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": 0 found") == 2
