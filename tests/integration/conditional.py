"""A server that changes its flags only where another flag has a value: a fault of one layout."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

from tests.integration.desk import REPOSITORY

_SCRIPT = """#!{python} -I
import os, sys
given = sys.argv[1:]
extra = {extra!r} if {word!r} in given and "--help" not in given else []
os.environ["PYTHONPATH"] = {path!r}
command = [{python!r}, "-m", "benchsuite.server.embedded"]
os.execv(command[0], command + given + extra)
"""


def wrapper_where(path: Path, word: str, extra: list[str]) -> Path:
    """Write a server that is the embedded one, with flags added where a word is among its own.

    Args:
        path: Of the executable to write.
        word: A whole argument, such as `q8_0` or `--kv-unified`.
        extra: Flags that are added then, after the others.
    """
    path.write_text(
        _SCRIPT.format(python=sys.executable, word=word, extra=extra, path=str(REPOSITORY))
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path
