"""What a sweep makes of its stages: made-up servers of a known knee."""

from __future__ import annotations

import asyncio

import pytest

from benchsuite.client.reply import Reply, Stamps, Timings
from benchsuite.drive.served import Load, Stage
from benchsuite.drive.tally import Tally
from benchsuite.model.load import Arrivals, Objective, SweepSummary
from benchsuite.model.record import Measurement, Unmeasured
from benchsuite.model.scenario import LoadStep, PromptSpec, SweepStep
from benchsuite.pipeline.sweep import BELOW_OFFERED, SweepClimber

MS = 1_000_000
LOAD = LoadStep("s", 100, 1, PromptSpec(tokens=9))
GOAL = Objective("ttft_ms", "0.95", 250.0)


def closed(
    level: float, *, at_once: int = 4, count: int = 100, cpu: float = 0.1, held_ms: float = 0.0
) -> Stage:
    """A server that serves so many at once for 100 ms each; others wait."""
    took = round(100 * MS * max(1.0, level / at_once))
    tally = Tally(objectives=[GOAL])
    for number in range(count):
        stamps = Stamps(
            number - round(held_ms * MS),
            number + 1,
            first_token_ns=number + took,
            end_ns=number + took + 2 * MS,
            let_go_ns=number + 1 if held_ms else 0,
        )
        tally.sending(0, warm_up=False)
        reply = Reply("x", "x", 1, 0, 1, 1, 0, "stop", False, Timings(), stamps, (0,))
        tally.take(reply, number, warm_up=False)
    wall_ns = round(count / min(level, at_once) * 100 * MS)
    return Stage(level, Load("s", tally, wall_ns, stage=f"{level:g}"), cpu)


def offered(level: float, *, carried: float) -> Stage:
    """An open loop of 100 requests that the server takes one by one, each for 20 ms once taken."""
    tally = closed(1).load.tally
    wall_ns = round(100 / min(level, carried) * 1000 * MS)
    waiting = max(0, round(100 * (1 - carried / level)))
    done = Load("s", tally, wall_ns, is_open=True, stage=f"{level:g}", asked_per_second=level)
    return Stage(level, done, 0.1, waiting // 2, waiting)


def swept(
    step: SweepStep, *, capped: bool = False, **how: float
) -> tuple[dict[str, Measurement | Unmeasured], SweepSummary]:
    """What the sweep as a whole came to."""
    found: list[Measurement | Unmeasured] = []
    kept: list[SweepSummary] = []
    climber = SweepClimber(step, "V", 1, found.append, kept.append, capped=capped)
    while (level := climber.next()) is not None:
        asyncio.run(climber.take(closed(level, **how)))  # type: ignore[arg-type]
    climber.finish()
    return {one.name: one for one in found if "stage" not in one.labels}, kept[0]


def value(one: Measurement | Unmeasured) -> float | str:
    """Of what was measured."""
    assert isinstance(one, Measurement), one
    return one.value


def test_a_list_stops_at_saturation_and_knows_the_knee() -> None:
    """At 8 throughput is that of 4 and latency twice as high, so 16 is not driven."""
    values, summary = swept(SweepStep(LOAD, "concurrency", (1, 2, 4, 8, 16), None, (GOAL,)))
    assert [one.stage for one in summary.stages] == ["1", "2", "4", "8"]
    assert "over-saturated at 8" in summary.ended
    assert any("over-saturated at 8" in one for one in summary.warnings)
    assert value(values["knee_load"]) == 4
    # the limit of 250 ms is met at 8 too, but the server does not carry them
    assert summary.stages[-1].verdict == "met"
    assert value(values["highest_load"]) == 4
    assert value(values["goodput_requests_per_second"]) == 40.0


def test_a_search_finds_the_highest_level_that_meets_the_objectives() -> None:
    """A limit of 130 ms is met by up to 5 users."""
    goal = Objective("ttft_ms", "0.95", 130.0)
    values, summary = swept(SweepStep(LOAD, "concurrency", (), (1.0, 64.0), (goal,)))
    assert [one.stage for one in summary.stages] == ["1", "2", "4", "8", "6", "5"]
    assert value(values["highest_load"]) == 5
    assert summary.ended == "the server is over-saturated at 6, 5 met them"


def test_without_a_stage_that_met_the_objectives_nothing_is_measured() -> None:
    """It is no 0, and the reason says what was seen."""
    goal = Objective("ttft_ms", "0.95", 50.0)
    values, summary = swept(SweepStep(LOAD, "concurrency", (), (1.0, 64.0), (goal,)))
    assert [one.verdict for one in summary.stages] == ["not met"]
    for name in ("highest_load", "goodput_requests_per_second", "knee_load"):
        assert isinstance(values[name], Unmeasured)
    assert "p95 ttft_ms at most 50" in values["highest_load"].reason  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["values", "search"])
def test_an_over_saturated_level_is_no_highest_load(kind: str) -> None:
    """However soon it answers those of its requests that it lets in."""
    load = LoadStep("s", 100, 1, PromptSpec(tokens=9), arrivals=Arrivals("constant", 80.0))
    values = (10.0, 80.0) if kind == "values" else ()
    step = SweepStep(load, "rate", values, None if values else (10.0, 80.0), (GOAL,))
    found: list[Measurement | Unmeasured] = []
    kept: list[SweepSummary] = []
    climber = SweepClimber(step, "V", 1, found.append, kept.append)
    while (level := climber.next()) is not None:
        asyncio.run(climber.take(offered(level, carried=25.0)))
    climber.finish()
    whole = {one.name: one for one in found if "stage" not in one.labels}
    assert {one.verdict for one in kept[0].stages} == {"met"}
    best = float(value(whole["highest_load"]))
    assert best == 10.0 if values else 20.0 <= best <= 25.0 / BELOW_OFFERED
    good = value(whole["goodput_requests_per_second"])
    assert good == pytest.approx(min(best, 25.0), rel=0.01)


def test_a_sweep_that_is_over_saturated_throughout_has_no_highest_load() -> None:
    """The reason is that, and not an objective that was met."""
    load = LoadStep("s", 100, 1, PromptSpec(tokens=9), arrivals=Arrivals("constant", 80.0))
    found: list[Measurement | Unmeasured] = []
    step = SweepStep(load, "rate", (80.0,), None, (GOAL,))
    climber = SweepClimber(step, "V", 1, found.append, lambda _: None)
    asyncio.run(climber.take(offered(80.0, carried=25.0)))
    climber.finish()
    whole = {one.name: one for one in found if "stage" not in one.labels}
    for name in ("highest_load", "goodput_requests_per_second"):
        missing = whole[name]
        assert isinstance(missing, Unmeasured)
        assert "80 over-saturated: 25 requests a second of 80 offered" in missing.reason


def test_too_few_requests_and_a_busy_client_are_uncertain() -> None:
    """The search goes no higher, and says why."""
    step = SweepStep(LOAD, "concurrency", (), (1.0, 64.0), (GOAL,))
    for how, words in (({"count": 20}, "too few"), ({"cpu": 0.97}, "our own client was the limit")):
        values, summary = swept(step, **how)
        assert [one.verdict for one in summary.stages] == ["uncertain"]
        assert isinstance(values["highest_load"], Unmeasured)
        assert any(words in one and "goes no higher" in one for one in summary.warnings)


@pytest.mark.parametrize("goals", [(GOAL,), ()])
def test_a_capped_rate_is_not_taken_for_the_server(goals: tuple[Objective, ...]) -> None:
    """What the cap held back is no saturation and no knee, meets nothing, and ends a list."""
    step = SweepStep(LOAD, "concurrency", (1, 2, 4, 8), None, goals)
    values, summary = swept(step, capped=True, held_ms=50)
    (stage,) = summary.stages
    assert stage.saturated == ""
    assert stage.verdict == ("uncertain" if goals else None)
    assert "cap of the request rate held requests back, 50 ms on average" in stage.why
    assert summary.ended.startswith("the cap of the request rate held requests back at 1; the")
    assert isinstance(values["knee_load"], Unmeasured)
    assert "; at 1 the cap of the request rate held requests back" in values["knee_load"].reason
    _, free = swept(step, capped=False, held_ms=50)
    assert len(free.stages) == 4


@pytest.mark.parametrize("goals", [(GOAL,), ()])
def test_what_our_client_cannot_follow_is_laid_to_no_server(goals: tuple[Objective, ...]) -> None:
    """Not as saturation, knee or highest load: what was seen below is a bound, in words."""
    step = SweepStep(LOAD, "concurrency", (1, 2, 4, 8, 16), None, goals)
    found: list[Measurement | Unmeasured] = []
    kept: list[SweepSummary] = []
    climber = SweepClimber(step, "V", 1, found.append, kept.append)
    while (level := climber.next()) is not None:
        asyncio.run(climber.take(closed(level, cpu=0.99 if level >= 4 else 0.2)))
    climber.finish()
    assert [one.saturated for one in kept[0].stages] == [""] * 5
    words = "our own client was the limit: it took 99% of a core"
    assert [words in one.why for one in kept[0].stages] == [False, False, True, True, True]
    assert any(words in one for one in kept[0].warnings)
    assert kept[0].ended == "all levels were driven; our own client limited 3 of them"
    whole = {one.name: one for one in found if "stage" not in one.labels}
    for name in ("highest_load", "knee_load"):
        one = whole[name]
        assert isinstance(one, Unmeasured), one
        if goals or name == "knee_load":
            assert f"at 4 {words}" in one.reason
    if goals:
        assert "it is at least 2" in whole["highest_load"].reason  # type: ignore[union-attr]


def test_a_level_that_our_client_limited_is_no_measure_of_saturation() -> None:
    """What came of it was our pace; nor has it a goodput."""
    step = SweepStep(LOAD, "concurrency", (4, 8), None, (GOAL,))
    found: list[Measurement | Unmeasured] = []
    kept: list[SweepSummary] = []
    climber = SweepClimber(step, "V", 1, found.append, kept.append)
    for level, cpu in ((4, 0.99), (8, 0.2)):
        asyncio.run(climber.take(closed(level, cpu=cpu)))
    climber.finish()
    assert [one.saturated for one in kept[0].stages] == ["", ""]
    (first,) = [one for one in found if one.labels.get("stage") == "4"]
    assert isinstance(first, Unmeasured)
    assert "our own client" in first.reason


def test_what_is_offered_is_counted_in_requests() -> None:
    """Of users with several turns each: level 20 offers 60 requests a second."""
    load = LoadStep("s", 100, 1, PromptSpec(tokens=9), arrivals=Arrivals("constant", 20.0))
    step = SweepStep(load, "rate", (20.0,), None, (GOAL,))
    kept: list[SweepSummary] = []
    climber = SweepClimber(step, "V", 1, lambda _: None, kept.append)
    done = Load("s", closed(1).load.tally, 4000 * MS, is_open=True, asked_per_second=60.0)
    asyncio.run(climber.take(Stage(20.0, done, 0.1, 10, 20)))
    climber.finish()
    assert kept[0].stages[0].saturated.startswith("25 requests a second of 60 offered")


def test_a_rate_is_of_the_whole_schedule() -> None:
    """A server that carries half of what comes is not as fast as its last answer seems to say."""
    load = LoadStep("s", 100, 1, PromptSpec(tokens=9), arrivals=Arrivals("constant", 20.0))
    step = SweepStep(load, "rate", (20.0,), None, (GOAL,))
    found: list[Measurement | Unmeasured] = []
    climber = SweepClimber(step, "V", 1, found.append, lambda _: None)
    tally = closed(1).load.tally
    done = Load("s", tally, 4000 * MS, is_open=True, asked_per_second=20.0, scheduled_ns=5000 * MS)
    asyncio.run(climber.take(Stage(20.0, done, 0.1, 0, 0)))
    assert value(found[0]) == 20.0


def judged(tally: Tally, *, cpu: float = 0.1, wall_ns: int = 1000 * MS) -> Stage:
    """A stage that came to this."""
    return Stage(1.0, Load("s", tally, wall_ns, stage="1"), cpu)


def verdict_of(goal: Objective, stage: Stage) -> tuple[str | None, str, float]:
    """Whether it met the objective, why, and its goodput; -1 where that is not known."""
    found: list[Measurement | Unmeasured] = []
    kept: list[SweepSummary] = []
    step = SweepStep(LOAD, "concurrency", (1.0,), None, (goal,))
    climber = SweepClimber(step, "V", 1, found.append, kept.append)
    asyncio.run(climber.take(stage))
    climber.finish()
    (one,) = kept[0].stages
    good = found[0].value if isinstance(found[0], Measurement) else -1
    return one.verdict, one.why, float(good)


def fill(tally: Tally, count: int, tokens_ns: tuple[int, ...]) -> None:
    """Take replies whose tokens came then."""
    first, last = (tokens_ns[0], tokens_ns[-1]) if tokens_ns else (0, 0)
    for _ in range(count):
        tally.sending(0, warm_up=False)
        stamps = Stamps(0, 1, first_token_ns=first, last_token_ns=last, end_ns=100 * MS)
        many = len(tokens_ns)
        reply = Reply("x", "x", 1, 0, 1, many, 0, "stop", False, Timings(), stamps, tokens_ns)
        tally.take(reply, 0, warm_up=False)


@pytest.mark.parametrize("metric", ["ttft_ms", "e2e_ms", "tpot_ms", "itl_ms"])
def test_a_request_without_a_reply_misses_every_latency(metric: str) -> None:
    """Also where each of those served has many gaps: a tenth that failed misses p95."""
    goal = Objective(metric, "0.95", 250.0)
    for served, failed, wanted in ((100, 900, "not met"), (900, 100, "not met"), (1000, 1, "met")):
        tally = Tally(objectives=[goal])
        fill(tally, served, tuple(range(MS, 51 * MS, MS)))
        for _ in range(failed):
            tally.sending(0, warm_up=False)
            tally.fail("no", warm_up=False)
        verdict, why, _ = verdict_of(goal, judged(tally))
        assert verdict == wanted, (served, failed, why)
        assert f"{failed} of {served + failed} requests brought no reply" in why


def test_a_reply_without_a_token_misses_the_time_to_the_first() -> None:
    """As goodput counts it; of an embedding, which has none, it does not matter."""
    goal = Objective("ttft_ms", "0.95", 250.0)
    tally = Tally(objectives=[goal])
    fill(tally, 200, (MS, 2 * MS))
    fill(tally, 800, ())
    verdict, why, good = verdict_of(goal, judged(tally))
    assert verdict == "not met"
    assert "800 replies had no token" in why
    assert good == 200.0
    whole = Objective("e2e_ms", "0.95", 250.0)
    assert verdict_of(whole, judged(tally))[0] == "met"


@pytest.mark.parametrize("metric", ["tpot_ms", "itl_ms"])
@pytest.mark.parametrize("at_once", [900, 80])
def test_a_pace_that_many_replies_do_not_tell_is_uncertain(metric: str, at_once: int) -> None:
    """Met by those that tell theirs; of `tpot_ms`, with one value a reply, 80 of 1,000 decide."""
    goal = Objective(metric, "0.95", 250.0)
    tally = Tally(objectives=[goal])
    fill(tally, 1000 - at_once, (MS, 2 * MS))
    fill(tally, at_once, (MS, MS))
    verdict, why, good = verdict_of(goal, judged(tally))
    assert verdict == ("met" if (metric, at_once) == ("itl_ms", 80) else "uncertain"), why
    assert ("came at one moment" in why) is (verdict == "uncertain")
    assert good == 1000 - at_once


def test_a_stage_without_a_request_is_not_laid_to_the_client() -> None:
    """It lasts no time, of which any CPU time is a large share; it meets nothing."""
    empty = Tally(objectives=[GOAL])
    stage = judged(empty, cpu=1.87, wall_ns=1000)
    verdict, why, good = verdict_of(GOAL, stage)
    assert (verdict, good) == ("uncertain", -1)
    assert why.startswith("no request was sent")
    empty.sending(0, warm_up=True)
    assert "after the 1 of its warm-up" in verdict_of(GOAL, stage)[1]


def test_a_stage_without_a_request_is_no_point_of_the_knee() -> None:
    """Its throughput is not known, which is no 0."""
    found: list[Measurement | Unmeasured] = []
    step = SweepStep(LOAD, "concurrency", (1, 2, 4), None, (GOAL,))
    climber = SweepClimber(step, "V", 1, found.append, lambda _: None)
    for level in (1.0, 2.0):
        asyncio.run(climber.take(closed(level)))
    empty = Load("s", Tally(objectives=[GOAL]), 1000, stage="4")
    asyncio.run(climber.take(Stage(4.0, empty, 1.87)))
    climber.finish()
    (knee,) = [one for one in found if one.name == "knee_load"]
    assert isinstance(knee, Unmeasured)
    assert "2 levels are too few" in knee.reason


def test_an_open_loop_is_saturated_where_its_backlog_grows() -> None:
    """Served below what is offered alone is no saturation, nor is a steady backlog."""
    load = LoadStep("s", 100, 1, PromptSpec(tokens=9), arrivals=Arrivals("constant", 20.0))
    step = SweepStep(load, "rate", (20.0, 30.0), None, (GOAL,))
    for half, end, is_saturated in ((10, 20, True), (10, 11, False)):
        kept: list[SweepSummary] = []
        climber = SweepClimber(step, "V", 1, lambda _: None, kept.append)
        done = Load("s", closed(1).load.tally, 10_000 * MS, is_open=True, stage="20")
        asyncio.run(climber.take(Stage(20.0, done, 0.1, half, end)))
        assert (climber.next() is None) == is_saturated
        climber.finish()
        assert bool(kept[0].stages[0].saturated) == is_saturated


@pytest.mark.parametrize(("count", "saturated"), [(5, False), (6, True)])
def test_a_few_requests_show_no_saturation(count: int, *, saturated: bool) -> None:
    """Fewer than a median's interval needs may be slow by chance."""
    step = SweepStep(LOAD, "concurrency", (4, 8))
    kept: list[SweepSummary] = []
    climber = SweepClimber(step, "V", 1, lambda _: None, kept.append)
    for level in (4, 8):
        asyncio.run(climber.take(closed(level, count=count)))
    climber.finish()
    assert [bool(one.saturated) for one in kept[0].stages] == [False, saturated]
