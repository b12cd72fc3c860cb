"""The vectors of one run: what each launch goes along, what it took, and how alike they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from benchsuite.drive.vectors import References, Taken
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.plan import Plan, VariantPlan
from benchsuite.model.record import Measurement, ServerFacts, Unmeasured, Value
from benchsuite.model.scenario import STORED, EmbeddingStep, LogprobsStep
from benchsuite.model.vectors import Role, VectorLine, VectorSet
from benchsuite.pipeline.context import Outcome
from benchsuite.stats.cosine import Incomparable, compare_vectors
from benchsuite.store.vectors import StoredVectors, VectorJournal

LookUp = Callable[[VariantPlan, ServerFacts], StoredVectors]
"""The stored vectors of a variant whose server told these facts."""

_NEVER = StoredVectors("none", reason="the server was not driven")


class LaunchVectors(msgspec.Struct, frozen=True):
    """What one launch needs of the run's vectors."""

    references: References
    take: Callable[[Taken], None]


class RunVectors:
    """The vectors of a run while it goes on.

    Args:
        plan: What is run.
        journal: The run's file of vectors.
        look_up: Finds stored vectors.
        against: The label of what is compared with those; None compares with none.
    """

    def __init__(
        self, plan: Plan, journal: VectorJournal, look_up: LookUp, *, against: str | None = STORED
    ) -> None:
        self._against = against
        self._plan = plan
        self._journal = journal
        self._look_up = look_up
        self._reference: dict[tuple[int, str], VectorSet] = {}  # trial and id of the step
        self._taken: dict[tuple[str, int, str], Taken] = {}  # variant, trial, id of the step
        self._stored: dict[str, StoredVectors] = {}  # by variant

    def launch(self, variant: VariantPlan, trial: int, facts: ServerFacts) -> LaunchVectors:
        """What a launch that is about to be driven goes along."""
        steps = _vector_steps(variant)
        stored = self._look_up(variant, facts) if steps else _NEVER
        self._stored[variant.name] = stored
        leads = variant.name == self._plan.scenario.reference
        run = {} if leads else {s: v for (t, s), v in self._reference.items() if t == trial}

        def take(taken: Taken) -> None:
            self._taken[variant.name, trial, taken.request] = taken
            if taken.reference is not None:
                self._reference[trial, taken.request] = taken.reference
            rows: tuple[tuple[Role, VectorSet | None], ...] = (
                ("reference", taken.reference),
                ("own", taken.own),
                ("stored", taken.stored),
            )
            for role, vectors in rows:
                if vectors is not None:
                    self._journal.write(VectorLine(variant.name, trial, role, vectors))

        return LaunchVectors(References(leads, run, stored.sets), take)

    def taken(self, variant: str) -> dict[str, VectorSet]:
        """What a variant's first launch took that gave any, by id of the step."""
        found: dict[str, VectorSet] = {}
        for (name, _, step), taken in self._taken.items():
            if name == variant and taken.lasting is not None:
                found.setdefault(step, taken.lasting)
        return found

    def settle(self, variant: VariantPlan, outcome: Outcome) -> Outcome:
        """The outcome with what its vectors measure; called once, when the launch is over."""
        trial = outcome.launch.trial
        measured: list[Measurement] = []
        unmeasured: list[Unmeasured] = []
        for step in _vector_steps(variant):
            taken = self._taken.get((variant.name, trial, step.id))
            if taken is None and outcome.launch.failure is not None:
                continue  # the failure says why
            rows = [
                *self._against_run(variant, trial, step, taken),
                *self._against_stored(variant, trial, step, taken),
            ]
            measured += [row for row in rows if isinstance(row, Measurement)]
            unmeasured += [row for row in rows if isinstance(row, Unmeasured)]
        return msgspec.structs.replace(
            outcome,
            measurements=(*outcome.measurements, *measured),
            unmeasured=(*outcome.unmeasured, *unmeasured),
        )

    def _against_run(
        self, variant: VariantPlan, trial: int, step: _Step, taken: Taken | None
    ) -> Sequence[Measurement | Unmeasured]:
        name = self._plan.scenario.reference
        target = _Target(step, variant.name, trial, name)
        if taken is None:
            return target.unmeasured(*self._no_reference(name))
        reference = self._reference[trial, step.id]
        return [] if taken.own is None else target.compared(reference, taken.own)

    def _no_reference(self, name: str) -> tuple[str, str]:
        for variant in self._plan.variants:
            if variant.name == name and variant.not_applicable is not None:
                words = f"its reference, variant {name}, does not apply here: "
                return words + variant.not_applicable, "not_applicable"
        words = f"its reference, variant {name}, failed before it gave its vectors"
        return words, "inconclusive"

    def _against_stored(
        self, variant: VariantPlan, trial: int, step: _Step, taken: Taken | None
    ) -> Sequence[Measurement | Unmeasured]:
        if self._against is None:
            return []
        stored = self._stored.get(variant.name, _NEVER)
        target = _Target(step, variant.name, trial, self._against)
        reference = stored.sets.get(step.id)
        if stored.state == "none":
            return target.unmeasured(stored.reason, "inconclusive", advises=True)
        if reference is None:
            why = stored.reason or f"{stored.source} has no vectors of {step.id}"
            return target.unmeasured(why, "inconclusive")
        candidate = None if taken is None else taken.stored or taken.lasting
        if candidate is None:
            return target.unmeasured("no vectors were taken", "inconclusive")
        return target.compared(reference, candidate)


_Step = LogprobsStep | EmbeddingStep


class _Target(msgspec.Struct, frozen=True):
    """What a comparison of vectors measures."""

    step: _Step
    variant: str
    trial: int
    against: str

    def compared(
        self, reference: VectorSet, candidate: VectorSet
    ) -> Sequence[Measurement | Unmeasured]:
        found = compare_vectors(reference, candidate)
        if isinstance(found, Incomparable):
            return self.unmeasured(found.reason, "missing")
        values: tuple[Value, ...] = (round(found.cosine, 9), len(found.changed))
        return [
            Measurement(
                name,
                value,
                CATALOGUE[name].unit,
                self.variant,
                self.trial,
                self._labels(),
                source=f"{_SOURCES[type(self.step)]}: {found.words}",
            )
            for name, value in zip(_METRICS[type(self.step)], values, strict=False)
        ]

    def unmeasured(self, reason: str, outcome: str, *, advises: bool = False) -> list[Unmeasured]:
        return [
            msgspec.convert(
                {
                    "name": name,
                    "variant": self.variant,
                    "reason": reason,
                    "outcome": outcome,
                    "trial": self.trial,
                    "labels": self._labels(),
                    "advises": advises,
                },
                Unmeasured,
            )
            for name in _METRICS[type(self.step)]
        ]

    def _labels(self) -> dict[str, str]:
        return {"against": self.against, "request": self.step.id}


_METRICS: Mapping[type[_Step], tuple[str, ...]] = {
    LogprobsStep: ("logprob_cosine", "top_token_changes"),
    EmbeddingStep: ("embedding_cosine",),
}
_SOURCES: Mapping[type[_Step], str] = {
    LogprobsStep: "reply completion_probabilities",
    EmbeddingStep: "reply data[0].embedding",
}


def _vector_steps(variant: VariantPlan) -> list[_Step]:
    return [step for step in variant.steps if isinstance(step, LogprobsStep | EmbeddingStep)]
