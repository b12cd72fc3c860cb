"""One run of one scenario: launches, record, gates, verdict, and what is written meanwhile.

The record is written whatever happens after the first launch, so that nothing measured is lost.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path

import msgspec

from benchsuite.collect.machine_state import begin_state, end_state
from benchsuite.drive.prompts import PromptBook
from benchsuite.errors import BenchsuiteError, MachineError
from benchsuite.gate.judge import judge
from benchsuite.gate.known_issues import settle
from benchsuite.gate.machine import machine_warnings
from benchsuite.gate.quarantine import with_quarantine
from benchsuite.gate.verdict import verdict
from benchsuite.metrics.select import parse_selector
from benchsuite.model.limits import limit_hint, limit_struck
from benchsuite.model.plan import Plan, VariantPlan
from benchsuite.model.record import RECORD_SCHEMA, Launch, NotApplicable, RunRecord, ServerFacts
from benchsuite.model.verdict import GateResult
from benchsuite.pipeline.context import Outcome, RunContext
from benchsuite.pipeline.devices import is_noisy, locks_of
from benchsuite.pipeline.identity import commit_of, fingerprint_of, info_of
from benchsuite.pipeline.launch import LaunchDrive
from benchsuite.pipeline.machine import gpu_source
from benchsuite.pipeline.markers import MarkerDrive
from benchsuite.pipeline.prepare import Prepared
from benchsuite.pipeline.stopping import lock_wait, stoppable
from benchsuite.pipeline.vectors import RunVectors
from benchsuite.report.progress import Progress
from benchsuite.server.device_locks import device_locks
from benchsuite.server.guard import Guard
from benchsuite.store.baselines import Baselines
from benchsuite.store.floats import redacted
from benchsuite.store.history import remember
from benchsuite.store.records import Journal, RunFolder
from benchsuite.store.vectors import StoredVectors, VectorJournal


class Finished(msgspec.Struct, frozen=True):
    """A run that is over: its record with gates and verdict, where it lies, what judged it."""

    record: RunRecord
    folder: Path
    baselines: Baselines
    warning: str | None = None  # of what could not be done after the record was stored


class RunState:
    """The state of a run while it goes on."""

    def __init__(self, prepared: Prepared, environ: Mapping[str, str], progress: Progress) -> None:
        self.prepared = prepared
        self.environ = environ
        self.progress = progress
        self.commit = commit_of(Path.cwd())
        self.outcomes: list[Outcome] = []
        self.interrupted = False
        self.lock_warnings: tuple[str, ...] = ()
        self.started_at = dt.datetime.now(dt.UTC)
        self.started_s = time.monotonic()
        self.gpus = gpu_source(prepared.plan)
        self.machine_state = begin_state(gpus=self.gpus)

    def begin_machine_state(self) -> None:
        """What the machine is like, once nobody's run is waited for any more."""
        self.machine_state = begin_state(gpus=self.gpus)

    def end_machine_state(self) -> None:
        """What the machine was like, once every server has ended."""
        owned = not self.prepared.plan.deployment.attached
        self.machine_state = end_state(self.machine_state, owned=owned, gpus=self.gpus)

    def time_left(self) -> float | None:
        """Seconds until the run's limit; None without one.

        Raises:
            MachineError: There are none left, before a server was started.
        """
        limit = self.prepared.plan.limits.run
        if limit is None:
            return None
        left = limit - (time.monotonic() - self.started_s)
        if left <= 0:
            raise MachineError(
                f"{limit_struck('run', limit)} before a server was started", hint=limit_hint("run")
            )
        return left

    def record(self, run_id: str) -> RunRecord:
        """Everything seen so far, without gates and verdict."""
        plan = self.prepared.plan
        launches = tuple(outcome.launch for outcome in self.outcomes)
        return RunRecord(
            schema_version=RECORD_SCHEMA,
            id=run_id,
            started_at=self.started_at.isoformat(),
            wall_seconds=time.monotonic() - self.started_s,
            scenario=plan.scenario.name,
            scenario_path=plan.scenario.path,
            title=plan.scenario.title,
            digests={variant.name: variant.digest for variant in plan.variants},
            fingerprint=fingerprint_of(plan, launches, self.environ, self.prepared.options.machine),
            info=info_of(plan, launches, self.commit),
            trials=plan.trials,
            launches=launches,
            measurements=tuple(m for one in self.outcomes for m in one.measurements),
            unmeasured=tuple(m for one in self.outcomes for m in one.unmeasured),
            not_applicable=tuple(
                NotApplicable(variant.name, variant.not_applicable)
                for variant in plan.variants
                if variant.not_applicable is not None
            ),
            interrupted=self.interrupted,
            warnings=(*self.prepared.warnings, *self.lock_warnings),
            machine_state=self.machine_state,
            duration=self.prepared.options.duration,
        )


def run_scenario(prepared: Prepared, environ: Mapping[str, str], progress: Progress) -> Finished:
    """Run every variant's trials of a prepared scenario, judge them, and store the record.

    Faults of servers are in the record, not raised.

    Raises:
        UsageError: The plan cannot be run as written.
        MachineError: The record cannot be written.
    """
    run = RunState(prepared, environ, progress)
    prepared.baselines(run.record(""))  # a broken file is said before anything is started
    folder = RunFolder.create(prepared.runs_folder, prepared.plan.scenario.name, run.started_at)
    with folder.open_journal() as journal:
        journal.write("begin", record=run.record(folder.id))
        try:
            with _locked(run) as run.lock_warnings:
                run.begin_machine_state()
                asyncio.run(_drive_all(run, folder, journal))
        finally:
            progress.close()
        run.end_machine_state()
        record = run.record(folder.id)
        try:
            finished = _judged(prepared, record, folder.path)
        except BenchsuiteError:
            folder.write_record(record)  # what was measured outlives what judges it
            raise
        folder.write_record(finished.record)
    return msgspec.structs.replace(finished, warning=remember(folder.path))


def _judged(prepared: Prepared, record: RunRecord, folder: Path) -> Finished:
    options = prepared.options
    baselines = prepared.baselines(record)
    gates = judge(prepared.plan.scenario, record, baselines, allow_new=options.allow_new)
    launches = tuple(with_unknowable(launch, gates) for launch in record.launches)
    settled = settle(prepared.plan.scenario, record, gates, today=dt.datetime.now(dt.UTC).date())
    gates = with_quarantine(settled.gates, options.quarantine)
    judged = msgspec.structs.replace(
        record,
        launches=launches,
        gates=gates,
        known_issues=settled.issues,
        baseline=baselines.source,
        against=options.against,
        warnings=(*record.warnings, *machine_warnings(record.machine_state, gates)),
        policy=options.policy,
    )
    found = verdict(
        judged,
        gates,
        require_all=options.require_all,
        refuse_expired=options.refuse_expired,
    )
    judged = msgspec.structs.replace(judged, verdict=found)
    return Finished(judged, folder, baselines)


def with_unknowable(launch: Launch, gates: Sequence[GateResult]) -> Launch:
    """The launch, its failure with the metrics that nobody can judge because of it."""
    if launch.failure is None:
        return launch
    lost = [g.metric for g in gates if g.variant == launch.variant and g.outcome == "error"]
    names = tuple(dict.fromkeys(parse_selector(metric).name for metric in lost))
    failure = msgspec.structs.replace(launch.failure, unknowable=names)
    return msgspec.structs.replace(launch, failure=failure)


async def _drive_all(run: RunState, folder: RunFolder, journal: Journal) -> None:
    vector_journal = VectorJournal(folder.path)
    with (
        stoppable(run.time_left(), run.prepared.plan.limits.run) as stop,
        guarded(run.prepared) as guard,
        closing(vector_journal),
    ):
        prompts = None
        vectors = RunVectors(run.prepared.plan, vector_journal, partial(_stored, run))
        launches = _launches(run.prepared.plan)
        for number, (variant, trial) in enumerate(launches, 1):
            if prompts is None or run.prepared.plan.deployment.attached:
                prompts = PromptBook(_nonce(run.prepared.plan))
            context = RunContext(
                run.prepared.plan, folder, journal.write, run.progress, prompts, vectors, stop
            )
            words = _words(run.prepared.plan, variant, trial)
            run.progress.launch(words, (number, len(launches)))
            outcome = await drive_one(run, context, guard, variant, trial)
            outcome = vectors.settle(variant, outcome)
            run.outcomes.append(outcome)
            keep_outcome(journal, outcome)
            journal.write("begin", record=_without_measurements(run.record(folder.id)))
            if stop.signalled:
                run.interrupted = True
            if run.interrupted or stop.out_of_time or is_pointless(outcome):
                break


async def drive_one(
    run: RunState, context: RunContext, guard: Guard | None, variant: VariantPlan, trial: int
) -> Outcome:
    """One launch of one variant, as the plan's deployment asks for it; secrets are hidden."""
    return redacted(await _driven(run, context, guard, variant, trial))


async def _driven(
    run: RunState, context: RunContext, guard: Guard | None, variant: VariantPlan, trial: int
) -> Outcome:
    target = run.prepared.target
    if not run.prepared.plan.scenario.needs_server:
        return await MarkerDrive(context, variant, trial).run()
    if target is None or guard is None:
        from benchsuite.pipeline.attach import AttachDrive

        return await AttachDrive(context, run.prepared.api_key, variant, trial, guard).run()
    return await LaunchDrive(context, target, guard, variant, trial).run()


def _locked(run: RunState) -> AbstractContextManager[tuple[str, ...]]:
    """The locks of the devices that the run uses; exclusive where a gate is noisy."""
    plan, environ = run.prepared.plan, run.environ
    alone = is_noisy(plan.gates)
    return device_locks(
        locks_of(plan, environ),
        alone=alone,
        environ=environ,
        say=run.progress.launch,
        wait=lock_wait(plan.limits),
    )


def _stored(run: RunState, variant: VariantPlan, facts: ServerFacts) -> StoredVectors:
    """The stored vectors that a launch may be compared with, by what its server tells."""
    seen = Launch(variant.name, 1, "", facts)
    options = run.prepared.options
    fingerprint = fingerprint_of(run.prepared.plan, [seen], run.environ, options.machine)
    return run.prepared.stored_vectors(variant, fingerprint)


def _launches(plan: Plan) -> list[tuple[VariantPlan, int]]:
    """Trials in the outer loop, so that drift of the machine strikes all variants alike."""
    applicable = [variant for variant in plan.variants if variant.not_applicable is None]
    return [(variant, trial) for trial in range(1, plan.trials + 1) for variant in applicable]


def _words(plan: Plan, variant: VariantPlan, trial: int) -> str:
    words = f"{plan.scenario.name} on {plan.deployment.name}, variant {variant.name}"
    return words if plan.trials == 1 else f"{words}, trial {trial} of {plan.trials}"


def _nonce(plan: Plan) -> str | None:
    """Other texts for every pass over a server whose caches may hold an earlier pass."""
    return secrets.token_hex(4) if plan.deployment.attached else None


def is_pointless(outcome: Outcome) -> bool:
    """Whether going on would only wait again: the machine failed, or nothing starts in time."""
    failure = outcome.launch.failure
    if failure is None:
        return False
    slow_start = failure.kind == "hang" and not failure.healthy_before
    return failure.kind in ("machine", "interrupted") or slow_start


def _without_measurements(record: RunRecord) -> RunRecord:
    """The head of a record; what was measured stands in the journal by itself."""
    return msgspec.structs.replace(record, launches=(), measurements=(), unmeasured=())


def keep_outcome(journal: Journal, outcome: Outcome) -> None:
    """Everything of an outcome in the journal, so that a kill loses nothing of it."""
    for measurement in outcome.measurements:
        journal.write("measurement", measurement=measurement)
    for unmeasured in outcome.unmeasured:
        journal.write("unmeasured", unmeasured=unmeasured)
    journal.write("launch", launch=outcome.launch)


@contextmanager
def guarded(prepared: Prepared) -> Iterator[Guard | None]:
    """The guard process where servers are launched, or a command prints an attached one's log."""
    if prepared.target is None and not prepared.plan.deployment.observe.log_command:
        yield None
        return
    with Guard() as guard:
        yield guard
