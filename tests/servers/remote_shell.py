#!/usr/bin/env python3
"""A stand-in for ssh: a daemon runs the command, with the environment of a login.

    ssh [-o SendEnv=NAME]... [-T|-tt] [-L ...] HOST WORD...

As with sshd, only the variables that are named are handed on, and what was started is no child of
the client, has none of its files, and lives on when the client is killed. $STAND_IN_HOSTS names
the hosts that there are.
"""

# ruff: noqa: T201  # a program prints

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

_DAEMON = "the daemon"
_SCRIPT = "STAND_IN_SCRIPT"


def main() -> None:
    words = sys.argv[1:]
    sent = []
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in ("-o", "-L"):
            value = words.pop(0)
            if value.startswith("SendEnv="):
                sent.append(value.removeprefix("SendEnv="))
    host, *command = words
    if host not in os.environ.get("STAND_IN_HOSTS", "").split():
        print(f"ssh: connect to host {host} port 22: Connection refused", file=sys.stderr)
        sys.exit(255)
    env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    env |= {name: os.environ[name] for name in sent if name in os.environ}
    told, telling = os.pipe()
    os.set_inheritable(telling, True)
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            env[_SCRIPT] = " ".join(command)
            os.execve(sys.executable, [sys.executable, __file__, _DAEMON, str(telling)], env)
        os._exit(0)
    os.waitpid(child, 0)
    os.close(telling)
    heard = b""
    while piece := os.read(told, 65536):
        heard += piece
        os.write(1, heard[:-1])
        heard = heard[-1:]  # the last byte of all is the exit code
    sys.exit(heard[0])


def serve(telling: int) -> None:
    """Run the command; its outputs go to the client, then its exit code as one byte."""
    script = os.environ.pop(_SCRIPT)
    os.set_inheritable(telling, False)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    server = subprocess.Popen(
        ["sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert server.stdout is not None
    while piece := os.read(server.stdout.fileno(), 65536):
        with suppress(BrokenPipeError):  # the client is gone
            os.write(telling, piece)
    code = server.wait()
    with suppress(BrokenPipeError):
        os.write(telling, bytes([255 if code < 0 else code]))  # ssh does not tell signals


if __name__ == "__main__":
    if sys.argv[1:2] == [_DAEMON]:
        serve(int(sys.argv[2]))
    else:
        main()
