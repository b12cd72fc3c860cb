"""Gates on vectors: the reference is excepted; what is stored blocks or advises as it should."""

from __future__ import annotations

import msgspec

from benchsuite.gate.judge import judge
from benchsuite.model.record import Measurement, RunRecord, Unmeasured
from benchsuite.model.scenario import GateSpec
from benchsuite.model.verdict import GateResult
from benchsuite.store.baselines import load_baselines
from tests.unit.gate.gate_example import launch, scenario
from tests.unit.gate.gate_example import record as healthy

WITHIN = GateSpec('logprob_cosine{against="B",request=~".*"}', min=0.999, line=9)
STORED = GateSpec('logprob_cosine{against="stored",request="one"}', min=0.999, line=9)


def record(*found: Measurement | Unmeasured) -> RunRecord:
    """A run of the variants B and U that measured only this."""
    return msgspec.structs.replace(
        healthy(),
        digests={"B": "b", "U": "u"},
        launches=(launch("B"), launch("U")),
        measurements=tuple(m for m in found if isinstance(m, Measurement)),
        unmeasured=tuple(m for m in found if isinstance(m, Unmeasured)),
    )


def cosine(variant: str, value: float, against: str = "B") -> Measurement:
    """A cosine."""
    labels = {"against": against, "request": "one"}
    return Measurement("logprob_cosine", value, "", variant, labels=labels)


def judged(gate: GateSpec, *found: Measurement | Unmeasured) -> dict[str, GateResult]:
    """The gate's result in each variant."""
    seen = record(*found)
    nothing = load_baselines([], "tiny", "scenarioB", seen.fingerprint)
    return {r.variant: r for r in judge(scenario(gate), seen, nothing)}


def test_the_reference_is_not_held_against_itself() -> None:
    """Its gate is left out, unless it was compared with itself, as with four requests at once."""
    assert {v: r.outcome for v, r in judged(WITHIN, cosine("U", 0.9999)).items()} == {"U": "pass"}
    both = judged(WITHIN, cosine("U", 0.9999), cosine("B", 0.5))
    assert {v: r.outcome for v, r in both.items()} == {"B": "fail", "U": "pass"}


def test_a_variant_without_vectors_fails() -> None:
    """Nothing measured is missing, and shows no pass."""
    assert judged(WITHIN)["U"].outcome == "fail"
    assert judged(WITHIN)["U"].state == "missing"


def test_a_number_just_below_its_limit_reads_so() -> None:
    """0.9989 is not shown as 1."""
    assert judged(WITHIN, cosine("U", 0.99899))["U"].observed == "0.999"
    assert judged(WITHIN, cosine("U", 0.9985))["U"].observed == "0.9985"
    assert judged(WITHIN, cosine("U", 0.9985))["U"].expected == ">= 0.999"


def test_a_fall_against_stored_vectors_can_be_accepted() -> None:
    """It blocks, and counts as regressed from a baseline."""
    result = judged(STORED, cosine("U", 0.9, "stored"), cosine("B", 1.0, "stored"))["U"]
    assert (result.outcome, result.level) == ("fail", "block")
    assert (result.against, result.state) == ("baseline", "regressed")


def test_nothing_stored_advises_and_another_key_blocks() -> None:
    """A first run passes with the command that stores; another CPU is inconclusive."""
    labels = {"against": "stored", "request": "one"}
    for advises, level in ((True, "advise"), (False, "block")):
        why = Unmeasured(
            "logprob_cosine", "U", "why", "inconclusive", labels=labels, advises=advises
        )
        result = judged(STORED, why)["U"]
        assert (result.outcome, result.level) == ("inconclusive", level)
        assert "benchsuite accept" in result.reason
