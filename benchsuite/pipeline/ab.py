"""Two servers in one run: pairs of launches in alternating order, until everything is decided.

Every launch is a fresh one, and the other side's server does not run meanwhile. Odd pairs begin
with the baseline, even ones with the candidate, and a variant's two launches follow each other,
so that drift of the machine strikes both sides alike.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path

import msgspec

from benchsuite.drive.prompts import PromptBook
from benchsuite.errors import BenchsuiteError, FlagError, ServerError, UsageError
from benchsuite.gate.compared import OTHER_SIDE
from benchsuite.gate.other_side import judge_sides, why_end
from benchsuite.model.ab import (
    AB_KIND,
    AB_SCHEMA,
    BASELINE,
    CANDIDATE,
    SIDES,
    AbRecord,
    AbRules,
    Side,
    Turn,
    left_out_words,
    opposite,
)
from benchsuite.model.plan import VariantPlan
from benchsuite.model.record import RunRecord, ServerFacts
from benchsuite.model.scenario import Scenario
from benchsuite.pipeline.context import Outcome, RunContext
from benchsuite.pipeline.devices import locks_of_sides
from benchsuite.pipeline.options import RunOptions
from benchsuite.pipeline.prepare import Prepared, prepare
from benchsuite.pipeline.run import (
    RunState,
    drive_one,
    guarded,
    is_pointless,
    keep_outcome,
    with_unknowable,
)
from benchsuite.pipeline.stopping import Stop, lock_wait, stoppable
from benchsuite.pipeline.vectors import RunVectors
from benchsuite.report.progress import Progress
from benchsuite.scenario.workspace import Workspace
from benchsuite.server.device_locks import device_locks
from benchsuite.server.guard import Guard
from benchsuite.stats.paired import LOOKS
from benchsuite.store.ab import KIND_BEGIN_AB, KIND_TURN, AbFolder
from benchsuite.store.journal import KIND_BEGIN, Journal
from benchsuite.store.vectors import StoredVectors, VectorJournal


class AbOptions(msgspec.Struct, frozen=True):
    """What a user asks of `benchsuite ab`, apart from the scenario."""

    baseline: RunOptions
    candidate: RunOptions
    rules: AbRules = AbRules()

    def side(self, side: Side) -> RunOptions:
        """The options of one side."""
        return self.baseline if side == BASELINE else self.candidate


class AbPrepared(msgspec.Struct, frozen=True):
    """A run of two sides that can begin."""

    sides: Mapping[Side, Prepared]
    rules: AbRules

    @property
    def scenario(self) -> Scenario:
        """What both sides do."""
        return self.sides[CANDIDATE].plan.scenario


class AbFinished(msgspec.Struct, frozen=True):
    """A run of two sides that is over."""

    record: AbRecord
    folder: Path


def prepare_ab(
    workspace: Workspace, scenario: Scenario, options: AbOptions, environ: Mapping[str, str]
) -> AbPrepared:
    """Check everything that can be checked without a server, of both sides.

    Raises:
        UsageError: The options, files or flags of a side cannot be used as they are.
        ServerError: A server that the user named cannot even print its help.
        MachineError: The tiny model cannot be made here.
    """
    sides: dict[Side, Prepared] = {}
    for side in SIDES:
        if side == CANDIDATE and options.candidate == options.baseline:
            sides[side] = sides[BASELINE]  # an A/A run
            continue
        try:
            sides[side] = prepare(workspace, scenario, options.side(side), environ)
        except (UsageError, ServerError) as error:
            own = isinstance(error, FlagError | ServerError) or error.message.startswith("--")
            if own:  # else it is of what both sides share: the scenario, a file
                error.args = (f"{side} side: {error}",)
            raise
    for side, prepared in sides.items():
        deployment = prepared.plan.deployment
        if deployment.attached:
            raise UsageError(
                f"the {side} side is a running server ({deployment.url}), which cannot be stopped "
                "while the other is measured",
                hint="ab starts both servers itself: name programs with --baseline-server and "
                "--candidate-server, or deployments that start one",
            )
    return AbPrepared(_applicable_alike(sides), options.rules)


def _applicable_alike(sides: Mapping[Side, Prepared]) -> dict[Side, Prepared]:
    """The sides, a variant that one of them cannot run left out of both."""
    reasons = {
        (side, variant.name): variant.not_applicable
        for side, prepared in sides.items()
        for variant in prepared.plan.variants
        if variant.not_applicable is not None
    }
    found = {}
    for side, prepared in sides.items():
        variants = tuple(
            msgspec.structs.replace(
                variant,
                not_applicable=left_out_words(side, reasons[opposite(side), variant.name]),
            )
            if (opposite(side), variant.name) in reasons and (side, variant.name) not in reasons
            else variant
            for variant in prepared.plan.variants
        )
        plan = msgspec.structs.replace(prepared.plan, variants=variants)
        found[side] = msgspec.structs.replace(prepared, plan=plan)
    return found


class _Sided:
    """One side while the run goes on."""

    def __init__(
        self,
        side: Side,
        state: RunState,
        folder: AbFolder,
        prompts: PromptBook,
        journals: tuple[Journal, VectorJournal],
        other: _Sided | None,
    ) -> None:
        self.side = side
        self.state = state
        self.folder = folder.sides[side]
        self.journal, vector_journal = journals
        self._other = other  # whose vectors this side's are compared with
        plan = state.prepared.plan
        self.vectors = RunVectors(
            plan, vector_journal, self._of_other, against=None if other is None else OTHER_SIDE
        )
        self._prompts = prompts

    def _of_other(self, variant: VariantPlan, facts: ServerFacts) -> StoredVectors:
        """The other side's vectors of a variant, along which this side is forced too."""
        if self._other is None:
            return StoredVectors("none")
        sets = self._other.vectors.taken(variant.name)
        if not sets:
            return StoredVectors("other key", reason=f"the {self._other.side} side gave no vectors")
        return StoredVectors("matching", sets, source=f"the {self._other.side} side")

    def begin(self) -> None:
        """Write the head of this side's record into its journal."""
        head = msgspec.structs.replace(self.record(1), launches=(), measurements=(), unmeasured=())
        self.journal.write(KIND_BEGIN, record=head)

    async def drive(
        self, guard: Guard | None, stop: Stop, variant: VariantPlan, pair: int
    ) -> Outcome:
        """One launch of one variant."""
        context = RunContext(
            self.state.prepared.plan,
            self.folder,
            self.journal.write,
            self.state.progress,
            self._prompts,
            self.vectors,
            stop,
        )
        outcome = await drive_one(self.state, context, guard, variant, pair)
        outcome = self.vectors.settle(variant, outcome)
        self.state.outcomes.append(outcome)
        keep_outcome(self.journal, outcome)
        self.begin()
        return outcome

    def record(self, pairs: int) -> RunRecord:
        """Everything that this side has seen so far."""
        return msgspec.structs.replace(self.state.record(self.folder.id), trials=max(pairs, 1))


class _Ab:
    """The state of a run of two sides while it goes on."""

    def __init__(self, prepared: AbPrepared, folder: AbFolder, started_at: dt.datetime) -> None:
        self.prepared = prepared
        self.folder = folder
        self.sides: dict[Side, _Sided] = {}
        self.turns: list[Turn] = []
        self.ended = ""
        self.interrupted = False
        self.lock_warnings: tuple[str, ...] = ()
        self.failed: set[str] = set()  # variants that are launched no more
        self._started_at = started_at
        self._started_s = time.monotonic()

    def record(self) -> AbRecord:
        """Everything seen so far, without gates and verdict."""
        pairs = max((turn.pair for turn in self.turns), default=0)
        sides = {
            name: msgspec.structs.replace(side.record(pairs), interrupted=self.interrupted)
            for name, side in self.sides.items()
        }
        warnings = [w for one in self.prepared.sides.values() for w in one.warnings]
        return AbRecord(
            schema_version=AB_SCHEMA,
            kind=AB_KIND,
            id=self.folder.folder.id,
            started_at=self._started_at.isoformat(),
            wall_seconds=time.monotonic() - self._started_s,
            rules=self.prepared.rules,
            baseline=sides[BASELINE],
            candidate=sides[CANDIDATE],
            turns=tuple(self.turns),
            ended=self.ended,
            interrupted=self.interrupted,
            warnings=tuple(dict.fromkeys([*warnings, *self.lock_warnings])),
        )


def run_ab(prepared: AbPrepared, environ: Mapping[str, str], progress: Progress) -> AbFinished:
    """Run pairs of launches until everything is decided, judge them, and store the record.

    Faults of servers are in the record, not raised.

    Raises:
        UsageError: The plan cannot be run as written.
        MachineError: The record cannot be written.
    """
    started_at = dt.datetime.now(dt.UTC)
    runs_folder = prepared.sides[CANDIDATE].runs_folder
    folder = AbFolder.create(runs_folder, prepared.scenario.name, started_at)
    ab = _Ab(prepared, folder, started_at)
    with ExitStack() as stack:
        journal = stack.enter_context(folder.folder.open_journal())
        books: dict[str, PromptBook] = {}
        for side in SIDES:
            one = prepared.sides[side]
            # the same texts for the same model: what counts their tokens otherwise is found
            prompts = books.setdefault(_model_of(one), PromptBook())
            journals = (
                stack.enter_context(folder.sides[side].open_journal()),
                stack.enter_context(closing(VectorJournal(folder.sides[side].path))),
            )
            state = RunState(one, environ, progress)
            other = ab.sides.get(BASELINE)
            ab.sides[side] = _Sided(side, state, folder, prompts, journals, other)
            ab.sides[side].begin()
        journal.write(KIND_BEGIN_AB, record=ab.record())
        try:
            with _locked(ab, environ, progress) as ab.lock_warnings:
                for sided in ab.sides.values():
                    sided.state.begin_machine_state()
                asyncio.run(_drive_pairs(ab, journal, progress))
        finally:
            progress.close()
        for sided in ab.sides.values():
            sided.state.end_machine_state()
        record = ab.record()
        try:
            record = _judged(prepared.scenario, record)
        except BenchsuiteError:
            folder.write_record(record)  # what was measured outlives what judges it
            raise
        folder.write_record(record)
    return AbFinished(record, folder.path)


def _locked(
    ab: _Ab, environ: Mapping[str, str], progress: Progress
) -> AbstractContextManager[tuple[str, ...]]:
    """The locks of the devices of both sides, alone: most of what is compared is noisy."""
    devices = locks_of_sides([ab.prepared.sides[side].plan for side in SIDES], environ)
    wait = lock_wait(ab.prepared.sides[CANDIDATE].plan.limits)
    return device_locks(devices, alone=True, environ=environ, say=progress.launch, wait=wait)


def _judged(scenario: Scenario, record: AbRecord) -> AbRecord:
    judged = judge_sides(scenario, record).record
    sides = {}
    for side in SIDES:
        own = judged.side(side)
        launches = tuple(with_unknowable(launch, judged.gates) for launch in own.launches)
        sides[side] = msgspec.structs.replace(own, launches=launches)
    return msgspec.structs.replace(judged, baseline=sides[BASELINE], candidate=sides[CANDIDATE])


async def _drive_pairs(ab: _Ab, journal: Journal, progress: Progress) -> None:
    state = ab.sides[CANDIDATE].state
    with (
        stoppable(state.time_left(), state.prepared.plan.limits.run) as stop,
        guarded(ab.prepared.sides[CANDIDATE]) as guard,
    ):
        pair = 0
        while not ab.ended:
            pair += 1
            turns = _turns(ab, pair)
            ahead = pairs_ahead(pair, ab.prepared.rules.pairs) * len(turns)
            for number, turn in enumerate(turns, (pair - 1) * len(turns) + 1):
                if turn.variant in ab.failed and pair > 1:
                    continue
                side = ab.sides[turn.side]
                variant = _variant(ab.prepared.sides[turn.side], turn.variant)
                words = f"pair {pair}: {turn.side}, variant {turn.variant}"
                progress.launch(f"{ab.prepared.scenario.name}, {words}", (number, ahead))
                ab.turns.append(turn)
                journal.write(KIND_TURN, turn=turn)
                outcome = await side.drive(guard, stop, variant, pair)
                if stop.signalled:
                    ab.interrupted = True
                if ab.interrupted or stop.out_of_time or is_pointless(outcome):
                    ab.ended = "it was interrupted" if ab.interrupted else "nothing more can be run"
                    return
                if outcome.launch.failure is not None:
                    ab.failed.add(turn.variant)
            ab.ended = _why_end(ab)
            if stop.signalled:
                ab.interrupted, ab.ended = True, "it was interrupted"


def pairs_ahead(pair: int, planned: int | None) -> int:
    """So many pairs until something may be decided: those asked for, else up to the next look."""
    if planned is not None:
        return planned
    return next((count for count in LOOKS if pair <= count), pair)


def _why_end(ab: _Ab) -> str:
    left = {turn.variant for turn in _turns(ab, 1)} - ab.failed
    if not left:
        return "no variant is left to run" if ab.failed else "no variant applies here"
    return why_end(judge_sides(ab.prepared.scenario, ab.record()))


def _turns(ab: _Ab, pair: int) -> list[Turn]:
    """The launches of one pair, in their order."""
    order = SIDES if pair % 2 else SIDES[::-1]
    variants = ab.prepared.sides[CANDIDATE].plan.variants
    return [
        Turn(pair, side, variant.name)
        for variant in variants
        if variant.not_applicable is None
        for side in order
    ]


def _variant(prepared: Prepared, name: str) -> VariantPlan:
    return next(variant for variant in prepared.plan.variants if variant.name == name)


def _model_of(prepared: Prepared) -> str:
    target = prepared.target
    return "" if target is None else (target.model.sampled_sha256 or target.model.path)
