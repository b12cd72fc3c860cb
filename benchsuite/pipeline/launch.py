"""One launch: start a server, drive one variant's trial, and bring home what was seen.

Whatever happens, the server that was started is stopped, and what was measured before a fault is
kept beside the fault.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchsuite.client.props import Props
from benchsuite.collect.forensics import forensics
from benchsuite.collect.log_follower import LogFollower
from benchsuite.collect.log_memory import memory_measurements
from benchsuite.collect.oom import OomKills, read_oom_kills
from benchsuite.collect.requests import CLIENT_CLOCK
from benchsuite.collect.requirements import other_model, unmet_requirements
from benchsuite.collect.snapshots import Blind
from benchsuite.errors import (
    BenchsuiteError,
    MachineError,
    ServerCrashError,
    ServerError,
    ServerLiedError,
    ServerStartError,
)
from benchsuite.logform.facts import LogFacts
from benchsuite.model.plan import VariantPlan
from benchsuite.model.record import Failure, Launch, Measurement, ServerEnd, ServerFacts
from benchsuite.model.scenario import DamageStep, RestartStep, SourceMarkersStep
from benchsuite.pipeline.analytic import analytic_measurements
from benchsuite.pipeline.commanded import left_behind, refuse_left_behind, survival
from benchsuite.pipeline.context import Outcome, RunContext, Target
from benchsuite.pipeline.deaths import crashed_in_stop, end_soon, how_it_ended, with_killer
from benchsuite.pipeline.facts import context_measurement, launched_facts, recorded_env
from benchsuite.pipeline.failures import failure_of
from benchsuite.pipeline.markers import measure_markers
from benchsuite.pipeline.models import served_model
from benchsuite.pipeline.saved_slots import folder_for, saving
from benchsuite.server.behind import Unseen
from benchsuite.server.command import launch_command
from benchsuite.server.ending import describe_end
from benchsuite.server.guard import Guard
from benchsuite.server.launch import LaunchedServer, PortTakenError, launch
from benchsuite.server.rpc import RpcServer
from benchsuite.server.saved_slots import SavedSlots

if TYPE_CHECKING:
    from benchsuite.client.api import LlamaClient
    from benchsuite.collect.explain import Explained
    from benchsuite.collect.watch import Watch
    from benchsuite.drive.driver import OtherStep

_PORT_TRIES = 5


class LaunchDrive:
    """One launch while it lasts.

    Args:
        context: What all launches of the run share.
        target: The server to start.
        guard: Kills it if we die.
        variant: What to drive.
        trial: From 1.
    """

    def __init__(
        self,
        context: RunContext,
        target: Target,
        guard: Guard,
        variant: VariantPlan,
        trial: int,
    ) -> None:
        self._context = context
        self._target = target
        self._guard = guard
        self._variant = variant
        self._trial = trial
        self._server: LaunchedServer | None = None
        self._client: LlamaClient | None = None  # while the steps are driven
        self._saved: SavedSlots | None = None
        self._restarts = 0
        self._rpc: RpcServer | None = None
        self._rpc_arguments: list[str] = []
        self._log: LogFollower | None = None
        self._kills: OomKills | None = None  # before the server could be killed
        self._watch: Watch | None = None
        self._facts: ServerFacts | None = None
        self._explained: list[Explained] = []  # one of each process
        self._doing = "starting"
        self._start_ms: float | None = None
        self._model, self._shape = target.model, target.shape  # once it answers, what it serves
        deployment = context.plan.deployment
        self._model_name = deployment.model_name
        inherits = deployment.command is None or deployment.command.shares_files
        self._recorded_env = recorded_env(deployment.env, os.environ if inherits else {})

    async def run(self) -> Outcome:
        """Launch the server, drive the variant's steps, stop the server.

        A fault of the server or the machine is in the outcome, not raised; so is an
        interruption, after which the task's cancellation is taken as answered.

        Raises:
            UsageError: The variant cannot be run as written.
        """
        started_at = dt.datetime.now(dt.UTC).isoformat()
        failure: Failure | None = None
        self._context.keep_doing(self._doing, self._variant.name, self._trial)
        try:
            await self._start()
            await self._drive()
        except (ServerError, MachineError) as error:
            failure = await self._explain_in_peace(error)
        except asyncio.CancelledError:
            late = self._context.stop.error(self._doing)
            if late is not None:
                failure = await self._explain_in_peace(late)
            else:
                failure = Failure(
                    "interrupted",
                    f"interrupted during {self._doing}",
                    step=self._doing,
                    healthy_before=self._start_ms is not None,
                )
        finally:
            end = self._stop()
        return self._bring_home(started_at, failure, end)

    async def _start(self) -> LaunchedServer:
        """Start the server and wait until it is healthy; a lost race for a port is run again."""
        limits, target = self._context.plan.limits, self._target
        if self._server is not None:
            path = self._server.log_path  # of the process that this one replaces
        else:
            path = self._context.folder.log_path(self._variant.name, self._trial)
            self._rpc_arguments = await self._start_rpc(path)
        if self._saved is None:
            self._saved = folder_for(
                self._context.plan.scenario,
                target.flags(self._variant),
                path.with_name(f"{path.stem}.slots"),
            )
        # the RPC devices first, so that `--device` may name them
        arguments = [*self._rpc_arguments, *target.arguments(self._variant), *saving(self._saved)]
        for remaining in reversed(range(_PORT_TRIES)):
            self._server = server = self._launch(arguments, path)
            self._kills = read_oom_kills(server.pid)
            if self._log is None:
                self._log = LogFollower(path, self._model_name or "")
            log = self._log
            from benchsuite.client.api import LlamaClient
            from benchsuite.pipeline.driving import wait_for
            from benchsuite.pipeline.waking import wake

            client = LlamaClient(
                server.url,
                api_key=server.api_key,
                idle_seconds=limits.idle if self._model_name is None else limits.start,
                request_seconds=max(limits.start, limits.request),
                model=self._model_name,
            )
            try:
                await wait_for(server, client, log, limits.start)
                if self._model_name is not None:
                    await wake(client, self._model_name)  # a router is healthy without any model
            except PortTakenError:
                if not remaining:
                    raise
                server.stop(limits.stop)
                if not self._restarts:  # else it is appended to, and read on
                    log.close()
                    self._log = None
            else:
                if self._start_ms is None:
                    self._start_ms = (time.monotonic_ns() - server.started_ns) / 1e6
                server.note_ready()
                return server
            finally:
                await client.aclose()
        raise AssertionError("the last try returns or raises")

    def _launch(self, arguments: list[str], log_path: Path) -> LaunchedServer:
        target = self._target
        if target.by is not None:
            return launch_command(
                target.by.command,
                target.by.deployment,
                arguments,
                model=target.model_argument,
                port=target.port(self._variant),
                log_path=log_path,
                guard=self._guard,
                append=self._restarts > 0,
            )
        return launch(
            target.binary,
            arguments,
            model=target.model_argument,
            port=target.port(self._variant),
            log_path=log_path,
            env=self._context.plan.deployment.env,
            guard=self._guard,
            append=self._restarts > 0,
        )

    async def _start_rpc(self, log_path: Path) -> list[str]:
        """Start the variant's RPC server; the arguments that give it to the llama-server."""
        if not self._variant.rpc or self._target.rpc is None:
            return []
        limits = self._context.plan.limits
        self._rpc = RpcServer(
            self._target.rpc,
            log_path.with_name(f"rpc.{log_path.name.removeprefix('server.')}"),
            self._context.plan.deployment.env,
            self._guard,
        )
        self._doing = "starting the RPC server"
        address = await self._rpc.start(limits.start, limits.stop)
        self._doing = "starting"
        return ["--rpc", address]

    async def _drive(self) -> None:
        from benchsuite.client.api import LlamaClient
        from benchsuite.collect.watch import Watch
        from benchsuite.pipeline.driving import drive, measure_excess, warn_if_open

        server, log = self._server, self._log
        if server is None or log is None:
            raise AssertionError("drive before start")
        self._client = client = LlamaClient(
            server.url,
            api_key=server.api_key,
            idle_seconds=self._context.plan.limits.idle,
            token_seconds=self._context.plan.limits.token,
            request_seconds=self._context.plan.limits.request,
            model=self._model_name,
        )
        try:
            await self._learn_facts()
            unseen = self._look_behind(server)
            self._watch = watch = Watch(
                client,
                self._variant.name,
                self._trial,
                log=log,
                pids=None if unseen is not None else self._process_ids,
                unseen=unseen,
                keep=self._context.keep,
                owned=True,
                slots=None if self._facts is None else self._facts.slots,
            )
            if server.behind is not None:
                await warn_if_open(server, watch, self._context.plan.limits.idle)
            prompts = self._context.prompts
            if self._facts is None:
                raise AssertionError("no facts after they were learnt")
            vectors = self._context.vectors.launch(self._variant, self._trial, self._facts)
            await drive(
                self._variant,
                prompts,
                client,
                watch,
                self._tell,
                self._other,
                vectors,
                chat_by_template=False,
                step_seconds=self._context.plan.limits.step,
            )
            await self._explain_requests()
            await measure_excess(client, watch)
        finally:
            await client.aclose()
        server = self._server or server  # another one after a restart
        if (end := server.poll()) is not None:
            raise ServerCrashError(f"the server ended by itself: {how_it_ended(server, end, log)}")
        if self._rpc is not None and self._rpc.poll() is not None:
            raise ServerCrashError("the RPC server ended by itself")  # `_explain` says how

    async def _learn_facts(self) -> None:
        """Ask the server who it is, and hold that against what was asked of it."""
        server, log, client, target = self._server, self._log, self._client, self._target
        if server is None or log is None or client is None:
            raise AssertionError("facts before start")
        self._doing = "asking the server for its properties"
        props = await client.props()
        log.poll()
        self._model, self._shape = served_model(target.model, target.shape, props)
        self._facts = launched_facts(
            target.binary,
            server.command,
            target.flags(self._variant),
            self._recorded_env,
            self._model,
            props,
            log.facts(),
            "" if server.behind is None else server.behind.image(),
        )
        other = other_model(target.model.path, props.model_path) if server.behind is None else None
        self._check_requirements(self._facts, other)

    async def _explain_requests(self) -> None:
        from benchsuite.pipeline.driving import explain

        if self._client is None or self._watch is None or self._facts is None:
            raise AssertionError("explain before the drive")
        found = await explain(self._client, self._watch, self._log, self._facts)
        self._explained.append(found)

    async def _other(self, step: OtherStep) -> None:
        """Steps that are more than requests."""
        if self._watch is None:
            raise AssertionError("a step before the drive")
        match step:
            case RestartStep():
                await self._restart(self._watch)
            case DamageStep():
                if self._saved is None:
                    raise AssertionError("damage without a folder of ours")  # refused before
                self._saved.damage(step)
            case SourceMarkersStep():
                deployment = self._context.plan.deployment
                variant, trial = self._variant.name, self._trial
                self._watch.add(await measure_markers(step, deployment, variant, trial))

    async def _restart(self, watch: Watch) -> None:
        """Another process with the same flags; its log is appended to that of the first.

        What was asked so far is explained before, since its slots end with it.
        """
        server, log, client = self._server, self._log, self._client
        if server is None or log is None or client is None:
            raise AssertionError("restart before start")
        await self._explain_requests()
        self._doing = "restarting"
        await client.aclose()  # a server waits for connections that are open
        end = server.stop(self._context.plan.limits.stop)
        log.poll()
        if crashed_in_stop(end, log.facts()):
            how = how_it_ended(server, end, log)
            raise ServerCrashError(
                f"the server crashed while it was stopped for a restart: {how}",
                hint=f"log: {server.log_path}",
            )
        refuse_left_behind(server)
        self._restarts += 1
        server = await self._start()
        self._look_behind(server)
        await client.move_to(server.url, server.api_key)
        await self._learn_facts()
        await watch.restarted()

    def _look_behind(self, server: LaunchedServer) -> Blind | None:
        """Find the server behind a command's client; why its memory cannot be seen, or None."""
        if server.behind is None:
            return None
        found = server.behind.find()
        return Blind(found.reason, found.outcome) if isinstance(found, Unseen) else None

    def _process_ids(self) -> list[int]:
        """The server's processes; asked several times a second, which also enforces the log cap."""
        if self._server is None or self._server.poll() is not None:
            return []
        return self._server.process_ids()

    def _tell(self, words: str) -> None:
        self._doing = words
        self._context.keep_doing(words, self._variant.name, self._trial)
        self._context.progress.step(words)

    def _check_requirements(self, facts: ServerFacts, other: str | None) -> None:
        needs = self._context.plan.needs
        unmet = unmet_requirements(self._variant.flags, needs, facts, self._variant.device)
        unmet += [] if other is None else [other]
        if unmet:
            raise ServerLiedError(
                "the server ignored what it was asked for: " + "; ".join(unmet),
                hint="is it a wrapper that adds flags of its own? see the command with "
                f"'benchsuite show {self._context.plan.scenario.name}'",
            )

    async def _explain_in_peace(self, error: BenchsuiteError) -> Failure:
        """As `_explain`; an interruption meanwhile costs the evidence, not the failure."""
        try:
            return await self._explain(error)
        except asyncio.CancelledError:
            healthy = self._start_ms is not None
            return failure_of(error, step=self._doing, healthy_before=healthy, last_lines=())

    async def _explain(self, error: BenchsuiteError) -> Failure:
        """The failure, told as the server's death where that is what broke the exchange."""
        server, log = self._server, self._log
        healthy = self._start_ms is not None
        asked = server is not None and server.asked  # its end is no news, as in a restart
        if server is not None and healthy and not asked and not isinstance(error, ServerLiedError):
            end = await end_soon(server)
            if end is not None:
                error = ServerCrashError(
                    f"the server died during {self._doing}: {how_it_ended(server, end, log)}",
                    hint=f"log: {server.log_path}",
                )
        if isinstance(error, ServerStartError | ServerCrashError):
            error = type(error)(
                with_killer(error.message, self._kills), where=error.where, hint=error.hint
            )
        if self._rpc is not None and (ended := self._rpc.poll()) is not None:
            error = ServerCrashError(
                f"the RPC server died during {self._doing}: {ended.crash}",
                hint=f"log: {self._rpc.log_path}",
            )
        if log is not None:
            log.poll()
        told = LogFacts() if log is None else log.facts()
        return failure_of(
            error,
            step=self._doing,
            healthy_before=healthy,
            last_lines=told.last_lines,
            forensics=forensics(
                told,
                None if server is None else server.poll(),
                () if self._watch is None else self._watch.in_flight,
            ),
        )

    def _stop(self) -> ServerEnd | None:
        limit = self._context.plan.limits.stop
        try:
            return None if self._server is None else self._server.stop(limit)
        finally:
            if self._rpc is not None:
                self._rpc.stop(limit)

    def _bring_home(
        self, started_at: str, failure: Failure | None, end: ServerEnd | None
    ) -> Outcome:
        watch, target, found = self._watch, self._target, self._explained
        if self._saved is not None:
            self._saved.remove()
        measured = [] if watch is None else list(watch.measurements)
        unmeasured = [] if watch is None else list(watch.unmeasured)
        log, log_warnings = LogFacts(), tuple[str, ...]()
        if self._log is not None:
            self._log.close()
            log, log_warnings = self._log.facts(), tuple(self._log.warnings)
        facts = self._facts or launched_facts(
            target.binary,
            () if self._server is None else self._server.command,
            target.flags(self._variant),
            self._recorded_env,
            self._model,
            Props(),
            log,
        )
        if self._start_ms is not None:
            memory, unread = memory_measurements(log, self._variant.name, self._trial)
            measured += [
                *memory,
                *_of_server(facts, self._start_ms, self._variant.name, self._trial),
            ]
            unmeasured += unread
        if failure is None and end is not None and crashed_in_stop(end, log):
            told = describe_end(end.exit_code, end.signal, log)
            failure = Failure(
                "crash",
                f"the server crashed while it was stopped: {end.crash or told}",
                step="stopping",
                healthy_before=True,
                last_lines=tuple(log.last_lines),
                forensics=forensics(log, end, ()),
            )
        if failure is None and self._server is not None:
            failure = left_behind(self._server)
        server = self._server
        survivors = () if server is None else server.survivors
        if self._rpc is not None and self._rpc.survivors:
            survivors = (*survivors, *self._rpc.survivors)
            words = survival(self._rpc.survivors)
            failure = failure or Failure("machine", words, step="stopping", healthy_before=True)
        analytic, unknown = analytic_measurements(
            self._shape,
            target.flags(self._variant),
            self._context.plan.deployment.env,
            target.table,
            facts.build,
            self._variant.name,
            self._trial,
        )
        launch_record = Launch(
            self._variant.name,
            self._trial,
            started_at,
            facts,
            end=end,
            failure=failure,
            log=None if self._server is None else self._server.log_path.name,
            warnings=(
                *(() if watch is None else watch.warnings),
                *(sentence for one in found for sentence in one.warnings),
                *log_warnings,
                *((survival(survivors),) if survivors else ()),
                *((server.behind.left,) if server and server.behind and server.behind.left else ()),
            ),
            reevaluations=tuple(told for one in found for told in one.reevaluations),
            loads=() if watch is None else tuple(watch.loads),
            sweeps=() if watch is None else tuple(watch.sweeps),
            analytic=analytic,
            analytic_unknown=unknown,
        )
        return Outcome(launch_record, tuple(measured), tuple(unmeasured))


def _of_server(facts: ServerFacts, start_ms: float, variant: str, trial: int) -> list[Measurement]:
    found = [
        Measurement("server_start_ms", start_ms, "ms", variant, trial, source=CLIENT_CLOCK),
        context_measurement(facts, variant, trial),
    ]
    return [measurement for measurement in found if measurement is not None]
