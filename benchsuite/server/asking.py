"""Running a program that is to print something and end, as `llama-server --help` does."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from benchsuite.server.guard import Guard
from benchsuite.server.processes import KILL, signal_group

_PAUSE_S = 0.1  # between looks at whether the answer is still wanted
_REAP_S = 5.0  # for the kernel to end a killed process; longer means it hangs in a device


def ask(
    argv: Sequence[str],
    env: Mapping[str, str],
    limit_s: float,
    stop: threading.Event | None = None,
) -> tuple[int, str]:
    """Run a program to its end, in a process group of its own; it ends with us, whatever ends us.

    Args:
        argv: The program and its arguments.
        env: Its whole environment.
        limit_s: Seconds that it may take.
        stop: Ends it before its time, once set.

    Returns:
        Its return code (negative for a signal), and both outputs.

    Raises:
        OSError: It cannot be started.
        subprocess.TimeoutExpired: It has not ended in time, or was stopped; it and its group were
            killed.
    """
    with Guard() as guard:  # it hangs, perhaps, and must not outlive us
        guard.expect()
        try:
            process = subprocess.Popen(
                argv,
                env={**env, **guard.environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                process_group=None if sys.platform == "win32" else 0,
            )
        except OSError:
            guard.cancel()
            raise
        try:
            guard.register(process.pid)
            out = _answer(process, limit_s, stop)
        except BaseException:
            _kill(process)
            guard.expect()  # so that, as it leaves, it kills also what left the group
            raise
        finally:
            guard.release(process.pid)
    return process.returncode, out.decode(errors="replace")


def _answer(
    process: subprocess.Popen[bytes], limit_s: float, stop: threading.Event | None
) -> bytes:
    if stop is None:
        return process.communicate(timeout=limit_s)[0]
    deadline = time.monotonic() + limit_s
    while True:
        left = deadline - time.monotonic()
        try:
            return process.communicate(timeout=max(0.0, min(left, _PAUSE_S)))[0]
        except subprocess.TimeoutExpired:
            if stop.is_set() or left <= _PAUSE_S:
                raise


def _kill(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        signal_group(process.pid, KILL)  # a wrapper's children hold the pipe open
    if process.stdout is not None:
        process.stdout.close()
    with suppress(subprocess.TimeoutExpired):  # nobody can end it, so nobody waits for it
        process.wait(_REAP_S)
