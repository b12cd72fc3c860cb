"""Known issues: expected failures, unexpected passes, other failures, conditions, expiry."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest

from benchsuite.gate.judge import judge
from benchsuite.gate.known_issues import Settled, expiry_of, settle
from benchsuite.gate.verdict import verdict
from benchsuite.model.record import Failure, Forensics, RunRecord
from benchsuite.model.scenario import BuildRange, GateSpec, KnownIssue, SameAs, Scenario
from benchsuite.model.verdict import Verdict
from benchsuite.store.baselines import Baselines, load_baselines
from tests.unit.gate import gate_example as example

TODAY = dt.date(2026, 12, 1)
CRASH = Failure(
    "crash",
    "the server died during turn 2 of session A: aborted",
    step="turn 2 of session A",
    healthy_before=True,
    last_lines=("/src/concat.cu:165: GGML_ASSERT(src0->type == GGML_TYPE_F32) failed",),
)
KNOWN = KnownIssue(
    variant="P",
    issue="bug-207",
    expect="crash",
    signature=r"concat\.cu:165: GGML_ASSERT",
    reason="it concatenates what it cannot",
    line=60,
)
GATES = (
    GateSpec("kv_mib", max=20, line=20),
    GateSpec("kv_mib", same_as=SameAs(variant="B"), line=21),
    GateSpec("kv_mib", same_as=SameAs(variant="P"), variants=("U",), line=22),
)
replace = msgspec.structs.replace


def none() -> Baselines:
    """No baselines."""
    return load_baselines([], "tiny", "scenarioB", example.record().fingerprint)


def scenario(*issues: KnownIssue) -> Scenario:
    """The scenario with known issues."""
    return replace(example.scenario(*GATES), known_issues=issues)


def settled(
    run: RunRecord, *issues: KnownIssue, refuse_expired: bool = False
) -> tuple[Settled, Verdict]:
    """Gates and issues of a run, and its verdict."""
    known = scenario(*issues)
    gates = judge(known, run, none(), platform="linux")
    found = settle(known, run, gates, today=TODAY)
    run = replace(run, known_issues=found.issues)
    return found, verdict(run, found.gates, refuse_expired=refuse_expired)


def outcomes(found: Settled, variant: str) -> list[str]:
    """Outcomes of a variant's gates."""
    return [gate.outcome for gate in found.gates if gate.variant == variant]


def changed(**fields: Any) -> KnownIssue:
    """The known issue with other fields."""
    return replace(KNOWN, **fields)


def test_an_expected_crash_is_xfail_and_the_run_passes() -> None:
    """All gates of the variant, and those of others that compare with it, are xfail: exit 0."""
    found, said = settled(example.failed(example.record(), "P", CRASH), KNOWN)
    assert outcomes(found, "P") == ["xfail", "xfail"]
    assert outcomes(found, "U") == ["pass", "pass", "xfail"]
    assert outcomes(found, "B") == ["pass"]
    assert found.issues[0].outcome == "xfail"
    assert said.exit_code == 0
    assert said.counts == {"pass": 3, "xfail": 3}


def test_a_launch_that_ends_while_loading_counts_too() -> None:
    """Never healthy is covered by `expect: crash`; the signature may stand in the sentence."""
    ended = Failure("start", "the server did not start: concat.cu:165: GGML_ASSERT(x) failed")
    found, said = settled(example.failed(example.record(), "P", ended), KNOWN)
    assert found.issues[0].outcome == "xfail"
    assert said.exit_code == 0


def test_the_signature_is_also_sought_in_the_forensics() -> None:
    """An assertion above a long backtrace is not among the last lines."""
    left = Forensics(crash="/src/concat.cu:165: GGML_ASSERT(x) failed")
    ended = replace(CRASH, last_lines=("#12 main ()",), forensics=left)
    found, _ = settled(example.failed(example.record(), "P", ended), KNOWN)
    assert found.issues[0].outcome == "xfail"


def test_a_line_before_another_assertion_excuses_nothing() -> None:
    """Only what ended the server is held against the signature, not what it printed before."""
    before = "load: concat of tensors done, concat.cu:165: GGML_ASSERT is checked"
    left = Forensics(
        crash="llama-kv-cache.cpp:77: GGML_ASSERT(n_seqs == 1) failed",
        file="llama-kv-cache.cpp",
        line=77,
        errors=(before,),
    )
    ended = replace(CRASH, last_lines=(before, left.crash), forensics=left)
    found, said = settled(example.failed(example.record(), "P", ended), KNOWN)
    assert (found.issues[0].outcome, said.exit_code) == ("other failure", 4)


def test_an_assertion_is_known_in_the_words_of_its_own_build_too() -> None:
    """Builds before 2024 print `GGML_ASSERT: FILE:LINE: EXPRESSION`."""
    raw = "GGML_ASSERT: concat.cu:165: src0->type == GGML_TYPE_F32"
    left = Forensics(crash="concat.cu:165: GGML_ASSERT(x) failed", file="concat.cu", line=165)
    ended = replace(CRASH, last_lines=(raw,), forensics=left)
    known = changed(signature=r"GGML_ASSERT: concat\.cu")
    found, _ = settled(example.failed(example.record(), "P", ended), known)
    assert found.issues[0].outcome == "xfail"


@pytest.mark.parametrize(
    "failure",
    [
        replace(CRASH, last_lines=("/src/other.cpp:1: GGML_ASSERT(y) failed",)),
        replace(CRASH, kind="hang"),
        replace(CRASH, kind="lied"),
    ],
)
def test_another_failure_is_exit_4(failure: Failure) -> None:
    """Another signature, and another kind of failure with the same one, stay what they are."""
    found, said = settled(example.failed(example.record(), "P", failure), KNOWN)
    assert outcomes(found, "P") == ["error", "error"]
    assert found.issues[0].outcome == "other failure"
    assert "failed otherwise" in found.issues[0].reason
    assert said.exit_code == 4


def test_no_crash_is_an_unexpected_pass_with_the_line_to_delete() -> None:
    """The verdict is 1, and one reason names file and line."""
    found, said = settled(example.record(), KNOWN)
    assert outcomes(found, "P") == ["xpass", "xpass"]
    assert said.exit_code == 1
    assert said.counts["xpass"] == 2
    assert said.reasons == (found.issues[0].reason,)
    assert found.issues[0].reason.endswith("delete the entry at scenarios/scenarioB.yaml:60")


def test_an_unexpected_pass_of_a_variant_without_gates_is_counted() -> None:
    """The verdict line names it, although no gate shows it."""
    elsewhere = GateSpec("kv_mib", max=20, variants=("B",), line=20)
    known = replace(example.scenario(elsewhere), known_issues=(KNOWN,))
    run = example.record()
    found = settle(known, run, judge(known, run, none(), platform="linux"), today=TODAY)
    said = verdict(replace(run, known_issues=found.issues), found.gates)
    assert (said.exit_code, said.counts) == (1, {"pass": 1, "xpass": 1})


def test_one_unexpected_crash_beside_an_expected_one_is_exit_4() -> None:
    """Every failed launch of the variant must show a signature."""
    run = example.failed(example.record(trials=2), "P", CRASH)
    other = replace(CRASH, last_lines=("something else",))
    launches = tuple(
        replace(one, failure=other) if (one.variant, one.trial) == ("P", 2) else one
        for one in run.launches
    )
    found, said = settled(replace(run, launches=launches), KNOWN)
    assert found.issues[0].outcome == "other failure"
    assert said.exit_code == 4


def test_two_entries_may_cover_two_crashes() -> None:
    """The one that did not show is not an unexpected pass while the other did."""
    other = changed(issue="bug-300", signature="never seen")
    found, said = settled(example.failed(example.record(), "P", CRASH), other, KNOWN)
    assert [issue.outcome for issue in found.issues] == ["not considered", "xfail"]
    assert said.exit_code == 0


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (changed(builds=BuildRange(10435, None)), "builds b10435..; this is b10434"),
        (changed(builds=BuildRange(None, 10092)), "builds ..b10092; this is b10434"),
        (changed(backend="CUDA"), "backend CUDA; in use: CPU"),
        (changed(deployment="box"), "deployment 'box'; this is 'tiny'"),
        (changed(commit="7e4c0a9"), "commit 7e4c0a9; this build is b10434"),
    ],
)
def test_an_entry_whose_condition_does_not_hold_is_not_considered(
    entry: KnownIssue, words: str
) -> None:
    """A crash is a crash then, and no crash is a pass."""
    found, said = settled(example.failed(example.record(), "P", CRASH), entry)
    assert found.issues[0].outcome == "not considered"
    assert words in found.issues[0].reason
    assert said.exit_code == 4
    assert settled(example.record(), entry)[1].exit_code == 0


@pytest.mark.parametrize(
    "entry",
    [
        changed(builds=BuildRange(10000, 10434)),
        changed(backend="cpu"),
        changed(deployment="tiny"),
    ],
)
def test_an_entry_whose_conditions_hold_is_considered(entry: KnownIssue) -> None:
    """The same crash is expected then."""
    assert settled(example.failed(example.record(), "P", CRASH), entry)[1].exit_code == 0


def test_a_build_that_tells_only_its_commit() -> None:
    """A range of builds cannot hold for `b1-7e4c0a9`; its commit can."""
    run = example.failed(example.record(), "P", CRASH)
    launches = tuple(
        replace(one, server=replace(one.server, build="b1-7e4c0a9")) for one in run.launches
    )
    run = replace(run, launches=launches)
    assert settled(run, changed(builds=BuildRange(1, None)))[1].exit_code == 4
    assert settled(run, changed(commit="7e4c0a912345"))[1].exit_code == 0


def test_a_variant_that_did_not_run_is_not_considered() -> None:
    """Neither its pass nor its expiry is anybody's business."""
    run = example.record(("B", "U"))
    found, said = settled(run, changed(expires="2026-01-01"), refuse_expired=True)
    assert (found.issues[0].outcome, found.issues[0].expiry) == ("not considered", "")
    assert "bug-207" not in " ".join(said.reasons)


def test_an_expected_failure_of_a_gate() -> None:
    """Only gates with the selector become xfail, and only where the reason shows the signature."""
    run = example.with_values(example.record(), "kv_mib", 32.0, variants=["P"])
    entry = changed(expect="fail", signature="differs", gate="kv_mib")
    found, said = settled(run, entry)
    assert outcomes(found, "P") == ["fail", "xfail"]  # the first says: 32 MiB is above 20 MiB
    assert said.exit_code == 1
    found, said = settled(run, changed(expect="fail", signature=""))
    assert outcomes(found, "P") == ["xfail", "xfail"]
    assert "bug-207" in found.gates[2].reason
    assert outcomes(found, "U")[2] == "fail"  # compared with P: no entry covers U
    assert said.exit_code == 1


def test_a_gate_that_no_longer_fails_is_an_unexpected_pass() -> None:
    """The gate that passes is marked, with the line to delete."""
    found, said = settled(example.record(), changed(expect="fail", signature="", gate="kv_mib"))
    assert outcomes(found, "P") == ["xpass", "xpass"]
    assert "scenarioB.yaml:60" in said.reasons[0]
    assert said.exit_code == 1


def test_a_crash_is_not_what_a_failing_gate_expects() -> None:
    """`expect: fail` says nothing of a server that dies."""
    run = example.failed(example.record(), "P", CRASH)
    found, said = settled(run, changed(expect="fail", signature=""))
    assert found.issues[0].outcome == "not considered"
    assert said.exit_code == 4


@pytest.mark.parametrize(
    ("date", "words", "expired"),
    [
        ("2026-12-16", "", False),
        ("2026-12-15", "expires in 14 days", False),
        ("2026-12-02", "expires tomorrow", False),
        ("2026-12-01", "expired on 2026-12-01", True),
        ("2025-01-01", "expired on 2025-01-01", True),
    ],
)
def test_an_entry_warns_for_14_days_and_then_has_expired(
    date: str, words: str, expired: bool
) -> None:
    """Its last day is the day before its date."""
    said, over = expiry_of(changed(expires=date), TODAY)
    assert (words in said, bool(said), over) == (True, bool(words), expired)


def test_an_expired_entry_fails_only_where_that_is_asked_for() -> None:
    """`run` warns and passes; `ci` fails."""
    run = example.failed(example.record(), "P", CRASH)
    entry = changed(expires="2026-11-30")
    assert settled(run, entry)[1].exit_code == 0
    found, said = settled(run, entry, refuse_expired=True)
    assert said.exit_code == 1
    assert said.reasons == (found.issues[0].expiry,)
    assert "scenarios/scenarioB.yaml:60: the known issue bug-207" in said.reasons[0]
