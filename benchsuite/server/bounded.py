"""Running a short command to its end within a time that holds, whoever it runs as.

`subprocess.run` waits without a limit for what it may not kill: `sudo docker` is root's.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

from benchsuite.server.processes import KILL, signal_group

_REAP_S = 1.0  # for the kernel to end a killed process; one of another user does not end


def run_bounded(argv: Sequence[str], limit_s: float) -> subprocess.CompletedProcess[bytes]:
    """Run a command, both of its outputs kept apart.

    It is in a process group of its own, so Ctrl-C at our terminal does not end it halfway.

    Args:
        argv: The program and its arguments.
        limit_s: Seconds that it may take.

    Raises:
        OSError: It cannot be started.
        subprocess.TimeoutExpired: It has not ended in time; it was killed where we may.
    """
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=None if sys.platform == "win32" else 0,
    )
    try:
        out, err = process.communicate(timeout=limit_s)
    except BaseException:
        _kill(process)
        raise
    return subprocess.CompletedProcess(argv, process.returncode, out, err)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        signal_group(process.pid, KILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_REAP_S)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
