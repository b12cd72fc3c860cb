#!/usr/bin/env python3
"""A stand-in for ssh: runs a command in a session of its own, with the environment of a login.

    ssh [-o SendEnv=NAME]... [-T|-tt] [-L ...] HOST WORD...

As sshd does, it hands on only the variables that are named, and what it started lives on when the
client is killed. $STAND_IN_HOSTS names the hosts that there are.
"""

# ruff: noqa: T201  # a program prints

from __future__ import annotations

import os
import subprocess
import sys


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
    server = subprocess.Popen(["sh", "-c", " ".join(command)], env=env, start_new_session=True)
    code = server.wait()
    sys.exit(255 if code < 0 else code)  # ssh does not tell signals


if __name__ == "__main__":
    main()
