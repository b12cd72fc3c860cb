"""One pass over an attached server: drive one variant's trial against someone's running server.

What cannot be seen from outside is not applicable and counted; what was declared observable but
cannot be read is inconclusive. Nothing is started, stopped or erased.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from typing import Literal

from asyncio_throttle.throttler import Throttler

from benchsuite.client.api import LlamaClient, Pace
from benchsuite.client.props import Props
from benchsuite.collect.explain import Explained
from benchsuite.collect.forensics import forensics
from benchsuite.collect.log_follower import LogFollower
from benchsuite.collect.log_memory import memory_measurements
from benchsuite.collect.requirements import unmet_requirements
from benchsuite.collect.restarts import Sight, restart_between, start_time
from benchsuite.collect.watch import Watch
from benchsuite.drive.driver import OtherStep
from benchsuite.errors import (
    BenchsuiteError,
    ConnectionLostError,
    MachineError,
    ServerError,
    ServerHangError,
)
from benchsuite.logform.facts import LogFacts
from benchsuite.model.deployment import Deployment
from benchsuite.model.plan import VariantPlan
from benchsuite.model.record import (
    Failure,
    Launch,
    Measurement,
    ServerEnd,
    ServerFacts,
    Unmeasured,
)
from benchsuite.model.scenario import SourceMarkersStep
from benchsuite.pipeline.context import Outcome, RunContext
from benchsuite.pipeline.driving import drive, explain, measure_excess
from benchsuite.pipeline.facts import attached_facts, context_measurement
from benchsuite.pipeline.failures import failure_of
from benchsuite.pipeline.markers import measure_markers
from benchsuite.pipeline.observing import Observed
from benchsuite.pipeline.waking import wake
from benchsuite.server.guard import Guard

_BACK_SECONDS = 10.0
"""How long a server whose connection broke is given to come back, so that a restart is told."""

DEFAULT_REQUESTS_PER_SECOND = 20.0
"""Cap of requests towards servers that are not ours; `--rate` and the deployment change it."""


class AttachDrive:
    """One pass over an attached server.

    Args:
        context: What all launches of the run share.
        key: The server's API key; None sends none.
        variant: What to drive.
        trial: From 1.
        guard: Ends the deployment's log command if we die; None where it has none.
    """

    def __init__(
        self,
        context: RunContext,
        key: str | None,
        variant: VariantPlan,
        trial: int,
        guard: Guard | None = None,
    ) -> None:
        self._context = context
        self._key = key
        self._variant = variant
        self._trial = trial
        self._watch: Watch | None = None
        self._observed = Observed(
            context.plan.deployment, context.folder.log_path(variant.name, trial), guard
        )
        self._requests_before = 0  # that the observed log has timed before ours
        self._facts: ServerFacts | None = None
        self._explained = Explained()
        self._woken: tuple[str, ...] = ()  # what had to be loaded before
        self._doing = "connecting"

    async def run(self) -> Outcome:
        """Drive the variant's steps; a fault of the server is in the outcome, not raised."""
        started_at = dt.datetime.now(dt.UTC).isoformat()
        failure: Failure | None = None
        self._context.keep_doing(self._doing, self._variant.name, self._trial)
        try:
            failure = await self._drive()
        except (ServerError, MachineError) as error:
            failure = self._failure(error)
        except asyncio.CancelledError:
            late = self._context.stop.error(self._doing)
            words = f"interrupted during {self._doing}"
            failure = (
                Failure("interrupted", words, step=self._doing)
                if late is None
                else self._failure(late)
            )
        try:
            self._observed.close()
        except MachineError as error:  # its log cannot be read any more
            failure = failure or self._failure(error)
        return self._bring_home(started_at, failure)

    def _failure(self, error: BenchsuiteError) -> Failure:
        return failure_of(
            error,
            step=self._doing,
            healthy_before=self._facts is not None,
            last_lines=(),
            # the log may tell of other clients, so only what we had sent is told
            forensics=forensics(
                LogFacts(), None, () if self._watch is None else self._watch.in_flight
            ),
        )

    async def _drive(self) -> Failure | None:
        deployment = self._context.plan.deployment
        if deployment.url is None:
            raise AssertionError("attach without a URL")
        client = LlamaClient(
            deployment.url,
            api_key=self._key,
            idle_seconds=self._context.plan.limits.idle,
            token_seconds=self._context.plan.limits.token,
            request_seconds=self._context.plan.limits.request,
            pace=pace_of(deployment),
            model=deployment.model_name,
            ca=deployment.ca,
        )
        try:
            await self._wait_until_ready(client)
            props = await self._wake()
            await self._observed.open()
            seen = None if self._log is None else self._log.facts()
            self._requests_before = 0 if seen is None else seen.requests
            self._facts = attached_facts(deployment.url, props, seen)
            unmet = unmet_requirements(self._variant.flags, self._context.plan.needs, self._facts)
            if unmet:
                return Failure(
                    "unmet",
                    "the attached server does not meet the scenario: " + "; ".join(unmet),
                    hint="run it against a server that does, or start one with these flags",
                    step=self._doing,
                    healthy_before=True,
                )
            before = await self._look(client, props)
            try:
                watch = await self._steps(client, self._facts)
            except ConnectionLostError as error:
                raise await self._told_of_restart(client, before, error) from error
            after = await self._look(client, await client.props())
            self._distrust(restart_between(before, after))
            self._explained = await explain(client, watch, self._log, self._facts)
            await measure_excess(client, watch)
            await self._observed.settle()
        finally:
            await client.aclose()
        return None

    @property
    def _log(self) -> LogFollower | None:
        return self._observed.log

    async def _wake(self) -> Props:
        deployment, limits = self._context.plan.deployment, self._context.plan.limits
        client = LlamaClient(
            deployment.url or "",
            api_key=self._key,
            idle_seconds=limits.start,  # a model may be loaded meanwhile
            request_seconds=max(limits.start, limits.request),
            model=deployment.model_name,
            ca=deployment.ca,
        )
        try:
            props, self._woken = await wake(client, deployment.model_name)
        finally:
            await client.aclose()
        return props

    async def _look(self, client: LlamaClient, props: Props) -> Sight:
        return Sight(props, await client.metrics(), start_time(self._observed.pid()))

    async def _told_of_restart(
        self, client: LlamaClient, before: Sight, error: ConnectionLostError
    ) -> ConnectionLostError:
        """The error, with what a server that answers again shows to have happened."""
        words = None
        with contextlib.suppress(ServerError, TimeoutError):
            async with asyncio.timeout(_BACK_SECONDS):
                while words is None:
                    try:
                        if await client.healthy():
                            after = await self._look(client, await client.props())
                            words = restart_between(before, after) or "it answers again since"
                    except ConnectionLostError:
                        pass
                    await asyncio.sleep(0.25)
        if words is None:
            return error
        return ConnectionLostError(f"{error}; {words}", hint=error.hint)

    def _distrust(self, reason: str | None) -> None:
        if reason is not None and self._watch is not None:
            self._watch.distrust(reason)

    async def _steps(self, client: LlamaClient, facts: ServerFacts) -> Watch:
        self._watch = watch = Watch(
            client,
            self._variant.name,
            self._trial,
            log=self._log,
            pids=self._observed.pids if self._observed.sees_process else None,
            keep=self._context.keep,
            owned=False,
            unseen=self._observed.blind,
            slots=facts.slots,
        )
        await drive(
            self._variant,
            self._context.prompts,
            client,
            watch,
            self._tell,
            self._other,
            self._context.vectors.launch(self._variant, self._trial, facts),
            chat_by_template=self._log is None,
            step_seconds=self._context.plan.limits.step,
        )
        return watch

    async def _other(self, step: OtherStep) -> None:
        if not isinstance(step, SourceMarkersStep) or self._watch is None:
            raise AssertionError("a step for launched servers only")  # the plan leaves them out
        deployment = self._context.plan.deployment
        self._watch.add(await measure_markers(step, deployment, self._variant.name, self._trial))

    async def _wait_until_ready(self, client: LlamaClient) -> None:
        limit = self._context.plan.limits.start
        try:
            async with asyncio.timeout(limit):
                while not await client.healthy():  # noqa: ASYNC110  # nobody tells when it is
                    await asyncio.sleep(0.25)
        except TimeoutError as error:
            raise ServerHangError(
                f"{client.base_url} was still loading after {limit:g} s",
                hint="allow more with --start-limit SECONDS",
            ) from error

    def _tell(self, words: str) -> None:
        self._doing = words
        self._context.keep_doing(words, self._variant.name, self._trial)
        self._context.progress.step(words)

    def _bring_home(self, started_at: str, failure: Failure | None) -> Outcome:
        watch = self._watch
        variant, trial = self._variant.name, self._trial
        measured = [] if watch is None else list(watch.measurements)
        unmeasured = [] if watch is None else list(watch.unmeasured)
        facts = self._facts or ServerFacts("attached", path=self._context.plan.deployment.url or "")
        context = context_measurement(facts, variant, trial)
        if context is not None:
            measured.append(context)
        if self._log is not None:
            seen = self._log.facts()
            memory, unread = memory_measurements(seen, variant, trial)
            if watch is not None and watch.asked and seen.requests == self._requests_before:
                unread += [_doubted(one) for one in memory]
                memory = []
            measured += memory
            # declared observable, and not readable: that is not the author's choice
            unmeasured += [_as(missing, "inconclusive") for missing in unread]
        else:
            reason = "the log of an attached server cannot be seen over HTTP"
            unmeasured += [
                Unmeasured(name, variant, reason, "not_applicable", trial=trial)
                for name in ("kv_mib", "rs_mib", "kv_cells")
            ]
        unmeasured.append(
            Unmeasured(
                "server_start_ms",
                variant,
                "an attached server was started by someone else",
                "not_applicable",
                trial=trial,
            )
        )
        launch = Launch(
            variant,
            trial,
            started_at,
            facts,
            end=ServerEnd(how="left running"),
            failure=failure,
            warnings=(
                *self._woken,
                *(() if watch is None else watch.warnings),
                *self._explained.warnings,
                *(() if self._log is None else self._log.warnings),
            ),
            reevaluations=self._explained.reevaluations,
            loads=() if watch is None else tuple(watch.loads),
            sweeps=() if watch is None else tuple(watch.sweeps),
        )
        return Outcome(launch, tuple(measured), tuple(unmeasured))


def _doubted(measurement: Measurement) -> Unmeasured:
    return Unmeasured(
        measurement.name,
        measurement.variant,
        "the observed log has no line of the requests that were just made: it is that of another "
        "server, or of an earlier run of this one",
        "inconclusive",
        trial=measurement.trial,
        labels=measurement.labels,
    )


def pace_of(deployment: Deployment) -> Pace | None:
    """What limits the rate of requests to an attached server; None where the cap is lifted."""
    rate = deployment.requests_per_second
    if rate is None:
        rate = DEFAULT_REQUESTS_PER_SECOND
    if rate <= 0:
        return None
    # whole requests a period: asyncio-throttle counts them in a sliding window
    period = 1.0 if rate >= 1 else 1.0 / rate
    pace: Pace = Throttler(rate_limit=max(int(rate * period), 1), period=period)
    return pace


def _as(missing: Unmeasured, outcome: Literal["inconclusive"]) -> Unmeasured:
    return Unmeasured(
        missing.name,
        missing.variant,
        missing.reason,
        outcome,
        trial=missing.trial,
        labels=missing.labels,
    )
