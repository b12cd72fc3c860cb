"""Every gate over a record: what applies, what holds, and what is said where not."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchsuite.errors import ScenarioError
from benchsuite.gate.judge import judge
from benchsuite.gate.verdict import verdict
from benchsuite.model.record import Failure, Measurement, NotApplicable, RunRecord, Unmeasured
from benchsuite.model.scenario import GateSpec, Regression, SameAs, When
from benchsuite.model.verdict import GateResult, Level
from benchsuite.store.accept import accept
from benchsuite.store.baselines import Baselines, load_baselines
from tests.unit.gate import gate_example as example

KV = GateSpec("kv_mib", equals_baseline=True, line=7)
CACHED = GateSpec('cached_tokens{session="A",turn="2"}', equals_baseline=True, line=8)
TTFT = 'ttft_ms{session="A",turn="2"}'  # of one launch: too few to tell
replace = msgspec.structs.replace


def baselines_of(run: RunRecord, folder: Path, candidate: RunRecord | None = None) -> Baselines:
    """The baselines that a run's acceptance leaves, as a candidate finds them."""
    judged = replace(run, verdict=verdict(run, ()), gates=())
    accept(judged, folder, reason="test", environ={})
    return found_in(folder, candidate or run)


def found_in(folder: Path, run: RunRecord) -> Baselines:
    """The baselines in a folder for a run."""
    print_of = run.fingerprint
    return load_baselines([folder], print_of.deployment, run.scenario, print_of)


def judge_one(
    gate: GateSpec, run: RunRecord, baselines: Baselines, *, variant: str = "B", **options: bool
) -> GateResult:
    """The result of one gate in one variant."""
    results = judge(example.scenario(gate), run, baselines, platform="linux", **options)
    return next(r for r in results if r.variant == variant)


@pytest.fixture
def run() -> RunRecord:
    """A healthy run of three variants."""
    return example.record()


@pytest.fixture
def stored(run: RunRecord, tmp_path: Path) -> Baselines:
    """The healthy run's own baselines."""
    return baselines_of(run, tmp_path)


def test_a_healthy_run_passes_every_gate(run: RunRecord, stored: Baselines) -> None:
    """Each gate applies to its variants, its own reference excepted."""
    results = judge(example.scenario(), run, stored, platform="linux")
    assert {r.outcome for r in results if r.level == "block"} == {"pass"}
    assert {r.metric for r in results if r.outcome != "pass"} == {TTFT}
    same_as = [r.variant for r in results if r.rule == "same as variant B"]
    assert "B" not in same_as
    limited = [r.variant for r in results if r.rule == "at least 1190 tokens"]
    assert limited == ["B", "U"]


def test_a_change_names_what_differs_and_how_to_accept_it(
    run: RunRecord, stored: Baselines
) -> None:
    """The likely cause comes from the recorded build and flags."""
    changed = example.with_values(run, "kv_mib", 12.25)
    flags = {v: {**example.FLAGS, "cache-type-k": "q8_0"} for v in "BUP"}
    changed = replace(changed, info=replace(run.info, build="b10440", flags=flags))
    found = judge_one(KV, changed, stored)
    assert (found.outcome, found.state, found.level) == ("fail", "changed", "block")
    assert found.differs == ("build b10434 -> b10440", "cache-type-k f16 -> q8_0")
    assert "cache-type-k f16 -> q8_0" in found.reason
    assert "benchsuite accept 5eed0001 --metric kv_mib --reason WHY" in found.reason
    assert (found.expected, found.observed) == ("16 MiB", "12.25 MiB")


def test_an_unexplained_change_says_that_nothing_differs(run: RunRecord, stored: Baselines) -> None:
    """A wrapper that adds a flag is not recorded, so no cause is made up."""
    found = judge_one(KV, example.with_values(run, "kv_mib", 12.25), stored)
    assert "though build, model, flags and environment are those of the baseline" in found.reason


def test_a_port_is_no_difference(run: RunRecord, stored: Baselines) -> None:
    """Flags that differ from run to run are never named."""
    flags = {v: {**example.FLAGS, "port": "40001"} for v in "BUP"}
    changed = replace(example.with_values(run, "kv_mib", 1.0), info=replace(run.info, flags=flags))
    assert judge_one(KV, changed, stored).differs == ()


def test_no_config_baseline_at_all_is_inconclusive(run: RunRecord, tmp_path: Path) -> None:
    """With the command that accepts one."""
    found = judge_one(KV, run, found_in(tmp_path, run))
    assert (found.outcome, found.level) == ("inconclusive", "block")
    assert "no baseline" in found.reason
    assert "benchsuite accept 5eed0001" in found.reason


@pytest.mark.parametrize(
    "gate",
    [
        GateSpec('kv_mib{device="CPU"}', equals_baseline=True),
        GateSpec('anon_mib{at="end"}', regression=Regression(5)),
    ],
)
def test_no_baseline_of_the_other_scopes_advises(
    gate: GateSpec, run: RunRecord, tmp_path: Path
) -> None:
    """A fresh machine is not held to baselines that it never had."""
    found = judge_one(gate, run, found_in(tmp_path, run))
    assert (found.outcome, found.level) == ("inconclusive", "advise")


def test_a_numerics_baseline_under_another_key_blocks_as_inconclusive(
    run: RunRecord, stored: Baselines, tmp_path: Path
) -> None:
    """A new backend must not turn a gate off; the field that differs is named."""
    moved = replace(run, fingerprint=replace(run.fingerprint, numerics="vulkan amd"))
    gate = GateSpec('kv_mib{device="CPU"}', equals_baseline=True)
    found = judge_one(gate, moved, found_in(tmp_path, moved))
    assert (found.outcome, found.level) == ("inconclusive", "block")
    assert "numerics: 'cpu avx2' in the baseline, 'vulkan amd' here" in found.reason
    assert stored.of("numerics").state == "matching"


def test_another_seed_is_inconclusive_and_named(
    run: RunRecord, stored: Baselines, tmp_path: Path
) -> None:
    """The seed is part of every key."""
    reseeded = replace(run, fingerprint=replace(run.fingerprint, seed=7))
    found = judge_one(KV, reseeded, found_in(tmp_path, reseeded))
    assert found.outcome == "inconclusive"
    assert "seed: 0 in the baseline, 7 here" in found.reason
    assert stored.of("config").state == "matching"


def test_another_digest_is_inconclusive(run: RunRecord, stored: Baselines) -> None:
    """A scenario that does something else cannot be compared, for that variant only."""
    edited = replace(run, digests={**run.digests, "B": "another"})
    found = judge_one(KV, edited, stored)
    assert found.outcome == "inconclusive"
    assert "accept anew" in found.reason
    assert judge_one(KV, edited, stored, variant="U").outcome == "pass"


def test_a_value_that_the_baseline_lacks_is_new(run: RunRecord, tmp_path: Path) -> None:
    """It fails, unless new values are allowed."""
    stored = baselines_of(example.without(run, "kv_mib"), tmp_path, run)
    found = judge_one(KV, run, stored)
    assert (found.outcome, found.state) == ("fail", "new")
    assert "--allow-new" in found.reason
    allowed = judge_one(KV, run, stored, allow_new=True)
    assert (allowed.outcome, allowed.state) == ("pass", "new")


def test_a_variant_that_the_baseline_lacks_is_new(run: RunRecord, tmp_path: Path) -> None:
    """Also where other variants are in the file."""
    stored = baselines_of(example.record(("B",)), tmp_path, run)
    assert judge_one(KV, run, stored, variant="U").state == "new"


def test_a_value_that_only_the_baseline_has_is_missing(run: RunRecord, stored: Baselines) -> None:
    """A selector that still matches others does not hide it."""
    cut = [m for m in run.measurements if m.labels.get("turn") != "2"]
    gate = GateSpec('cached_tokens{session="A",turn=~".*"}', equals_baseline=True)
    found = judge_one(gate, replace(run, measurements=tuple(cut)), stored)
    assert (found.outcome, found.state, found.observed) == ("fail", "missing", "nothing")
    assert 'turn="2"' in found.reason


def test_a_selector_that_matches_nothing_fails(run: RunRecord, stored: Baselines) -> None:
    """Labels that the metric was not measured with are named."""
    gate = GateSpec('cached_tokens{request="x"}', min=1, line=9)
    found = judge_one(gate, run, stored)
    assert (found.outcome, found.state) == ("fail", "missing")
    assert "cached_tokens was measured with session, turn" in found.reason


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [("missing", "fail"), ("inconclusive", "inconclusive"), ("not_applicable", "not applicable")],
)
def test_what_was_not_measured_says_why(
    run: RunRecord, stored: Baselines, outcome: str, expected: str
) -> None:
    """The collector's reason decides and is passed on."""
    why = msgspec.convert(
        {"name": "kv_mib", "variant": "B", "reason": "no KV lines", "outcome": outcome},
        Unmeasured,
    )
    bare = replace(example.without(run, "kv_mib"), unmeasured=(why,))
    found = judge_one(KV, bare, stored)
    assert found.outcome == expected
    assert "no KV lines" in found.reason
    if expected != "not applicable":
        assert found.expected == "16 MiB"


def test_every_selected_series_must_hold(run: RunRecord, stored: Baselines) -> None:
    """One of four below the limit fails the gate and is named."""
    gate = GateSpec('prompt_tokens{session=~".*",turn=~".*"}', min=1300, variants=("B",))
    found = judge_one(gate, run, stored)
    assert found.outcome == "fail"
    assert "2 of 4" in found.reason
    assert 'turn="1"' in found.reason
    assert (found.expected, found.observed) == (">= 1300", "1260 tokens")


def test_a_trial_without_the_value_fails_as_missing(run: RunRecord, tmp_path: Path) -> None:
    """Two of three trials are not enough."""
    three = example.record(("B",), trials=3)
    cut = [m for m in three.measurements if not (m.name == "kv_mib" and m.trial == 2)]
    found = judge_one(KV, replace(three, measurements=tuple(cut)), found_in(tmp_path, run))
    assert (found.outcome, found.state) == ("fail", "missing")
    assert "1 of 3 trials" in found.reason


def test_one_deviating_trial_changes(tmp_path: Path) -> None:
    """Against a baseline whose trials agreed."""
    three = example.record(("B",), trials=3)
    stored = baselines_of(three, tmp_path)
    odd = example.with_values(three, "cached_tokens", 9, trials=[2], labels={"turn": "2"})
    found = judge_one(CACHED, odd, stored)
    assert "changed (1 of 3) from 1216 tokens to 9 tokens" in found.reason


def test_a_baseline_that_disagrees_with_itself_is_inconclusive(tmp_path: Path) -> None:
    """It asks for a run whose trials agree."""
    three = example.record(("B",), trials=3)
    odd = example.with_values(three, "cached_tokens", 9, trials=[2], labels={"turn": "2"})
    found = judge_one(CACHED, three, baselines_of(odd, tmp_path, three))
    assert found.outcome == "inconclusive"
    assert "accept a run whose trials agree" in found.reason


def test_another_session_can_be_the_reference(run: RunRecord, stored: Baselines) -> None:
    """`same_as: {session: A}` compares like turns; the session itself is skipped."""
    gate = GateSpec(
        'cached_tokens{session=~".*",turn="2"}', same_as=SameAs(session="A"), variants=("B",)
    )
    assert judge_one(gate, run, stored).outcome == "pass"
    uneven = example.with_values(run, "cached_tokens", 3, labels={"session": "B", "turn": "2"})
    found = judge_one(gate, uneven, stored)
    assert (found.outcome, found.expected, found.observed) == ("fail", "1216 tokens", "3 tokens")


def test_another_request_can_be_the_reference(run: RunRecord, stored: Baselines) -> None:
    """`same_as: {request: one}` compares raw requests of one variant; the reference is skipped."""
    gate = GateSpec('text{request=~".*"}', same_as=SameAs(request="one"), variants=("B",))

    def judged(**texts: str) -> GateResult:
        found = [Measurement("text", t, "", "B", 1, {"request": name}) for name, t in texts.items()]
        return judge_one(gate, replace(run, measurements=tuple(found)), stored)

    assert judged(one="alpha", two="alpha").outcome == "pass"
    assert judged(one="alpha", two="alba").outcome == "fail"
    assert judged(two="alpha").outcome == "fail"
    assert judged(one="alpha").outcome == "inconclusive"


def test_texts_that_part_fail_with_the_place(run: RunRecord, stored: Baselines) -> None:
    """Variant U against B."""
    gate = GateSpec('text{session=~".*",turn=~".*"}', same_as=SameAs(variant="B"))
    other = example.with_values(
        run, "text", "alpha zeta", variants=["U"], labels={"session": "A", "turn": "1"}
    )
    found = judge_one(gate, other, stored, variant="U")
    assert found.outcome == "fail"
    assert "at character 7" in found.reason
    assert found.against == "run"


def test_what_only_the_reference_variant_has_is_missing(run: RunRecord, stored: Baselines) -> None:
    """A variant that lost a turn does not pass for the turns that it has."""
    gate = GateSpec('text{session=~".*",turn=~".*"}', same_as=SameAs(variant="B"))
    cut = [m for m in run.measurements if not (m.variant == "U" and m.labels.get("turn") == "2")]
    found = judge_one(gate, replace(run, measurements=tuple(cut)), stored, variant="U")
    assert (found.outcome, found.state) == ("fail", "missing")


def test_a_reference_variant_that_did_not_run_is_inconclusive(
    run: RunRecord, stored: Baselines
) -> None:
    """The reason names the option that runs it."""
    gate = GateSpec("kv_mib", same_as=SameAs(variant="B"))
    only_u = example.record(("U",))
    found = judge_one(gate, only_u, stored, variant="U")
    assert found.outcome == "inconclusive"
    assert "--variant B" in found.reason


CRASH = Failure("crash", "the server died", step="turn 2 of session A", healthy_before=True)


def test_a_failed_launch_makes_its_gates_errors(run: RunRecord, stored: Baselines) -> None:
    """Each names its metric and the step; other variants are judged, and those compared with it
    are errors too."""
    crashed = example.failed(run, "B", CRASH)
    results = judge(example.scenario(), crashed, stored, platform="linux")
    own = [r for r in results if r.variant == "B"]
    assert {r.outcome for r in own} == {"error"}
    assert all(r.metric in r.reason and "turn 2 of session A" in r.reason for r in own)
    others = [r for r in results if r.variant != "B"]
    assert {r.outcome for r in others if r.against == "run"} == {"error"}
    left = [r for r in others if r.against != "run" and r.metric != TTFT]
    assert {r.outcome for r in left} == {"pass"}


def test_a_variant_that_never_started_is_an_error(run: RunRecord, stored: Baselines) -> None:
    """Nothing becomes not applicable because something went wrong."""
    stopped = replace(run, launches=run.launches[:1], measurements=run.measurements[:20])
    assert judge_one(KV, stopped, stored, variant="P").outcome == "error"


def test_an_interrupted_run_keeps_what_was_decided(run: RunRecord, stored: Baselines) -> None:
    """Variants that were not reached are inconclusive."""
    kept = [m for m in run.measurements if m.variant == "B"]
    cut = replace(run, launches=run.launches[:1], measurements=tuple(kept), interrupted=True)
    assert judge_one(KV, cut, stored).outcome == "pass"
    found = judge_one(KV, cut, stored, variant="U")
    assert found.outcome == "inconclusive"
    assert "interrupted" in found.reason


def test_what_an_interrupted_variant_did_not_come_to_is_no_failure(
    run: RunRecord, stored: Baselines
) -> None:
    """Half of a variant was measured; the other half is undecided, in each kind of gate."""
    kept = [m for m in run.measurements if m.labels.get("turn") != "2"]
    assert len(kept) < len(run.measurements)
    cut = replace(run, measurements=tuple(kept), interrupted=True)
    for result in judge(example.scenario(), cut, stored, platform="linux"):
        assert result.outcome in ("pass", "inconclusive"), result


def test_a_variant_that_cannot_run_here_lists_its_gates(run: RunRecord, stored: Baselines) -> None:
    """With the reason, also where it is the reference of another."""
    away = replace(
        example.record(("U",)), not_applicable=(NotApplicable("B", "needs a CUDA device"),)
    )
    results = judge(example.scenario(), away, stored, platform="linux")
    assert {r.outcome for r in results if r.variant == "B"} == {"not applicable"}
    against_b = [r for r in results if r.variant == "U" and r.against == "run"]
    assert {r.outcome for r in against_b} == {"not applicable"}
    assert all("needs a CUDA device" in r.reason for r in against_b)


@pytest.mark.parametrize(
    ("when", "outcome"),
    [
        (When(attention="full"), "pass"),
        (When(attention="sliding_window"), "not applicable"),
        (When(sliding_window=True), "not applicable"),
        (When(sliding_window=False, recurrent=False), "pass"),
        (When(recurrent=True), "not applicable"),
        (When(backend="CPU"), "pass"),
        (When(backend="cpu"), "pass"),
        (When(backend="CUDA"), "not applicable"),
        (When(deployment="tiny"), "pass"),
        (When(deployment="prod"), "not applicable"),
    ],
)
def test_conditions_are_facts_of_model_and_place(
    run: RunRecord, stored: Baselines, when: When, outcome: str
) -> None:
    """Where one does not hold, the gate is listed with the reason."""
    found = judge_one(replace(KV, when=when), run, stored)
    assert found.outcome == outcome
    assert found.reason


@pytest.mark.parametrize("when", [When(attention="full"), When(backend="CPU")])
@pytest.mark.parametrize(
    ("kind", "outcome"), [("binary", "inconclusive"), ("attached", "not applicable")]
)
def test_a_condition_that_cannot_be_told(
    run: RunRecord, stored: Baselines, when: When, kind: str, outcome: str
) -> None:
    """Inconclusive for a server of ours, not applicable for someone else's."""
    bare = msgspec.convert({"kind": kind}, type(run.launches[0].server))
    blind = replace(run, launches=tuple(replace(item, server=bare) for item in run.launches))
    assert judge_one(replace(KV, when=when), blind, stored).outcome == outcome


def test_needs_decide_by_platform_and_ownership(run: RunRecord, stored: Baselines) -> None:
    """Elsewhere the gate is not applicable."""
    gate = GateSpec('rss_mib{at="end"}', max=400, needs="linux")
    results = judge(example.scenario(gate), run, stored, platform="darwin")
    assert {r.outcome for r in results} == {"not applicable"}


@pytest.mark.parametrize(
    ("gate", "level", "outcome"),
    [
        (GateSpec('anon_mib{at="end"}', regression=Regression(1)), "advise", "fail"),
        (
            GateSpec('anon_mib{at="end"}', regression=Regression(1), level="block"),
            "block",
            "inconclusive",
        ),
        (GateSpec('anon_mib{at="end"}', max=10), "block", "fail"),
        (GateSpec('anon_mib{at="end"}', max=10, level="advise"), "advise", "fail"),
    ],
)
def test_memory_blocks_against_limits_only(
    run: RunRecord, stored: Baselines, gate: GateSpec, level: str, outcome: str
) -> None:
    """Against a baseline it advises until launches are enough; asked to block, it is undecided."""
    grown = example.with_values(run, "anon_mib", 99.0)
    found = judge_one(gate, grown, stored)
    assert (found.level, found.outcome) == (level, outcome)


@pytest.mark.parametrize(
    "gate",
    [
        GateSpec("no_such_metric", min=1, line=3),
        GateSpec("kv_mib{", min=1, line=3),
        GateSpec('text{session="A",turn="1"}', min=1, line=3),
    ],
)
def test_an_impossible_gate_is_an_error_at_its_line(
    run: RunRecord, stored: Baselines, gate: GateSpec
) -> None:
    """For scenarios that were not checked before."""
    with pytest.raises(ScenarioError, match=r"scenarioB.yaml:3: "):
        judge(example.scenario(gate), run, stored)


def test_equals_takes_numbers_and_text(run: RunRecord, stored: Baselines) -> None:
    """Each compared in its own kind."""
    number = GateSpec('cached_tokens{session="A",turn="1"}', equals=0.0)
    text = GateSpec('text{session="A",turn="1"}', equals="alpha beta")
    assert judge_one(number, run, stored).outcome == "pass"
    assert judge_one(text, run, stored).outcome == "pass"
    assert judge_one(replace(text, equals="alpha"), run, stored).outcome == "fail"


def launches_of(run: RunRecord, name: str, values: dict[int, float]) -> RunRecord:
    """A run of as many trials, in which each metric of this name has these values."""
    first = [m for m in run.measurements if m.trial == 1]
    measured = [
        replace(m, trial=trial, value=values[trial] if m.name == name else m.value)
        for trial in values
        for m in first
    ]
    launches = [replace(one, trial=t) for t in values for one in run.launches if one.trial == 1]
    return replace(run, trials=len(values), measurements=tuple(measured), launches=tuple(launches))


_FIVE = {1: 100.0, 2: 101.0, 3: 99.0, 4: 100.5, 5: 99.5}


@pytest.mark.parametrize(
    ("factor", "level", "outcome", "got"),
    [
        (1.2, "block", "fail", "block"),
        (1.2, None, "fail", "advise"),
        (1.0, "block", "pass", "block"),
        (1.1, "block", "inconclusive", "block"),
    ],
)
def test_latency_against_a_baseline_blocks_where_asked(
    run: RunRecord, tmp_path: Path, factor: float, level: Level | None, outcome: str, got: str
) -> None:
    """With five launches a side it has an interval; without `level: block` it advises."""
    stored = baselines_of(launches_of(run, "ttft_ms", _FIVE), tmp_path)
    slower = launches_of(run, "ttft_ms", {t: v * factor for t, v in _FIVE.items()})
    gate = GateSpec(TTFT, regression=Regression(10), level=level, line=9)
    result = judge_one(gate, slower, stored)
    assert (result.outcome, result.level) == (outcome, got)
    assert result.estimate is not None
    assert (result.estimate.baseline_n, result.estimate.candidate_n) == (5, 5)


def test_memory_against_a_baseline_blocks_from_three_launches(
    run: RunRecord, tmp_path: Path
) -> None:
    """Two only advise, three block, and the estimate tells the difference in MiB."""
    stored = baselines_of(launches_of(run, "anon_mib", _FIVE), tmp_path)
    gate = GateSpec('anon_mib{at="end"}', regression=Regression(5, 16), line=9)
    for count, level in ((2, "advise"), (3, "block")):
        more = launches_of(run, "anon_mib", dict.fromkeys(range(1, count + 1), 140.0))
        result = judge_one(gate, more, stored)
        assert (result.outcome, result.level, result.state) == ("fail", level, "regressed")
        assert result.estimate is not None
        assert result.estimate.value == 40


def test_of_several_series_the_worst_estimate_is_kept(run: RunRecord, stored: Baselines) -> None:
    """One gate over many series tells which one it shows."""
    gate = GateSpec('ttft_ms{session=~".*",turn=~".*"}', max=1e6, line=9)
    result = judge_one(gate, run, stored)
    assert result.outcome == "pass"
    assert result.estimate is not None
    assert "the worst of" in result.estimate.warnings[0]


@pytest.mark.parametrize("now", [40.0, 41.5, 140.0])
def test_memory_that_must_block_is_undecided_by_few_launches(
    run: RunRecord, tmp_path: Path, now: float
) -> None:
    """Better, equal or worse: it blocks, and the command that mends it is that of the side."""
    gate = GateSpec('anon_mib{at="end"}', regression=Regression(5, 16), level="block", line=9)
    many = launches_of(run, "anon_mib", dict.fromkeys(range(1, 6), now))
    one = baselines_of(launches_of(run, "anon_mib", {1: 41.5}), tmp_path / "one")
    found = judge_one(gate, many, one)
    assert (found.outcome, found.level) == ("inconclusive", "block")
    assert "advice only" not in found.reason
    assert "accept a baseline of 3 or more launches" in found.reason
    assert "benchsuite run scenarioB --trials 3" in found.reason
    assert "benchsuite accept last --reason WHY" in found.reason
    assert "then run this one" not in found.reason
    both = judge_one(gate, launches_of(run, "anon_mib", {1: now}), one)
    assert "then run this one with --trials 3 too" in both.reason
    three = baselines_of(launches_of(run, "anon_mib", dict.fromkeys((1, 2, 3), 41.5)), tmp_path)
    ours = judge_one(gate, launches_of(run, "anon_mib", {1: now}), three)
    assert ours.outcome == "inconclusive"
    assert "repeat it with 3 launches or more" in ours.reason
    assert judge_one(gate, many, three).outcome == ("fail" if now > 100 else "pass")


def test_an_exact_value_with_a_tolerance_blocks_with_one_launch(
    run: RunRecord, stored: Baselines
) -> None:
    """It does not vary: 10% fewer cached tokens are a failure, not an advice."""
    gate = GateSpec('cached_tokens{session="A",turn="2"}', regression=Regression(5), line=9)
    held = judge_one(gate, run, stored)
    assert (held.outcome, held.level) == ("pass", "block")
    fewer = example.with_values(run, "cached_tokens", 1)
    found = judge_one(gate, fewer, stored)
    assert (found.outcome, found.level) == ("fail", "block")
    assert "advice" not in found.reason


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    "gate",
    [
        GateSpec('anon_mib{at="end"}', max=100.0, line=9),
        GateSpec('anon_mib{at="end"}', regression=Regression(5, 16), level="block", line=9),
        GateSpec('anon_mib{at="end"}', equals=41.5, line=9),
    ],
)
def test_memory_that_no_server_has_is_not_judged(
    run: RunRecord, tmp_path: Path, gate: GateSpec, value: float
) -> None:
    """In any launch, on either side; the sentence names no odd number as a value."""
    good = dict.fromkeys(range(1, 6), 41.5)
    stored = baselines_of(launches_of(run, "anon_mib", good), tmp_path)
    for odd in ({**good, 3: value}, dict.fromkeys(good, value)):
        found = judge_one(gate, launches_of(run, "anon_mib", odd), stored)
        assert (found.outcome, found.level) == ("inconclusive", "block")
        assert "nan" not in found.reason.replace("finite", "")


def test_latency_below_zero_keeps_no_limit(run: RunRecord, stored: Baselines) -> None:
    """No reply comes before its request; 0 may be read of a coarse clock."""
    gate = GateSpec('ttft_ms{session=~".*",turn=~".*"}', max=1e6, line=9)
    below = example.with_values(run, "ttft_ms", -1.0)
    assert judge_one(gate, below, stored).outcome == "inconclusive"
    assert judge_one(gate, example.with_values(run, "ttft_ms", 0.0), stored).outcome == "pass"
