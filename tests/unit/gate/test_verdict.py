"""Exit codes: which outcome outranks which."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from benchsuite.gate.verdict import bisect_code, verdict, worst_code
from benchsuite.model.record import Failure
from benchsuite.model.verdict import GateResult
from tests.unit.gate import gate_example as example

replace = msgspec.structs.replace


def gate(outcome: str, level: str = "block", **more: Any) -> GateResult:
    """A gate result."""
    content = {
        "metric": "kv_mib",
        "variant": "B",
        "rule": "equals baseline",
        "outcome": outcome,
        "level": level,
        "expected": "1",
        "observed": "2",
        "reason": "because",
        **more,
    }
    return msgspec.convert(content, GateResult)


CRASH = Failure("crash", "the server died", healthy_before=True)
DISK = Failure("machine", "the disk is full")


@pytest.mark.parametrize(
    ("gates", "failures", "code"),
    [
        (["pass"], [], 0),
        (["pass", "xfail", "not applicable"], [], 0),
        (["pass", "fail"], [], 1),
        (["pass", "xpass"], [], 1),
        (["pass", "inconclusive"], [], 3),
        (["fail", "inconclusive"], [], 1),
        (["error", "fail"], [CRASH], 4),
        (["error", "fail"], [CRASH, DISK], 5),
        (["error"], [], 5),
        (["not applicable", "not applicable"], [], 3),
        ([], [], 3),
    ],
)
def test_the_worst_decides(gates: list[str], failures: list[Failure], code: int) -> None:
    """5 outranks 4, 4 outranks 1, 1 outranks 3; nothing applicable is 3."""
    run = example.record(("B",))
    launches = [example.launch("B", i + 1, failure=f) for i, f in enumerate(failures)]
    run = replace(run, launches=(*run.launches, *launches))
    found = verdict(run, [gate(g) for g in gates])
    assert found.exit_code == code
    assert bool(found.reasons) == (code != 0)


def test_an_interrupted_run_is_130() -> None:
    """Whatever else was found; what was decided stays in the counts."""
    run = replace(example.record(("B",)), interrupted=True)
    found = verdict(run, [gate("fail"), gate("pass")])
    assert (found.exit_code, found.outcome) == (130, "interrupted")
    assert found.counts == {"fail": 1, "pass": 1}


def test_advice_never_moves_the_exit_code() -> None:
    """It is counted apart."""
    run = example.record(("B",))
    found = verdict(run, [gate("pass"), gate("fail", "advise"), gate("inconclusive", "advise")])
    assert found.exit_code == 0
    assert found.counts == {"pass": 1, "advice": 2}
    assert found.reasons == ()


def test_a_run_with_nothing_but_advice_decided_nothing() -> None:
    """No gate that could fail was judged, so green would be a promise that nobody checked."""
    run = example.record(("B",))
    found = verdict(run, [gate("pass", "advise"), gate("fail", "advise")])
    assert found.exit_code == 3
    assert "only advises" in found.reasons[0]
    assert verdict(run, [gate("pass", "advise"), gate("pass")]).exit_code == 0


def test_require_all_fails_what_is_not_applicable() -> None:
    """The reason says that the option did it."""
    run = example.record(("B",))
    found = verdict(run, [gate("pass"), gate("not applicable")], require_all=True)
    assert found.exit_code == 1
    assert "--require-all" in found.reasons[0]


def test_reasons_are_worst_first() -> None:
    """A reader sees the decisive one at the top."""
    run = example.record(("B",))
    found = verdict(run, [gate("inconclusive", reason="soft"), gate("fail", reason="hard")])
    assert "hard" in found.reasons[0]
    assert "soft" in found.reasons[1]


@pytest.mark.parametrize(
    ("code", "failures", "unknown_flag", "told"),
    [
        (0, [], False, 0),
        (1, [], False, 1),
        (3, [], False, 125),
        (5, [], False, 125),
        (4, [CRASH], False, 1),
        (4, [Failure("hang", "no bytes", healthy_before=True)], False, 1),
        (4, [Failure("start", "did not start")], False, 125),
        (4, [Failure("crash", "died while loading")], False, 125),
        (4, [Failure("connection", "lost", healthy_before=True)], False, 125),
        (2, [], True, 125),
        (2, [], False, 128),
        (130, [], False, 130),
    ],
)
def test_bisect_codes(code: int, failures: list[Failure], unknown_flag: bool, told: int) -> None:
    """As `git bisect run` reads them: bad, skip this build, or stop."""
    assert bisect_code(code, failures, flag_unknown_to_build=unknown_flag) == told


@pytest.mark.parametrize(
    ("codes", "worst"), [([0, 3, 1], 1), ([1, 4, 5], 5), ([0, 130, 5], 130), ([], 0), ([0, 2], 2)]
)
def test_several_runs_end_with_their_worst(codes: list[int], worst: int) -> None:
    """A usage error of one outranks what others found, since it did not run."""
    assert worst_code(codes) == worst
