"""The candidate against the other side: what is compared, when it is decided, what it comes to."""

from __future__ import annotations

import math

import msgspec
import pytest

from benchsuite.gate.other_side import judge_sides, why_end
from benchsuite.model.ab import AbRules, Turn
from benchsuite.model.machine import MachineFinding, MachineReading, MachineState
from benchsuite.model.record import Failure, Measurement, NotApplicable, RunRecord, Unmeasured
from benchsuite.model.scenario import GateSpec, KnownIssue, Regression, When
from tests.unit.gate import gate_example
from tests.unit.gate.ab_example import ab, gate_of, judged, replace, slower
from tests.unit.gate.gate_example import record, with_values, without

PLAIN = (GateSpec("kv_mib", equals_baseline=True, line=23),)


def test_a_build_against_itself_passes() -> None:
    """With five pairs everything is decided, and it is said that nothing differs."""
    found = judged(ab(5))
    assert found.record.verdict is not None
    assert (found.record.verdict.exit_code, found.record.differs) == (0, ())
    assert {g.outcome for g in found.record.gates} == {"pass"}
    assert {g.level for g in found.record.gates} == {"block"}
    assert why_end(found) == "5 pairs decided everything that pairs decide"


def test_everything_that_was_measured_is_compared_once() -> None:
    """Series that a gate judges are left to it; what is noisy and says the same again is not."""
    metrics = [g.metric for g in judged(ab(), *PLAIN).record.gates]
    assert metrics == [
        "kv_mib",
        'kv_mib{device=~".*"}',
        'cached_tokens{session=~".*",turn=~".*"}',
        'evaluated_tokens{session=~".*",turn=~".*"}',
        'prompt_tokens{session=~".*",turn=~".*"}',
        'text{session=~".*",turn=~".*"}',
        'anon_mib{at="end"}',
        'ttft_ms{session=~".*",turn=~".*"}',
    ]
    both = [g.metric for g in judged(ab()).record.gates if g.metric.startswith("cached_tokens")]
    assert 'cached_tokens{session=~".*",turn=~".*"}' in both  # the turns that no gate names


def test_an_exact_difference_ends_it_after_the_first_pair() -> None:
    """The rest is told as not decided, and the whole fails."""
    changed = with_values(record(("B",)), "kv_mib", 32.0)
    changed = replace(changed, info=replace(changed.info, flags={"B": {"cache-type-k": "f32"}}))
    found = judged(ab(1, candidate=changed), *PLAIN)
    gate = found.record.gates[0]
    assert (gate.outcome, gate.state, gate.expected, gate.observed) == (
        "fail",
        "changed",
        "16 MiB",
        "32 MiB",
    )
    assert "cache-type-k f16 -> f32" in gate.reason
    assert "baseline/server.b.1.log and candidate/server.b.1.log" in gate.reason
    latency = gate_of(found, "ttft_ms")
    assert latency.outcome == "inconclusive"
    assert "not decided" in latency.reason
    assert found.record.verdict is not None
    assert found.record.verdict.exit_code == 1
    assert why_end(found) == "kv_mib decides it after 1 pair; --pairs 10 runs on"


def test_pairs_that_were_asked_for_run_on() -> None:
    """A failure does not end them, the last of them does."""
    changed = with_values(record(("B",)), "kv_mib", 32.0)
    rules = AbRules(pairs=2)
    assert why_end(judged(ab(1, candidate=changed, rules=rules), *PLAIN)) == ""
    two = ab(2, candidate=with_values(record(("B",), 2), "kv_mib", 32.0), rules=rules)
    assert why_end(judged(two, *PLAIN)) == "2 pairs were asked for"


@pytest.mark.parametrize("pairs", range(1, 5))
def test_latency_is_not_decided_before_five_pairs(pairs: int) -> None:
    """However bad it looks."""
    bad = slower(record(("B",), pairs), 3.0)
    found = judged(ab(pairs, candidate=bad), *PLAIN)
    assert gate_of(found, "ttft_ms").outcome == "inconclusive"
    assert why_end(found) == ""


def test_latency_is_decided_at_five_pairs_where_it_is_clear() -> None:
    """A regression beyond the tolerance fails with estimate, interval and number of pairs."""
    bad = slower(record(("B",), 5), 1.3)
    found = judged(ab(5, candidate=bad), *PLAIN)
    gate = gate_of(found, "ttft_ms")
    assert (gate.outcome, gate.state, gate.level) == ("fail", "regressed", "block")
    assert gate.estimate is not None
    assert gate.estimate.value == pytest.approx(30, abs=0.5)
    assert gate.estimate.candidate_n == 5
    assert "more than the 10% allowed" in gate.reason
    assert why_end(found)


def _noisy(pairs: int) -> RunRecord:
    run = record(("B",), pairs)
    factors = (0.8, 1.25, 0.85, 1.2, 1.0)
    measurements = tuple(
        replace(m, value=float(m.value) * factors[m.trial % 5]) if m.name == "ttft_ms" else m
        for m in run.measurements
    )
    return replace(run, measurements=measurements)


def test_what_five_pairs_leave_open_takes_ten() -> None:
    """And after ten it stays open, with what to do."""
    five = judged(ab(5, candidate=_noisy(5)), *PLAIN)
    assert gate_of(five, "ttft_ms").outcome == "inconclusive"
    assert why_end(five) == ""
    ten = judged(ab(10, candidate=_noisy(10)), *PLAIN)
    gate = gate_of(ten, "ttft_ms")
    assert gate.outcome == "inconclusive"
    assert "--pairs 30" in gate.reason
    assert why_end(ten)
    assert ten.record.verdict is not None
    assert ten.record.verdict.exit_code == 3


def test_a_look_behind_an_interruption_holds() -> None:
    """Seven pairs have the look at five; later pairs do not undo it."""
    bad = slower(record(("B",), 7), 1.3)
    found = judged(ab(7, candidate=bad, interrupted=True), *PLAIN)
    gate = gate_of(found, "ttft_ms")
    assert gate.outcome == "fail"
    assert gate.estimate is not None
    assert gate.estimate.candidate_n == 5
    assert found.record.verdict is not None
    assert found.record.verdict.exit_code == 130


def test_more_than_ten_pairs_are_looked_at_once() -> None:
    """With --pairs 20 nothing is decided at 5 or 10, and all 20 count at the end."""
    rules = AbRules(pairs=20)
    ten = judged(ab(10, candidate=slower(record(("B",), 10), 1.3), rules=rules), *PLAIN)
    assert gate_of(ten, "ttft_ms").outcome == "inconclusive"
    twenty = judged(ab(20, candidate=slower(record(("B",), 20), 1.3), rules=rules), *PLAIN)
    gate = gate_of(twenty, "ttft_ms")
    assert gate.outcome == "fail"
    assert gate.estimate is not None
    assert gate.estimate.candidate_n == 20


@pytest.mark.parametrize("pairs", [1, 2, 3, 4])
def test_fewer_pairs_than_it_takes_are_no_pass(pairs: int) -> None:
    """A latency three times as long is not decided by them: inconclusive, with what decides it."""
    rules = AbRules(pairs=pairs)
    found = judged(ab(pairs, candidate=slower(record(("B",), pairs), 3.0), rules=rules), *PLAIN)
    latency, memory = gate_of(found, "ttft_ms"), gate_of(found, "anon_mib")
    assert (latency.outcome, latency.level) == ("inconclusive", "block")
    assert "leave --pairs out (`benchsuite ab scenarioB ...`)" in latency.reason
    assert "--exact" in latency.reason
    assert memory.level == "block"
    assert memory.outcome == ("inconclusive" if pairs < 3 else "pass")
    assert found.record.verdict is not None
    assert found.record.verdict.exit_code == 3


def test_exact_values_alone_may_be_asked_for() -> None:
    """--exact takes one pair, judges no memory and latency, says so, and fails by exact values."""
    rules = AbRules(exact=True)
    fat = with_values(record(("B",)), "anon_mib", 541.0)
    found = judged(ab(1, candidate=fat, rules=rules), *PLAIN)
    memory = gate_of(found, "anon_mib")
    assert (memory.outcome, memory.level) == ("inconclusive", "advise")
    assert "not judged, since --exact was given: 41.5 MiB against 541 MiB" in memory.reason
    assert gate_of(found, "ttft_ms").level == "advise"
    assert why_end(found)
    assert found.record.verdict is not None
    assert found.record.verdict.exit_code == 0
    changed = with_values(record(("B",)), "kv_mib", 32.0)
    verdict = judged(ab(1, candidate=changed, rules=rules), *PLAIN).record.verdict
    assert verdict is not None
    assert verdict.exit_code == 1


def test_memory_that_one_side_lacks_fails_in_spite_of_exact() -> None:
    """What is missing is no question of precision."""
    poor = without(record(("B",)), "anon_mib")
    found = judged(ab(1, candidate=poor, rules=AbRules(exact=True)), *PLAIN)
    assert gate_of(found, "anon_mib").outcome == "fail"


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_impossible_memory_is_never_a_pass(value: float, side: str) -> None:
    """In one of five launches or in all, on either side or on both."""
    for trials in ((3,), (1, 2, 3, 4, 5)):
        odd = with_values(record(("B",), 5), "anon_mib", value, trials=trials)
        for sides in ({side: odd}, {"baseline": odd, "candidate": odd}):
            found = judged(ab(5, **sides), *PLAIN)  # type: ignore[arg-type]
            gate = gate_of(found, "anon_mib")
            assert (gate.outcome, gate.level) == ("inconclusive", "block")
            assert "nan" not in gate.reason


LIMIT = GateSpec('rss_mib{at="end"}', max=60.0, line=27)
"""The example's 61 MiB break it."""


@pytest.mark.parametrize(
    ("before", "after", "code", "words"),
    [
        (61.0, 61.0, 0, ""),  # fails as expected on both sides
        (61.0, 50.0, 1, "was to fail and did not fail; delete the entry at"),
        (50.0, 50.0, 1, "was to fail and did not fail; delete the entry at"),
        (50.0, 61.0, 1, "fails on the candidate side as a known issue expects, and not on"),
    ],
)
def test_a_known_failure_that_no_longer_shows_fails(
    before: float, after: float, code: int, words: str
) -> None:
    """The entry is to be removed; and what the baseline keeps, no entry excuses."""
    issue = KnownIssue("B", "bug-1", "fail", "must be at most", gate=LIMIT.metric)
    scenario = replace(gate_example.scenario(LIMIT), known_issues=(issue,))
    sides = [with_values(record(("B",)), "rss_mib", mib) for mib in (before, after)]
    found = judge_sides(
        scenario, ab(1, sides[0], sides[1], AbRules(exact=True)), platform="linux"
    ).record
    assert found.verdict is not None
    assert found.verdict.exit_code == code
    assert any(words in reason for reason in found.verdict.reasons) is bool(words)
    (gate,) = (g for g in found.gates if g.metric == LIMIT.metric)
    assert gate.outcome == ("xfail" if after > 60 else "xpass")


def test_a_known_failure_of_a_baseline_gate_is_not_looked_for() -> None:
    """`ab` reads no stored baseline, so it cannot know whether the issue still shows."""
    issue = KnownIssue("B", "bug-1", "fail", "changed")
    scenario = replace(gate_example.scenario(LIMIT, *PLAIN), known_issues=(issue,))
    kept = with_values(record(("B",)), "rss_mib", 50.0)
    found = judge_sides(scenario, ab(1, kept, kept, AbRules(exact=True)), platform="linux").record
    assert found.verdict is not None
    assert found.verdict.exit_code == 0
    assert [i.outcome for i in found.candidate.known_issues] == ["not considered"]


def test_memory_takes_three_pairs_and_both_tolerances() -> None:
    """30% more than 41.5 MiB is beyond 5% and 4 MiB; 5 of 1000 MiB is within 5%."""
    rules = AbRules(pairs=3)
    grown = with_values(record(("B",), 3), "anon_mib", 54.0)
    gate = gate_of(judged(ab(3, candidate=grown, rules=rules), *PLAIN), "anon_mib")
    assert (gate.outcome, gate.level) == ("fail", "block")
    large = [with_values(record(("B",), 3), "anon_mib", mib) for mib in (1000.0, 1005.0)]
    gate = gate_of(judged(ab(3, large[0], large[1], rules), *PLAIN), "anon_mib")
    assert gate.outcome == "pass"
    two = with_values(record(("B",), 2), "anon_mib", 54.0)
    gate = gate_of(judged(ab(2, candidate=two), *PLAIN), "anon_mib")
    assert gate.outcome == "inconclusive"
    assert "memory takes 3 pairs" in gate.reason


@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_what_one_side_lacks_fails(side: str) -> None:
    """Whichever side it is, and it is named."""
    poor = without(record(("B",)), "evaluated_tokens")
    found = judged(ab(1, **{side: poor}), *PLAIN)  # type: ignore[arg-type]
    gate = gate_of(found, "evaluated_tokens")
    assert (gate.outcome, gate.state) == ("fail", "missing")
    assert f"missing on the {side} side" in gate.reason


def test_what_some_launches_lack_fails() -> None:
    """A value of two launches out of three is no value of three."""
    run = record(("B",), 3)
    lacking = tuple(m for m in run.measurements if not (m.name == "prompt_tokens" and m.trial == 2))
    found = judged(ab(3, candidate=replace(run, measurements=lacking)), *PLAIN)
    gate = gate_of(found, "prompt_tokens")
    assert gate.outcome == "fail"
    assert "in 1 of 3 launches" in gate.reason


def test_latency_that_some_launches_lack_fails() -> None:
    """It is not judged by the launches that are left."""
    run = record(("B",), 5)
    lacking = tuple(m for m in run.measurements if not (m.name == "ttft_ms" and m.trial == 4))
    gate = gate_of(judged(ab(5, candidate=replace(run, measurements=lacking)), *PLAIN), "ttft_ms")
    assert (gate.outcome, gate.state) == ("fail", "missing")


def test_why_it_was_not_measured_is_said() -> None:
    """The side's own reason is in the sentence."""
    poor = without(record(("B",)), "evaluated_tokens")
    why = Unmeasured("evaluated_tokens", "B", "the reply has no `timings.prompt_n`")
    found = judged(ab(1, candidate=replace(poor, unmeasured=(why,))), *PLAIN)
    assert "the reply has no `timings.prompt_n`" in gate_of(found, "evaluated_tokens").reason


def test_a_value_that_changes_within_a_side_is_inconclusive() -> None:
    """Two launches of the baseline that disagree cannot be compared with."""
    run = with_values(record(("B",), 2), "prompt_tokens", 7, trials=(2,))
    gate = gate_of(judged(ab(2, baseline=run), *PLAIN), "prompt_tokens")
    assert gate.outcome == "inconclusive"
    assert "changes from launch to launch" in gate.reason


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_impossible_latencies_are_never_a_pass(value: float) -> None:
    """One such launch leaves the rest open and crashes nothing; the record can be written."""
    odd = with_values(record(("B",), 5), "ttft_ms", value, trials=(3,))
    found = judged(ab(5, candidate=odd), *PLAIN)
    assert gate_of(found, "ttft_ms").outcome != "pass"
    msgspec.json.decode(msgspec.json.encode(found.record.gates))


def test_an_interruption_keeps_what_was_decided() -> None:
    """The second pair had one launch only: the first decides what is exact."""
    changed = with_values(record(("B",)), "kv_mib", 32.0)
    unfinished = ab(1, candidate=changed, baseline=record(("B",), 2), interrupted=True)
    unfinished = replace(unfinished, turns=(*unfinished.turns, Turn(2, "baseline", "B")))
    found = judged(unfinished, *PLAIN)
    assert found.record.gates[0].outcome == "fail"
    assert gate_of(found, "prompt_tokens").outcome == "pass"
    assert gate_of(found, "ttft_ms").outcome == "inconclusive"
    assert found.record.verdict is not None
    assert found.record.verdict.exit_code == 130


def test_an_interruption_before_the_candidate_decides_nothing() -> None:
    """What it would have measured is not missing."""
    nothing = replace(record(("B",)), launches=(), measurements=())
    found = judged(ab(1, candidate=nothing, interrupted=True), *PLAIN)
    assert {g.outcome for g in found.record.gates} == {"inconclusive"}


@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_a_crash_of_either_side_is_the_servers(side: str) -> None:
    """Exit 4, and the side is named."""
    crash = Failure("crash", "the server died during turn 2", step="turn 2", healthy_before=True)
    dead = gate_example.failed(record(("B",)), "B", crash)
    found = judged(ab(1, **{side: dead}), *PLAIN)  # type: ignore[arg-type]
    assert found.record.verdict is not None
    assert found.record.verdict.exit_code == 4
    assert found.record.verdict.reasons[0].startswith(f"{side}, variant B, pair 1: ")
    assert f"on the {side} side the server crashed" in found.record.gates[0].reason
    assert why_end(found)


def test_a_known_crash_of_both_sides_is_expected() -> None:
    """It leaves nothing to compare and moves no exit code of the other variants."""
    issue = KnownIssue("U", "bug-207", "crash", "died")
    scenario = replace(gate_example.scenario(*PLAIN), known_issues=(issue,))
    crash = Failure("crash", "the server died during turn 2", healthy_before=True)
    dead = gate_example.failed(record(("B", "U")), "U", crash)
    found = judge_sides(scenario, ab(1, dead, dead, AbRules(exact=True)), platform="linux")
    assert {g.outcome for g in found.record.gates if g.variant == "U"} == {"xfail"}
    assert found.record.verdict is not None
    assert found.record.verdict.exit_code == 0


@pytest.mark.parametrize(("broken", "code"), [("candidate", 4), ("baseline", 1)])
def test_a_known_crash_of_one_side_alone_is_no_pass(broken: str, code: int) -> None:
    """New on the candidate it is a crash; gone from it, the entry is to be deleted."""
    issue = KnownIssue("U", "bug-207", "crash", "died")
    scenario = replace(gate_example.scenario(*PLAIN), known_issues=(issue,))
    crash = Failure("crash", "the server died during turn 2", healthy_before=True)
    sides = {"baseline": record(("B", "U")), "candidate": record(("B", "U"))}
    sides[broken] = gate_example.failed(sides[broken], "U", crash)
    both = ab(1, sides["baseline"], sides["candidate"], AbRules(exact=True))
    found = judge_sides(scenario, both, platform="linux").record.verdict
    assert found is not None
    assert found.exit_code == code
    words = f"failed on the {broken} side as a known issue expects"
    assert any(words in reason for reason in found.reasons)


@pytest.mark.parametrize(("lacks", "code"), [("candidate", 1), ("baseline", 3)])
def test_a_variant_that_one_side_cannot_run_is_no_pass(lacks: str, code: int) -> None:
    """A candidate that lost the flag fails; one that the baseline never had cannot be compared."""
    why = "this build has no flag 'kv-unified'"
    left_out = {
        side: replace(
            record(("B",)),
            not_applicable=(
                NotApplicable("U", why if side == lacks else f"on the {lacks} side: {why}"),
            ),
        )
        for side in ("baseline", "candidate")
    }
    both = ab(1, left_out["baseline"], left_out["candidate"], AbRules(exact=True))
    found = judged(both, *PLAIN).record.verdict
    assert found is not None
    assert found.exit_code == code
    assert f"variant U cannot run on the {lacks} side" in found.reasons[0]


def test_what_a_gate_leaves_out_is_compared_by_default() -> None:
    """Its condition may hold on one side only; the values are there all the same."""
    elsewhere = replace(PLAIN[0], when=When(deployment="prod"))
    other = with_values(record(("B",)), "kv_mib", 8.0)
    found = judged(ab(1, candidate=other, rules=AbRules(exact=True)), elsewhere)
    outcomes = [g.outcome for g in found.record.gates if g.metric == "kv_mib"]
    assert outcomes == ["not applicable", "fail"]


def test_the_scenarios_own_limits_hold_for_the_candidate() -> None:
    """And the baseline side's own failure is said, though it blocks nothing."""
    limit = GateSpec('rss_mib{at="end"}', max=60.0, line=27)
    found = judged(ab(1, rules=AbRules(exact=True)), limit)
    gate = next(g for g in found.record.gates if g.metric.startswith("rss_mib"))
    assert gate.outcome == "fail"
    assert "the baseline side fails it too: 61 MiB" in gate.reason
    mended = with_values(record(("B",)), "rss_mib", 50.0)
    found = judged(ab(1, candidate=mended, rules=AbRules(exact=True)), limit)
    gate = next(g for g in found.record.gates if g.metric.startswith("rss_mib"))
    assert gate.outcome == "pass"
    assert "the baseline side fails it: 61 MiB" in gate.reason
    assert found.record.verdict is not None
    assert found.record.verdict.exit_code == 0


def test_a_gates_own_tolerance_counts() -> None:
    """30% more is within 50%, which a gate allows; where none does the default counts."""
    wide = GateSpec('ttft_ms{session=~".*",turn=~".*"}', regression=Regression(50.0), line=1)
    bad = slower(record(("B",), 5), 1.3)
    assert gate_of(judged(ab(5, candidate=bad), wide), "ttft_ms").outcome == "pass"
    loose = AbRules(latency_percent=40.0)
    assert gate_of(judged(ab(5, candidate=bad, rules=loose), *PLAIN), "ttft_ms").outcome == "pass"


def test_vectors_are_held_against_the_other_side() -> None:
    """A gate on stored vectors becomes one on the baseline side's; without one 0.999 is asked."""

    def alike(value: float) -> Measurement:
        labels = {"against": "baseline", "request": "long"}
        return Measurement("logprob_cosine", value, "", "B", 1, labels)

    run = record(("B",))
    own = [replace(run, measurements=(*run.measurements, alike(v))) for v in (0.9985, 0.99)]
    stored = GateSpec('logprob_cosine{against="stored",request="long"}', min=0.998, line=1)
    assert gate_of(judged(ab(1, candidate=own[0]), stored), "logprob_cosine").outcome == "pass"
    assert gate_of(judged(ab(1, candidate=own[1]), stored), "logprob_cosine").outcome == "fail"
    assert gate_of(judged(ab(1, candidate=own[0]), *PLAIN), "logprob_cosine").outcome == "fail"
    within = replace(alike(1.0), labels={"against": "B", "request": "long"})
    lost = ab(1, candidate=replace(run, measurements=(*run.measurements, within)))
    for gates in ((stored,), PLAIN):
        assert gate_of(judged(lost, *gates), "logprob_cosine").outcome == "fail"


def test_a_variant_that_does_not_apply_is_listed() -> None:
    """With its reason, and judged by nobody."""
    reason = NotApplicable("U", "this build has no flag 'kv-unified'")
    run = replace(record(("B",)), not_applicable=(reason,))
    found = judged(ab(1, run, run, AbRules(exact=True)), *PLAIN)
    gates = [g for g in found.record.gates if g.variant == "U"]
    assert [(g.outcome, reason.reason in g.reason) for g in gates] == [("not applicable", True)]


def test_a_verdict_can_be_made_anew_from_the_saved_record() -> None:
    """Judging what was written gives the very same."""
    bad = slower(record(("B",), 5), 1.3)
    first = judged(ab(5, candidate=bad)).record
    saved = msgspec.json.decode(msgspec.json.encode(first), type=type(first))
    assert judged(saved).record == first


def _with_lag(run: RunRecord, share: float) -> RunRecord:
    """The run with our own client taking a share of the server's cores in every launch."""
    health = tuple(
        Measurement("client_cpu_share", share, "", one.variant, one.trial) for one in run.launches
    )
    return replace(run, measurements=(*run.measurements, *health))


@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_a_busy_client_makes_latency_inconclusive(side: str) -> None:
    """Whichever side it was busy on, and the figure is told; nothing else is doubted."""
    run = record(("B",), 5)
    sides = {"baseline": run, "candidate": slower(run, 1.3)}
    sides[side] = _with_lag(sides[side], 0.5)
    found = judged(ab(5, sides["baseline"], sides["candidate"]), *PLAIN)
    gate = gate_of(found, "ttft_ms")
    assert gate.outcome == "inconclusive"
    assert f"on the {side} side benchsuite was the bottleneck" in gate.reason
    assert "50%" in gate.reason
    assert gate_of(found, "anon_mib").outcome == "pass"
    calm = judged(ab(5, _with_lag(run, 0.05), slower(run, 1.3)), *PLAIN)
    assert gate_of(calm, "ttft_ms").outcome == "fail"


def test_an_unfit_machine_makes_a_failure_inconclusive() -> None:
    """Others took its cores: what failed may be theirs, what held did so in spite of them."""
    busy = MachineFinding(
        fact="others",
        value="1.6 of 2 cores",
        grade="warn",
        sentence="other programs took the cores",
        remedy="stop them",
        strikes=("latency",),
        voids=("latency",),
    )
    run = replace(
        record(("B",), 5), machine_state=MachineState(MachineReading(at_ns=0), findings=(busy,))
    )
    found = judged(ab(5, run, slower(run, 1.3)), *PLAIN)
    assert gate_of(found, "ttft_ms").outcome == "inconclusive"
    assert "other programs took the cores" in gate_of(found, "ttft_ms").reason
    held = judged(ab(5, run, run), *PLAIN)
    assert gate_of(held, "ttft_ms").outcome == "pass"
