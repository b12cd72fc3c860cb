"""From vectors to measurements: what is compared with what, and what is said where it cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchsuite.drive.vectors import Taken
from benchsuite.model.deployment import Deployment
from benchsuite.model.plan import Plan, VariantPlan
from benchsuite.model.record import Failure, Launch, ServerFacts
from benchsuite.model.vectors import LogprobVectors, Position, pack_floats
from benchsuite.pipeline.context import Outcome
from benchsuite.pipeline.vectors import RunVectors
from benchsuite.scenario.load import parse_scenario
from benchsuite.scenario.plan import make_plan
from benchsuite.store.vectors import StoredVectors, VectorJournal, read_run_vectors

SCENARIO = parse_scenario(
    "title: t\nsteps:\n  - logprobs: {id: one, prompt: {tokens: 9}, tokens: 1}\n"
    "variants: {B: {}, N: {}}\n"
)
FACTS = ServerFacts("binary")
NONE = StoredVectors("none", reason="nothing was stored")


def plan() -> Plan:
    """Two variants, B the reference."""
    return make_plan(SCENARIO, Deployment(name="mine", url="http://127.0.0.1:1"), None)


def vectors(*row: float) -> LogprobVectors:
    """One position."""
    values = list(row)
    position = Position(values.index(max(values)), pack_floats(values))
    return LogprobVectors("one", (1,), (0,), (position,), 100)


LED = vectors(-1, -2, -3)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[VectorJournal]:
    """A run's file of vectors."""
    with closing(VectorJournal(tmp_path)) as opened:
        yield opened


def settle(
    run: RunVectors, variant: VariantPlan, taken: Taken | None, failure: Failure | None = None
) -> Outcome:
    """Drive one launch that takes this."""
    launch = run.launch(variant, 1, FACTS)
    if taken is not None:
        launch.take(taken)
    outcome = Outcome(Launch(variant.name, 1, "", FACTS, failure=failure))
    return run.settle(variant, outcome)


def rows(outcome: Outcome) -> dict[tuple[str, str], Any]:
    """Metric and what it was held against -> value, or outcome and reason."""
    found: dict[tuple[str, str], Any] = {
        (m.name, m.labels["against"]): m.value for m in outcome.measurements
    }
    for u in outcome.unmeasured:
        found[u.name, u.labels["against"]] = (u.outcome, u.reason, u.advises)
    return found


def test_a_variant_is_held_against_the_reference(journal: VectorJournal, tmp_path: Path) -> None:
    """Cosine and changes with the label `against`; every set is on disk."""
    run = RunVectors(plan(), journal, lambda *_: NONE)
    b, n = plan().variants
    first = rows(settle(run, b, Taken("one", reference=LED)))
    assert ("logprob_cosine", "B") not in first
    second = rows(settle(run, n, Taken("one", own=vectors(-3, -2, -1))))
    assert second["logprob_cosine", "B"] == -1
    assert second["top_token_changes", "B"] == 1
    assert second["logprob_cosine", "stored"] == ("inconclusive", "nothing was stored", True)
    assert [line.role for line in read_run_vectors(tmp_path)] == ["reference", "own"]


def test_a_failed_reference_decides_nothing(journal: VectorJournal) -> None:
    """The others are inconclusive, and the reference's own failure speaks for itself."""
    run = RunVectors(plan(), journal, lambda *_: NONE)
    b, n = plan().variants
    assert rows(settle(run, b, None, Failure("crash", "it died"))) == {}
    outcome, reason, advises = rows(settle(run, n, None))["logprob_cosine", "B"]
    assert (outcome, advises) == ("inconclusive", False)
    assert "variant B, failed" in reason


def test_a_reference_that_does_not_apply_makes_others_not_apply(journal: VectorJournal) -> None:
    """With its reason."""
    b, n = plan().variants
    b = msgspec.structs.replace(b, not_applicable="no flag")
    run = RunVectors(msgspec.structs.replace(plan(), variants=(b, n)), journal, lambda *_: NONE)
    found = rows(settle(run, n, None))["logprob_cosine", "B"]
    assert found == (
        "not_applicable",
        "its reference, variant B, does not apply here: no flag",
        False,
    )


def test_stored_vectors_are_held_against_what_went_along_them(journal: VectorJournal) -> None:
    """The run's own set where the tokens are the same, the extra one where they are not."""
    stored = StoredVectors("matching", {"one": LED}, source="file")
    run = RunVectors(plan(), journal, lambda *_: stored)
    b, _ = plan().variants
    assert rows(settle(run, b, Taken("one", reference=LED)))["logprob_cosine", "stored"] == 1
    extra = Taken("one", reference=LED, stored=vectors(-3, -2, -1))
    assert rows(settle(run, b, extra))["logprob_cosine", "stored"] == -1


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        (StoredVectors("other key", reason="other numerics"), "other numerics"),
        (StoredVectors("matching", {}, source="file"), "file has no vectors of one"),
    ],
)
def test_stored_vectors_that_do_not_fit_are_inconclusive(
    journal: VectorJournal, stored: StoredVectors, words: str
) -> None:
    """They block: there is something to compare with, under another key."""
    run = RunVectors(plan(), journal, lambda *_: stored)
    found = rows(settle(run, plan().variants[0], Taken("one", reference=LED)))
    assert found["logprob_cosine", "stored"] == ("inconclusive", words, False)


def test_no_number_is_missing_and_never_a_pass(journal: VectorJournal) -> None:
    """A NaN in a reply leaves the metric unmeasured, with the position in the sentence."""
    run = RunVectors(plan(), journal, lambda *_: NONE)
    b, n = plan().variants
    settle(run, b, Taken("one", reference=LED))
    found = rows(settle(run, n, Taken("one", own=vectors(-1, -2, float("nan")))))
    outcome, reason, _ = found["logprob_cosine", "B"]
    assert outcome == "missing"
    assert reason.startswith("position 0: the other side gave")
