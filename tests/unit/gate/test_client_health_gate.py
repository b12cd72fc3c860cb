"""Latency that our own client made is neither a pass nor a fail."""

from __future__ import annotations

import msgspec
import pytest

from benchsuite.gate.client_health import client_doubt
from benchsuite.gate.judge import judge
from benchsuite.gate.verdict import verdict
from benchsuite.model.record import Measurement, RunRecord
from benchsuite.model.scenario import GateSpec
from benchsuite.model.verdict import GateResult
from benchsuite.store.baselines import Baselines, ScopeBaseline
from tests.unit.gate import gate_example as example

TTFT = 'ttft_ms{session="A",turn="2"}'  # 13.5 ms in trial 1, 14.5 in trial 2
PLACE = {"session": "A", "turn": "2"}
NOTHING = Baselines(
    "tiny",
    "scenarioB",
    {scope: ScopeBaseline(scope, "none") for scope in ("config", "numerics", "machine")},
    "baselines",
)


def health(name: str, value: float, trial: int = 1, **labels: str) -> Measurement:
    """One figure of our own client."""
    unit = "" if name.endswith("_share") else "ms"
    return Measurement(name, value, unit, "B", trial, labels)


def judged(record: RunRecord, *gates: GateSpec) -> tuple[GateResult, ...]:
    """The results of some gates in variant B."""
    return judge(example.scenario(*gates), record, NOTHING, platform="linux")


def ran(*extra: Measurement, trials: int = 1) -> RunRecord:
    """A healthy run of variant B, with more measurements."""
    record = example.record(("B",), trials)
    return msgspec.structs.replace(record, measurements=(*record.measurements, *extra))


@pytest.mark.parametrize(
    ("figure", "outcome"),
    [
        (health("event_loop_lag_ms", 1.34), "pass"),
        (health("event_loop_lag_ms", 1.36), "inconclusive"),
        (health("client_cpu_share", 0.25), "pass"),
        (health("client_cpu_share", 0.26), "inconclusive"),
        (health("send_lateness_ms", 9.0, step="crowd"), "pass"),  # of a load step
    ],
)
def test_thresholds(figure: Measurement, outcome: str) -> None:
    """10% of the figure, a quarter of the server's cores; each from both sides."""
    (found,) = judged(ran(figure), GateSpec(TTFT, max=100.0))
    assert found.outcome == outcome
    assert found.level == "block"


@pytest.mark.parametrize("limit", [100.0, 1.0])
def test_neither_a_pass_nor_a_fail(limit: float) -> None:
    """The verdict is inconclusive either way, with the figure and what it would have been."""
    record = ran(health("event_loop_lag_ms", 5.0))
    (found,) = judged(record, GateSpec(TTFT, max=limit))
    assert found.outcome == found.state == "inconclusive"
    assert "event loop was 5 ms late on average, more than 10% of 13.5 ms" in found.reason
    assert "(without that: " in found.reason
    assert verdict(record, (found,)).exit_code == 3


@pytest.mark.parametrize(
    ("trials", "bad", "outcome"),
    [
        (2, 1, "inconclusive"),
        (4, 1, "inconclusive"),
        (5, 1, "pass"),
        (10, 2, "pass"),
        (10, 3, "inconclusive"),
    ],
)
def test_one_bad_launch_in_five_is_tolerated(trials: int, bad: int, outcome: str) -> None:
    """A median over five or more stands it; the count and the first of them are named."""
    lags = [5.0] * bad + [0.1] * (trials - bad)
    figures = [health("event_loop_lag_ms", lag, n) for n, lag in enumerate(lags, 1)]
    (found,) = judged(ran(*figures, trials=trials), GateSpec(TTFT, max=100.0))
    assert found.outcome == outcome
    if outcome == "inconclusive":
        assert f"in {bad} of {trials} launches, first in trial 1: " in found.reason


def test_counts_and_memory_are_believed() -> None:
    """A slow client changes neither what is cached nor what is allocated."""
    record = ran(health("event_loop_lag_ms", 500.0), health("client_cpu_share", 0.9))
    found = judged(
        record,
        GateSpec('cached_tokens{session="A",turn="2"}', equals=1216),
        GateSpec('rss_mib{at="end"}', max=400.0),
        GateSpec("server_start_ms", max=100.0),
    )
    assert [gate.outcome for gate in found] == ["pass", "pass", "pass"]


def test_missing_latency_stays_missing() -> None:
    """A bottleneck excuses no measurement that should be there."""
    record = ran(health("event_loop_lag_ms", 500.0))
    (found,) = judged(record, GateSpec('ttft_ms{session="Z",turn="1"}', max=100.0))
    assert (found.outcome, found.state) == ("fail", "missing")


def test_the_servers_own_clock_is_touched_by_our_share_alone() -> None:
    """Its timings do not pass through our event loop."""
    place = ("decode_tokens_per_second", {"session": "A", "turn": "2"}, "B")
    own = Measurement(place[0], 2000.0, "tokens/s", "B", 1, PLACE)
    assert client_doubt(ran(own, health("event_loop_lag_ms", 500.0)).measurements, *place) is None
    doubt = client_doubt(ran(own, health("client_cpu_share", 0.5)).measurements, *place)
    assert doubt is not None
    assert "took 50% of the server's cores" in doubt


@pytest.mark.parametrize(("late_ms", "doubted"), [(3.9, False), (4.1, True)])
def test_workers_that_pause_make_throughput_doubtful(late_ms: float, doubted: bool) -> None:
    """10% of the median request of the same load step."""
    step = {"step": "crowd"}
    figures = ran(
        Measurement("requests_per_second", 80.0, "1/s", "B", 1, step),
        Measurement("e2e_ms", 40.0, "ms", "B", 1, step),
        health("send_lateness_ms", late_ms, step="crowd"),
        health("send_lateness_ms", 99.0, step="other"),
    ).measurements
    doubt = client_doubt(figures, "requests_per_second", step, "B")
    assert (doubt is not None) == doubted
    if doubt is not None:
        assert "sent requests 4.1 ms late (median), more than 10% of the 40 ms" in doubt


def test_time_per_token_is_held_against_the_whole_reply() -> None:
    """A lag strikes the ends of a reply, not each token of it."""
    figures = ran(
        Measurement("tpot_ms", 0.5, "ms", "B", 1, PLACE), health("event_loop_lag_ms", 1.0)
    ).measurements  # of 32.25 ms
    assert client_doubt(figures, "tpot_ms", PLACE, "B") is None


def test_records_without_figures_are_judged_as_before() -> None:
    """Older runs knew nothing of their client."""
    (found,) = judged(ran(), GateSpec(TTFT, max=100.0))
    assert found.outcome == "pass"


@pytest.mark.parametrize(
    ("late_ms", "quantile", "speaks"),
    [
        (9.9, "0.99", False),
        (10.1, "0.99", True),
        (10.1, "0.5", False),  # of another quantile than the one that is asked about
        (10.1, None, False),
    ],
)
def test_a_tail_is_doubted_by_the_tail_of_our_own_lateness(
    late_ms: float, quantile: str | None, *, speaks: bool
) -> None:
    """A few late requests make a p99 and no median: like is held against like."""
    place = {"quantile": "0.99", "step": "s"}
    labels = {"step": "s"} if quantile is None else {"quantile": quantile, "step": "s"}
    taken = Measurement("ttft_from_due_ms", 100.0, "ms", "B", 1, place)
    late = Measurement("send_lateness_ms", late_ms, "ms", "B", 1, labels)
    doubt = client_doubt([taken, late], "ttft_from_due_ms", place, "B")
    assert (doubt is not None) == speaks
    if doubt is not None:
        assert "it sent requests 10.1 ms late (0.99 quantile), more than 10% of the 100 ms" in doubt


@pytest.mark.parametrize("name", ["ttft_ms", "ttft_from_due_ms", "e2e_ms", "requests_per_second"])
@pytest.mark.parametrize("quantile", [None, "0.9"])
@pytest.mark.parametrize(("share", "speaks"), [(0.10, False), (0.11, True)])
def test_a_client_that_is_overrun_is_found_however_long_latency_became(
    name: str, quantile: str | None, share: float, *, speaks: bool
) -> None:
    """768 ms are less than 10% of 9.5 s, which they were part of."""
    place = {"step": "s"} if quantile is None else {"quantile": quantile, "step": "s"}
    figures = [
        Measurement(name, 9500.0, "1/s" if name == "requests_per_second" else "ms", "B", 1, place),
        Measurement("send_lateness_ms", 768.0, "ms", "B", 1, place),
        health("client_late_share", share, step="s"),
        health("client_late_share", 1.0, step="other"),
    ]
    doubt = client_doubt(figures, name, place, "B")
    assert (doubt is not None) == speaks
    if doubt is not None:
        assert "it sent 11% of the requests late, and 10% is the limit" in doubt


@pytest.mark.parametrize(
    ("share", "quantile", "speaks"),
    [
        (0.009, "0.99", False),
        (0.011, "0.99", True),
        (0.04, "0.95", False),
        (0.06, "0.95", True),
        (0.09, None, False),
        (0.11, None, True),
        (0.11, "0.5", True),
    ],
)
def test_a_loop_that_answers_late_is_doubted_by_what_lies_above_a_quantile(
    share: float, quantile: str | None, *, speaks: bool
) -> None:
    """However long latency is, and though no request was sent late; of its own step and stage."""
    place = {"stage": "4", "step": "s"} | ({} if quantile is None else {"quantile": quantile})
    figures = [
        Measurement("ttft_ms", 60_000.0, "ms", "B", 1, place),
        health("client_late_share", 0.0, step="s", stage="4"),
        health("event_loop_late_share", share, step="s", stage="4"),
        health("event_loop_late_share", 1.0, step="s", stage="8"),
        health("event_loop_late_share", 1.0, step="other"),
    ]
    doubt = client_doubt(figures, "ttft_ms", place, "B")
    assert (doubt is not None) == speaks
    if doubt is not None:
        assert f"answered {share:.1%} of the moments more than 100 ms late" in doubt
