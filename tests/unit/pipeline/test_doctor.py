"""How much launches differ, and what that makes of a machine; without a server."""

from __future__ import annotations

import math
import statistics

import pytest

from benchsuite.errors import ExitCode
from benchsuite.model.machine import Diagnosis, MachineFinding, Noise
from benchsuite.model.record import Measurement
from benchsuite.pipeline.doctor import exit_code, judge_client, judge_noise, noise_of
from benchsuite.stats.power import smallest_found

ENDINGS = (100.0, 104.0, 98.0, 103.0, 97.0, 101.0)


def ttft(trial: int, value: float, **labels: str) -> Measurement:
    """A time to first token, of a launch where there are no labels."""
    return Measurement("ttft_ms", value, "ms", "main", trial, labels)


def launches(values: tuple[float, ...] = ENDINGS) -> list[Measurement]:
    """A launch a value, its median; with single requests and a load beside it."""
    found = []
    for trial, value in enumerate(values, 1):
        found += [ttft(trial, value), ttft(trial, value + 50, request="one")]
        found += [ttft(trial, value * 9, step="crowd")]
    return found


def test_a_launch_counts_by_the_median_of_its_requests() -> None:
    """Neither single requests nor those of the load; CV is of the launches."""
    (found,) = noise_of(launches())
    assert (found.metric, found.unit, found.launches) == ("ttft_ms", "ms", 6)
    assert found.median == statistics.median(ENDINGS)
    spread = statistics.stdev(ENDINGS) / statistics.fmean(ENDINGS) * 100
    assert found.cv_percent == pytest.approx(spread)


def test_throughput_is_that_of_the_load() -> None:
    """It has no value of a launch."""
    place = {"step": "crowd"}
    name = "output_tokens_per_second"
    found = [Measurement(name, 50.0 + t, "tokens/s", "main", t, place) for t in (1, 2)]
    (noise,) = noise_of(found)
    assert (noise.metric, noise.launches, noise.median) == (name, 2, 51.5)


def test_pairs_alternate_as_ab_measures_them() -> None:
    """Every other pair is the other way round, so that a steady drift is noise and not a change."""
    (found,) = noise_of(launches())
    ratios = [math.log(104 / 100), math.log(98 / 103), math.log(101 / 97)]
    for pairs in (5, 10, 20):
        assert found.smallest_found[pairs] == pytest.approx(smallest_found(ratios, pairs))
    five, ten, twenty = (found.smallest_found[n] or 0.0 for n in (5, 10, 20))
    assert five > ten > twenty > 0


@pytest.mark.parametrize("values", [(100.0,), (100.0, 101.0), (100.0, 100.0, 100.0, 100.0)])
def test_what_cannot_be_told_is_not_zero(values: tuple[float, ...]) -> None:
    """One launch, one pair, or launches that do not differ at all say nothing."""
    (found,) = noise_of(launches(values))
    assert set(found.smallest_found.values()) == {None}
    (judged,) = judge_noise((found,))
    assert judged.grade == "unknown"


def test_nothing_measured_is_unknown() -> None:
    """Not a quiet machine."""
    assert noise_of([]) == ()
    (judged,) = judge_noise(())
    assert judged.grade == "unknown"


@pytest.mark.parametrize(("percent", "grade"), [(20.0, "ok"), (20.1, "warn")])
def test_ten_pairs_must_find_a_fifth(percent: float, grade: str) -> None:
    """In the noisiest metric."""
    quiet = Noise("e2e_ms", "ms", 10, 30.0, 1.0, {5: 3.0, 10: 2.0, 20: 1.0})
    loud = Noise("ttft_ms", "ms", 10, 5.0, 9.0, {5: 40.0, 10: percent, 20: 9.0})
    (judged,) = judge_noise((quiet, loud))
    assert judged.grade == grade
    assert f"10 pairs find {percent:g}% (ttft_ms)" == judged.value


@pytest.mark.parametrize(("lag_ms", "grade"), [(0.2, "ok"), (12.0, "warn")])
def test_a_client_that_does_not_keep_up_is_a_finding(lag_ms: float, grade: str) -> None:
    """In two launches of six, 12 ms beside 100 and 104."""
    figures = [
        Measurement("event_loop_lag_ms", lag_ms, "ms", "main", 1),
        Measurement("event_loop_lag_ms", lag_ms, "ms", "main", 2),
        Measurement("client_cpu_share", 0.05, "", "main", 1),
    ]
    assert judge_client([*launches(), *figures]).grade == grade
    assert judge_client(launches()).grade == "unknown"


@pytest.mark.parametrize(
    ("grades", "failed", "code"),
    [
        (("ok", "unknown"), "", ExitCode.PASS),
        (("ok", "warn"), "", ExitCode.INCONCLUSIVE),
        (("ok", "ok"), "no server", ExitCode.MACHINE_FAILED),
        (("ok", "warn"), "no server", ExitCode.MACHINE_FAILED),
    ],
)
def test_exit_codes(grades: tuple[str, ...], failed: str, code: ExitCode) -> None:
    """Unknown facts do not make a machine unfit; what could not be done is no answer."""
    findings = tuple(MachineFinding(g, "v", g, "s") for g in grades)  # type: ignore[arg-type]
    assert exit_code(Diagnosis("m", "k", findings, failed=failed)) == code
