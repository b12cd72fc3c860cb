"""A real server behind a wrapper that changes something only where certain flags are given."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

from tests.integration.desk import REPOSITORY

_WRAPPER = """#!{python} -I
import os, sys
os.environ["PYTHONPATH"] = {path!r}
command = [sys.executable, "-m", "benchsuite.server.embedded", *sys.argv[1:]]
words = " ".join(sys.argv[1:])
if "--help" not in sys.argv and all(flag in words for flag in {when!r}):
    if {dying!r}:
        sys.stderr.write({dying!r} + "\\n")
        sys.stderr.flush()
        os.abort()
    command += {extra!r}
os.execv(sys.executable, command)
"""


def conditional(
    path: Path, when: list[str], extra: list[str] | None = None, *, dying: str = ""
) -> Path:
    """Write a server that is the embedded one, but for launches with certain flags.

    Args:
        path: Of the executable to write.
        when: Texts that must all stand in the arguments: `--ubatch-size 96`.
        extra: Flags that it adds then.
        dying: What it prints then before it aborts; empty lets it live.
    """
    path.write_text(
        _WRAPPER.format(
            python=sys.executable, path=str(REPOSITORY), when=when, extra=extra or [], dying=dying
        )
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path
