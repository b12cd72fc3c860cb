"""A command that prints a server's log (`docker logs -f NAME`), into a file that is followed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchsuite.server.guard import Guard
from benchsuite.server.processes import KILL, signal_group

_REAP_S = 5.0  # for the kernel to end a killed process


class LogCommand:
    """One start of the command; what it prints on both of its streams is appended to a file.

    Args:
        argv: What is started, in a session of its own.
        path: The file.
        guard: Ends it if we die.

    Raises:
        OSError: It cannot be started, or the file not be written.
    """

    def __init__(self, argv: Sequence[str], path: Path, guard: Guard) -> None:
        self._guard = guard
        guard.expect()
        try:
            with path.open("ab") as log:
                self._process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        except OSError:
            guard.cancel()
            raise
        guard.register(self._process.pid)

    @property
    def pid(self) -> int:
        """Its process id, which is also that of its group."""
        return self._process.pid

    def poll(self) -> int | None:
        """Its return code, negative for a signal; None while it runs."""
        return self._process.poll()

    def end(self, wait_s: float) -> None:
        """Wait so long for it to end by itself, then end it by force; to be called once."""
        try:
            self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            if sys.platform == "win32":
                self._process.kill()
            else:
                signal_group(self._process.pid, KILL)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_REAP_S)
        self._guard.release(self._process.pid)
