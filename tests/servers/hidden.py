"""Starts the embedded server on a port of its own, behind a proxy that takes its place."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchsuite.server.ports import free_port

REPOSITORY = Path(__file__).parents[2]


class Hidden(NamedTuple):
    """A server behind a proxy."""

    process: subprocess.Popen[bytes]
    port: int  # of the server
    outer: int  # that the proxy must listen at


def start_hidden(flags: list[str], starting: Callable[[int], object] = lambda _: None) -> Hidden:
    """Start it with llama-server's flags, but for its port.

    Where it is asked for something else than to serve (`--help`), it is run in our place.

    Args:
        flags: As the proxy was given them.
        starting: Called with the outer port before the server is started.
    """
    os.environ["PYTHONPATH"] = str(REPOSITORY)
    command = [sys.executable, "-m", "benchsuite.server.embedded"]
    if "--port" not in flags:
        os.execv(command[0], [*command, *flags])
    place = flags.index("--port") + 1
    outer = int(flags[place])
    starting(outer)
    port = free_port("127.0.0.1")
    flags = [*flags[:place], str(port), *flags[place + 1 :]]
    return Hidden(subprocess.Popen([*command, *flags]), port, outer)
