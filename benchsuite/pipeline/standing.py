"""A launched server that stands for others to use: no scenario, no record, no judgement."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import TracebackType

from benchsuite.client.api import LlamaClient
from benchsuite.collect.log_follower import LogFollower
from benchsuite.errors import UsageError
from benchsuite.model.plan import Plan, VariantPlan
from benchsuite.model.record import ServerEnd
from benchsuite.model.scenario import IdleStep, Scenario, VariantSpec
from benchsuite.pipeline.commanded import refuse_left_behind
from benchsuite.pipeline.context import Target
from benchsuite.pipeline.devices import locks_of
from benchsuite.pipeline.driving import wait_for
from benchsuite.pipeline.options import RunOptions
from benchsuite.pipeline.prepare import Prepared, prepare
from benchsuite.pipeline.stopping import lock_wait
from benchsuite.scenario.workspace import Workspace
from benchsuite.server.command import launch_command
from benchsuite.server.device_locks import device_locks
from benchsuite.server.guard import Guard
from benchsuite.server.launch import LaunchedServer, PortTakenError, launch

_PORT_TRIES = 5
_VARIANT = "default"


class StandingServer:
    """A healthy server of ours, from `start` until `stop`; as a context manager until its end.

    Attributes:
        url: Without a slash at the end.
        api_key: For `Authorization: Bearer`.
        command: As one would type it; the key is not part of it.
        log_path: Both outputs of the server.
        pid: Of the process that was started.
    """

    def __init__(
        self,
        server: LaunchedServer,
        guard: Guard,
        stop_limit: float,
        locks: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self.url = server.url
        self.api_key = server.api_key
        self.command = server.command
        self.log_path = server.log_path
        self.pid = server.pid
        self._server = server
        self._guard = guard
        self._stop_limit = stop_limit
        self._locks = locks

    def poll(self) -> ServerEnd | None:
        """How it ended; None while it runs."""
        return self._server.poll()

    def in_use(self) -> AbstractContextManager[object]:
        """Hold its devices' locks, shared, so that no run with noisy gates goes on meanwhile."""
        return self._locks()

    def stop(self) -> ServerEnd:
        """Stop it, and wait until it has ended.

        Raises:
            MachineError: Not even a kill ends it.
            ServerHangError: A command's server still answers.
        """
        try:
            end = self._server.stop(self._stop_limit)
            refuse_left_behind(self._server)
            return end
        finally:
            self._guard.close()

    def __enter__(self) -> StandingServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def start_server(
    workspace: Workspace,
    options: RunOptions,
    flags: Sequence[str],
    environ: Mapping[str, str],
    log_folder: Path,
) -> StandingServer:
    """Start a server as a run would, and wait until it is healthy.

    Args:
        workspace: Knows the deployments.
        options: Which deployment, server, model; those that judge a run are not looked at.
        flags: `FLAG=VALUE` in addition to those of `options`.
        environ: Where servers are looked for.
        log_folder: Exists; gets the log.

    Raises:
        UsageError: The options or flags cannot be used, or mean a server that runs already.
        ServerError: It did not become healthy.
        MachineError: No port, log or guard could be had.
    """
    prepared = _prepare(workspace, options, flags, environ)
    variant, target = prepared.plan.variants[0], prepared.target
    if target is None:
        raise UsageError(
            f"deployment '{prepared.plan.deployment.name}' is a running server, and none is started"
        )
    limits = prepared.plan.limits
    log_path = log_folder / f"server.{secrets.token_hex(4)}.log"
    guard = Guard()
    server: LaunchedServer | None = None
    try:
        for remaining in reversed(range(_PORT_TRIES)):
            server = _launch(target, variant, prepared.plan.deployment.env, log_path, guard)
            try:
                asyncio.run(_healthy(server, limits.start, limits.idle))
            except PortTakenError:
                server.stop(limits.stop)
                if not remaining:
                    raise
            else:
                server.note_ready()
                locks = partial(_locks, prepared.plan, dict(environ))
                return StandingServer(server, guard, limits.stop, locks)
    except BaseException:
        if server is not None:
            server.stop(limits.stop)
        guard.close()
        raise
    raise AssertionError("the last try returns or raises")


def _locks(plan: Plan, environ: Mapping[str, str]) -> AbstractContextManager[object]:
    devices = locks_of(plan, environ)
    return device_locks(
        devices,
        alone=False,
        environ=environ,
        say=lambda words: None,
        wait=lock_wait(plan.limits),
    )


def _prepare(
    workspace: Workspace, options: RunOptions, flags: Sequence[str], environ: Mapping[str, str]
) -> Prepared:
    """The plan of a scenario that does nothing to its server."""
    scenario = Scenario(
        name="standing",
        path="",
        title="",
        steps=(IdleStep(0),),
        variants={_VARIANT: VariantSpec(_VARIANT)},
    )
    chosen = RunOptions(
        deployment=options.deployment,
        server=options.server,
        model=options.model,
        url=options.url,
        api_key_env=options.api_key_env,
        api_key_file=options.api_key_file,
        sets=(*options.sets, *flags),
        limits=options.limits,
    )
    return prepare(workspace, scenario, chosen, environ)


def _launch(
    target: Target, variant: VariantPlan, env: Mapping[str, str], log_path: Path, guard: Guard
) -> LaunchedServer:
    if target.by is not None:
        return launch_command(
            target.by.command,
            target.by.deployment,
            target.arguments(variant),
            model=target.model_argument,
            port=target.port(variant),
            log_path=log_path,
            guard=guard,
        )
    return launch(
        target.binary,
        target.arguments(variant),
        model=target.model_argument,
        port=target.port(variant),
        log_path=log_path,
        env=env,
        guard=guard,
    )


async def _healthy(server: LaunchedServer, start_limit: float, idle_limit: float) -> None:
    client = LlamaClient(server.url, api_key=server.api_key, idle_seconds=idle_limit)
    log = LogFollower(server.log_path)
    try:
        await wait_for(server, client, log, start_limit)
    finally:
        await client.aclose()
        log.close()
