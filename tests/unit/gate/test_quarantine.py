"""A quarantined gate shows and does not block; nothing else is hidden by it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from benchsuite.gate.quarantine import quarantine_problem, with_quarantine
from benchsuite.gate.verdict import verdict
from benchsuite.model.suite import Quarantine
from benchsuite.scenario.load import parse_scenario
from tests.unit.report.suite_records import crashed, failed, gate, record

TEXT = 'text{request="one"}'
METRIC = 'cached_tokens{turn="2"}'
HELD = Quarantine(
    "scenarioB", "B", METRIC, "bug-31", "2027-01-01", "a race", place="ci/suites/pr.yaml:9"
)
SCENARIO = parse_scenario(
    "title: t\nsteps:\n- complete: {id: one, prompt: {text: hello}}\nvariants: {B: {}, U: {}}\n"
    "gates:\n- {metric: kv_mib, max: 4}\n- {metric: kv_mib, equals: baseline}\n"
    "- {metric: kv_cells, equals: baseline, variants: [U]}\n"
    "- {metric: 'text{request=\"one\"}', same_as: {variant: B}}\n"
    "- {metric: 'ttft_ms{request=\"one\"}', max: 4}\n",
    "scenarioB",
)


@pytest.mark.parametrize("outcome", ["fail", "inconclusive"])
def test_a_flaky_gate_advises_and_says_so(outcome: Any) -> None:
    """The run passes by its other gates; the reason names issue and expiry."""
    other = gate(metric="kv_mib")
    held, kept = with_quarantine([failed(outcome=outcome), other], [HELD])
    assert (held.level, held.outcome) == ("advise", outcome)
    assert held.reason.startswith("quarantined (bug-31, until 2027-01-01): 0 is not 1217")
    assert held.quarantine == "bug-31, until 2027-01-01: a race (ci/suites/pr.yaml:9)"
    assert kept == other
    assert verdict(record(), [held, kept]).exit_code == 0


@pytest.mark.parametrize(
    "other",
    [failed(metric="kv_mib"), failed(variant="U"), failed(metric='cached_tokens{turn="3"}')],
)
def test_another_gate_is_never_hidden(other: Any) -> None:
    """Only the variant and selector that are named are held back."""
    gates = with_quarantine([failed(), other], [HELD])
    assert gates[1] == other
    assert verdict(record(), gates).exit_code == 1


def test_a_rule_tells_gates_of_one_selector_apart() -> None:
    """The limit beside it still blocks."""
    entry = msgspec.structs.replace(HELD, rule="equals baseline")
    gates = with_quarantine([failed(), failed(rule="at least 1200 tokens")], [entry])
    assert [one.level for one in gates] == ["advise", "block"]


def test_a_crash_and_an_unexpected_pass_are_not_held_back() -> None:
    """Quarantine is for a gate's flakes, not for servers that die or issues that are mended."""
    unknown = failed(outcome="error")
    assert with_quarantine([unknown], [HELD])[0].level == "block"
    assert verdict(crashed(), with_quarantine(crashed().gates, [HELD])).exit_code == 4
    assert with_quarantine([failed(outcome="xpass")], [HELD])[0].level == "block"


def test_a_run_with_nothing_else_is_not_decided() -> None:
    """What is held back is no pass: with no other gate the run is inconclusive."""
    assert verdict(record(), with_quarantine([failed()], [HELD])).exit_code == 3


def test_a_pass_shows_that_it_is_in_quarantine() -> None:
    """So that an entry which is no longer needed is seen."""
    (held,) = with_quarantine([gate()], [HELD])
    assert (held.outcome, held.level) == ("pass", "block")
    assert held.quarantine


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"variant": "X"}, "scenarioB has no variant 'X'; variants are: B, U"),
        ({"gate": "kv"}, "scenarioB has no gate with the selector 'kv'"),
        ({"gate": 'ttft_ms{request="one"}'}, "'ttft_ms{request=\"one\"}' is not exact"),
        ({"gate": "kv_cells"}, "the gate 'kv_cells' is not judged in variant 'B'"),
        (
            {"gate": "kv_mib"},
            "2 gates have the selector 'kv_mib'; name one with 'rule': 'at most 4 MiB' or 'equals",
        ),
        ({"gate": "kv_mib", "rule": "equals"}, "no gate 'kv_mib' has the rule 'equals'"),
    ],
)
def test_an_entry_that_means_no_gate_is_refused(changes: Any, said: str) -> None:
    """With the words that would have been right."""
    entry = msgspec.structs.replace(HELD, **{"gate": TEXT, **changes})
    problem = quarantine_problem(entry, SCENARIO)
    assert problem is not None
    assert problem.startswith(said)


@pytest.mark.parametrize(
    "changes",
    [{"gate": "kv_mib", "rule": "equals baseline"}, {"gate": TEXT, "variant": "U"}],
)
def test_an_entry_that_means_one_exact_gate_is_taken(changes: Any) -> None:
    """Counts, memory of the cache and text may be held back."""
    assert quarantine_problem(msgspec.structs.replace(HELD, **changes), SCENARIO) is None
