"""The matrix: a row for what gates select, a column for each variant, marks for what differs."""

from __future__ import annotations

import msgspec

from benchsuite.gate.judge import judge
from benchsuite.model.record import Failure, NotApplicable, RunRecord
from benchsuite.report.layout import Style
from benchsuite.report.matrix import matrix_lines
from benchsuite.store.baselines import load_baselines
from tests.unit.gate import gate_example as example

replace = msgspec.structs.replace


def lines(run: RunRecord, width: int = 80) -> list[str]:
    """The matrix of a judged run."""
    none = load_baselines([], "tiny", "scenarioB", run.fingerprint)
    gates = judge(example.scenario(), run, none, platform="linux")
    return matrix_lines(replace(run, gates=gates), Style(width=width))


def row(found: list[str], label: str) -> list[str]:
    """The cells of one row."""
    (line,) = [line for line in found if line.startswith(label)]
    return line.removeprefix(label).split()


def test_what_differs_is_marked() -> None:
    """Values beside the first variant's; noisy metrics have no row."""
    found = lines(example.record())
    assert found[0].split() == ["matrix", "B", "U", "P"]
    assert row(found, "cached_tokens B turn 1") == ["1204", "1204", "0", "*"]
    assert row(found, "kv_mib") == ["16", "16", "16"]
    assert row(found, "text, 4 of them") == ["4", "same", "same"]
    assert not any("anon" in line or "ttft" in line for line in found)
    assert found[-1] == "*: differs from B"


def test_texts_that_differ_are_counted() -> None:
    """One row tells how many of the texts are the first variant's."""
    run = example.with_values(
        example.record(), "text", "other", variants=["U"], labels={"turn": "2"}
    )
    assert row(lines(run), "text, 4 of them") == ["4", "2", "same", "*", "same"]


def test_what_was_not_measured_is_a_dash() -> None:
    """Neither a crash nor a variant that does not apply shows as 0 or as blank."""
    run = example.failed(example.record(), "U", Failure("crash", "it died"))
    run = replace(
        run,
        not_applicable=(NotApplicable("O", "no overlay"),),
        digests={**run.digests, "O": "digest of O"},
    )
    found = lines(run)
    assert found[0].split() == ["matrix", "B", "U", "P", "O"]
    assert row(found, "gates")[1:] == ["ERROR", "open", "n/a"]
    assert row(found, "kv_mib") == ["16", "-", "16", "-"]


def test_a_trial_that_disagrees_shows() -> None:
    """The cell of a variant whose trials differ counts the other values, and differs."""
    run = example.with_values(
        example.record(trials=2), "kv_mib", 8.0, variants=["P"], trials=[2], labels={}
    )
    assert row(lines(run), "kv_mib") == ["16", "16", "16", "+1", "*"]


def test_one_variant_has_no_matrix() -> None:
    """There is nothing to compare."""
    assert lines(example.record(("B",))) == []


def test_it_keeps_to_the_width() -> None:
    """Columns that do not fit go below, under names of their own."""
    found = lines(example.record(), 40)
    assert max(len(line) for line in found) <= 40
    assert sum(line.startswith("matrix") for line in found) > 1


def test_what_two_gates_select_is_one_row() -> None:
    """A wider selector repeats no row of a narrower one."""
    run = example.record()
    none = load_baselines([], "tiny", "scenarioB", run.fingerprint)
    gates = judge(example.scenario(), run, none, platform="linux")
    one = next(gate for gate in gates if gate.metric.startswith("cached_tokens{"))
    wider = replace(one, metric="cached_tokens")
    found = matrix_lines(replace(run, gates=(*gates, wider)), Style(width=80))
    assert row(found, "cached_tokens B turn 1") == ["1204", "1204", "0", "*"]
