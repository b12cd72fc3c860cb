"""Launches a server as benchsuite does and then waits to be killed.

    launcher.py JSON      {"argv", "flags", "model", "log", "env", "how"}

Prints one JSON line: {"server", "guard", "tree"} (process ids). `how`:
healthy          waits until the server is healthy first
at once          does not wait
unregistered     starts the server by hand, and never tells the guard
forked           like healthy; a forked child of ours keeps the guard's pipe open
"""

# ruff: noqa: T201  # a program prints

import asyncio
import http.client
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchsuite.server.guard import Guard
from benchsuite.server.launch import LaunchedServer, launch, wait_until_healthy
from benchsuite.server.locate import ServerBinary


async def is_healthy(server: LaunchedServer) -> bool:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=1)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def main() -> None:
    asked = json.loads(sys.argv[1])
    guard = Guard()
    if asked["how"] == "unregistered":
        process = subprocess.Popen(
            asked["argv"], env={**os.environ, **guard.environment}, start_new_session=True
        )
        print(json.dumps({"server": process.pid, "guard": guard.pid, "tree": [process.pid]}))
    else:
        binary = ServerBinary(tuple(asked["argv"]), "binary", asked["argv"][0], "a test")
        server = launch(
            binary,
            asked["flags"],
            model=asked["model"],
            log_path=Path(asked["log"]),
            env=asked["env"],
            guard=guard,
        )
        if asked["how"] != "at once":
            asyncio.run(wait_until_healthy(server, lambda: is_healthy(server), 30))
        if asked["how"] == "forked" and os.fork() == 0:
            os.close(1)
            os.close(2)
            time.sleep(300)
        tree = server.process_ids()
        print(json.dumps({"server": server.pid, "guard": guard.pid, "tree": tree}))
    sys.stdout.flush()
    time.sleep(300)


if __name__ == "__main__":
    main()
