"""`equals: analytic`: KV as logged is what the model file and the flags make of it, or why not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from benchsuite.errors import ScenarioError, UsageError
from benchsuite.gate.judge import judge
from benchsuite.gate.verdict import verdict
from benchsuite.gate.words import rule_words
from benchsuite.model.record import Measurement, RunRecord
from benchsuite.model.scenario import GateSpec, When
from benchsuite.model.verdict import GateResult
from benchsuite.store.accept import accept
from benchsuite.store.baselines import Baselines, load_baselines
from tests.unit.gate import gate_example as example

replace = msgspec.structs.replace

GATE = GateSpec("kv_mib", equals_analytic=True, line=7)
KNOWN = replace(GATE, when=When(analytic=True))


def analytic(
    kv_mib: float = 16.0, cells: int = 8192, *, rs_mib: float | None = None
) -> tuple[Measurement, ...]:
    """What a model file makes of memory."""
    found = [
        Measurement("kv_mib", kv_mib, "MiB", "B"),
        Measurement("kv_cells", cells, "cells", "B"),
    ]
    if rs_mib is not None:
        found.append(Measurement("rs_mib", rs_mib, "MiB", "B"))
    return tuple(found)


def run_with(trials: int = 1, **launch: Any) -> RunRecord:
    """A healthy run of variant B whose launches hold these fields."""
    run = example.record(("B",), trials)
    changed = tuple(replace(one, **launch) for one in run.launches)
    return replace(run, launches=changed)


def measured(run: RunRecord, name: str, value: float, quantum: float = 0.0) -> RunRecord:
    """The run with one more measurement."""
    added = Measurement(name, value, "", "B", 1, {}, quantum)
    return replace(run, measurements=(*run.measurements, added))


def judge_one(run: RunRecord, gate: GateSpec = GATE) -> GateResult:
    """The gate's result in variant B."""
    fingerprint = run.fingerprint
    none: Baselines = load_baselines([], fingerprint.deployment, run.scenario, fingerprint)
    (result,) = judge(example.scenario(gate), run, none, platform="linux")
    return result


def test_what_the_model_file_makes_passes() -> None:
    """As said in words, and told apart from a baseline."""
    result = judge_one(run_with(analytic=analytic()))
    assert (result.outcome, result.state, result.level) == ("pass", "same", "block")
    assert (result.expected, result.observed) == ("16 MiB", "16 MiB")
    assert (result.rule, result.against) == ("equals analytic", "analytic")
    assert rule_words(GATE, "MiB") == "equals analytic"


@pytest.mark.parametrize(
    ("exact", "outcome"), [(16.0049, "pass"), (15.9951, "pass"), (16.006, "fail"), (16.1, "fail")]
)
def test_print_of_two_decimals_is_all_that_is_allowed(exact: float, outcome: str) -> None:
    """Half a quantum of the logged side for each printed term; the analytic side is exact."""
    assert judge_one(run_with(analytic=analytic(exact))).outcome == outcome


def test_the_bound_grows_with_the_printed_terms() -> None:
    """A total of three lines may be off by three halves of a hundredth."""
    run = run_with(analytic=analytic(16.014))
    assert judge_one(run).outcome == "fail"
    three = tuple(replace(m, terms=3) if m.name == "kv_mib" else m for m in run.measurements)
    assert judge_one(replace(run, measurements=three)).outcome == "pass"


def test_other_cells_are_named_as_the_cause() -> None:
    """A server that ignored --ctx-size or --parallel is told from one with another type."""
    run = measured(run_with(analytic=analytic(8.0, 4096)), "kv_cells", 8192)
    result = judge_one(run)
    assert (result.outcome, result.state) == ("fail", "changed")
    assert result.reason == (
        "is 16 MiB, but the model file and the flags make 8 MiB (cells: 4096); 8192 cells were "
        "made: see --ctx-size, --parallel, --kv-unified and --swa-full"
    )


def test_equal_cells_point_at_what_a_cell_weighs() -> None:
    """Another cache type, or a build that does not know the model."""
    run = measured(run_with(analytic=analytic(8.0, 8192)), "kv_cells", 8192)
    assert "one weighs otherwise: see --cache-type-k" in judge_one(run).reason


def test_one_deviating_trial_is_enough() -> None:
    """Each trial is held against its own launch."""
    run = run_with(3, analytic=analytic())
    odd = example.with_values(run, "kv_mib", 20.0, trials=[2], labels={})
    result = judge_one(odd)
    assert result.outcome == "fail"
    assert "in 1 of 3 trials" in result.reason


def test_an_unknown_architecture_is_inconclusive_and_says_how_to_judge_instead() -> None:
    """Neither pass nor fail; exit 3."""
    run = run_with(analytic_unknown="the cache of architecture 'x' is not known to benchsuite")
    result = judge_one(run)
    assert (result.outcome, result.level) == ("inconclusive", "block")
    assert "architecture 'x'" in result.reason
    assert "'equals: baseline'" in result.reason
    assert verdict(run, [result]).exit_code == 3


def test_where_the_author_says_so_unknown_memory_is_not_applicable() -> None:
    """`when: {analytic: true}` lists the reason; the opposite holds there."""
    unknown = run_with(analytic_unknown="the cache of architecture 'x' is not known")
    result = judge_one(unknown, KNOWN)
    assert result.outcome == "not applicable"
    assert "architecture 'x'" in result.reason
    assert judge_one(run_with(analytic=analytic()), KNOWN).outcome == "pass"
    other = GateSpec("kv_mib", equals=16.0, when=When(analytic=False), line=3)
    assert judge_one(unknown, other).outcome == "pass"
    assert judge_one(run_with(analytic=analytic()), other).outcome == "not applicable"


@pytest.mark.parametrize("gate", [GATE, KNOWN])
def test_an_older_record_is_inconclusive(gate: GateSpec) -> None:
    """It holds neither the value nor a reason."""
    assert judge_one(run_with(), gate).outcome == "inconclusive"


@pytest.mark.parametrize("gate", [GATE, KNOWN])
def test_an_attached_server_is_not_judged(gate: GateSpec) -> None:
    """Its model file and flags cannot be seen."""
    run = run_with()
    server = replace(run.launches[0].server, kind="attached")
    run = replace(run, launches=(replace(run.launches[0], server=server),))
    result = judge_one(run, gate)
    assert result.outcome == "not applicable"


def test_kv_that_was_not_logged_fails_as_missing() -> None:
    """Never 0 and never a pass, though the model file knows the value."""
    result = judge_one(example.without(run_with(analytic=analytic()), "kv_mib"))
    assert (result.outcome, result.state) == ("fail", "missing")


def test_memory_that_the_model_does_not_have_is_not_applicable() -> None:
    """Recurrent models keep no KV, others no state; a server that reports some fails."""
    state = GateSpec("rs_mib", equals_analytic=True, line=8)
    run = run_with(analytic=analytic())
    assert judge_one(run, state).outcome == "not applicable"
    result = judge_one(measured(run, "rs_mib", 1.0, 0.01), state)
    assert (result.outcome, result.expected) == ("fail", "0 MiB")
    recurrent = run_with(analytic=(Measurement("rs_mib", 0.5, "MiB", "B"),))
    none = example.without(recurrent, "kv_mib")
    assert judge_one(none).outcome == "not applicable"
    assert judge_one(none, GateSpec("kv_mib", max=20, line=9)).outcome == "not applicable"
    assert judge_one(measured(none, "rs_mib", 0.5, 0.01), state).outcome == "pass"


def test_a_gate_that_was_not_checked_is_refused() -> None:
    """A scenario built by hand cannot ask for what the model file does not tell."""
    run = run_with(analytic=analytic())
    for metric in ("n_ctx_slot", 'kv_mib{device="CPU"}'):
        with pytest.raises(ScenarioError, match="cannot be told from the model file"):
            judge_one(run, GateSpec(metric, equals_analytic=True, line=9))


def test_a_run_that_is_inconclusive_for_it_alone_can_become_a_baseline(tmp_path: Any) -> None:
    """A baseline is what the gate advises instead; a failure of it cannot be accepted."""
    unknown = run_with(analytic_unknown="no such architecture")
    gates = (judge_one(unknown),)
    accept(
        replace(unknown, gates=gates, verdict=verdict(unknown, gates)),
        tmp_path,
        reason="test",
        environ={},
    )
    wrong = run_with(analytic=analytic(8.0))
    gates = (judge_one(wrong),)
    with pytest.raises(UsageError, match="a baseline cannot mend"):
        accept(
            replace(wrong, gates=gates, verdict=verdict(wrong, gates)),
            tmp_path,
            reason="test",
            environ={},
        )


def test_launches_of_older_records_are_read() -> None:
    """Both fields have defaults."""
    launch = example.launch("B")
    encoded = msgspec.to_builtins(launch)
    del encoded["analytic"], encoded["analytic_unknown"]
    assert msgspec.convert(encoded, type(launch)) == launch
