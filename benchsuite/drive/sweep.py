"""Runs a sweep: a load at one level after the other.

What a stage means and which level comes next is decided by the `Climber` that is handed in.
"""

from __future__ import annotations

import time

import msgspec

from benchsuite.client.api import LlamaClient
from benchsuite.drive.load import run_load
from benchsuite.drive.prompts import PromptBook, texts_of
from benchsuite.drive.replay import Fit, fit_to_server
from benchsuite.drive.served import Hooks, Refused, Served, Stage
from benchsuite.model.scenario import LoadStep, SweepStep

_NS = 1_000_000_000


async def run_sweep(
    step: SweepStep, client: LlamaClient, prompts: PromptBook, hooks: Hooks
) -> None:
    """Drive stages until the climber knows of no further level.

    Args:
        step: What is asked. Of a file each stage takes the rows behind those of the stage before.
        client: The server.
        prompts: Where texts come from; those of a stage are made before it.
        hooks: As of a load step, `loaded` once for each stage.

    Raises:
        ServerError, UsageError: As `run_load`.
    """
    climber = hooks.climb(step)
    number = rows = 0
    while (level := climber.next()) is not None:
        name = stage_name(level)
        hooks.progress(f"sweep {step.name}, {step.over} {name}")
        load = step.at(level, number, rows)
        for text in texts_of(load):
            await prompts.text(text, client.tokenise)
        fit = await fit_to_server(load, client, prompts)
        stage = await _stage(step, fit, level, client, prompts, hooks)
        await climber.take(stage)
        number += 1
        rows += fit.taken if load.requests is not None else stage.load.tally.sent
    climber.finish()


def stage_name(level: float) -> str:
    """A level as the label `stage` has it."""
    return f"{level:.6g}"


class Backlog:
    """Requests that were due, but not answered, at half and at the end of a schedule.

    One that was given up was never answered.

    Args:
        load: Of an open loop; a closed one has no backlog.
        begin_ns: When its schedule began, in the monotonic clock.
    """

    def __init__(self, load: LoadStep, begin_ns: int) -> None:
        self.half = self.end = 0
        self._half_ns = self._end_ns = 0
        self._timeout_ns = round((load.timeout or 0.0) * _NS)
        seconds = load.scheduled_seconds(warm_up=True)
        if seconds is not None:
            span_ns = seconds * _NS
            self._half_ns = begin_ns + round(span_ns / 2)
            self._end_ns = begin_ns + round(span_ns)

    def take(self, served: Served) -> None:
        """Take a request that was answered."""
        due_ns, end_ns = served.due_ns, served.reply.stamps.end_ns
        if due_ns is not None:
            self.half += due_ns <= self._half_ns < end_ns
            self.end += due_ns <= self._end_ns < end_ns

    def give_up(self, ended_ns: int) -> None:
        """Take a request that was given up then, so that it was due at least its timeout before."""
        due_ns = ended_ns - self._timeout_ns
        self.half += due_ns <= self._half_ns
        self.end += due_ns <= self._end_ns


async def _stage(
    step: SweepStep,
    fit: Fit,
    level: float,
    client: LlamaClient,
    prompts: PromptBook,
    hooks: Hooks,
) -> Stage:
    backlog = Backlog(fit.step, time.monotonic_ns())

    def served(one: Served) -> None:
        backlog.take(one)
        hooks.served(one)

    def refused(one: Refused) -> None:
        if one.timed_out:
            backlog.give_up(time.monotonic_ns())
        hooks.refused(one)

    watched = msgspec.structs.replace(hooks, served=served, refused=refused)
    cpu_ns = time.process_time_ns()
    done = await run_load(
        fit.step,
        client,
        prompts,
        watched,
        stage=stage_name(level),
        objectives=step.objectives,
        fit=fit,
    )
    share = (time.process_time_ns() - cpu_ns) / max(1, done.wall_ns)
    await hooks.loaded(done)
    return Stage(level, done, share, backlog.half, backlog.end)
