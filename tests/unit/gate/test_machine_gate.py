"""Verdicts measured on an unfit machine say so, and nothing red turns green."""

from __future__ import annotations

import msgspec
import pytest

from benchsuite.gate.judge import judge
from benchsuite.gate.machine import machine_warnings
from benchsuite.model.machine import MachineFinding, MachineReading, MachineState, Struck
from benchsuite.model.record import RunRecord
from benchsuite.model.scenario import GateSpec
from benchsuite.model.verdict import GateResult
from tests.unit.gate import gate_example as example
from tests.unit.gate.test_client_health_gate import NOTHING, TTFT

LATENCY: tuple[Struck, ...] = ("latency",)
BOTH: tuple[Struck, ...] = ("latency", "memory")
LOAD = MachineFinding(
    "load from others", "40%", "warn", "others ran", "stop them", LATENCY, LATENCY
)
MILD = MachineFinding("cpu governor", "powersave", "warn", "slow", "cpupower", LATENCY)
SWAP = MachineFinding("swap", "9 MiB moved", "warn", "pages move", "swapoff", BOTH, BOTH)
FINE = MachineFinding("turbo", "off", "ok", "steady")
DARK = MachineFinding("steal time", "", "unknown", "cannot be read", strikes=BOTH, voids=BOTH)

RSS, ANON = 'rss_mib{at="end"}', 'anon_mib{at="end"}'  # 61 and 41.5 MiB
COUNT = 'cached_tokens{session="A",turn="2"}'


def on(*findings: MachineFinding) -> RunRecord:
    """A healthy run of variant B on a machine with these findings."""
    state = MachineState(MachineReading(0), MachineReading(1), findings)
    return msgspec.structs.replace(example.record(("B",)), machine_state=state)


def judged(record: RunRecord, *gates: GateSpec) -> tuple[GateResult, ...]:
    """The results of some gates."""
    return judge(example.scenario(*gates), record, NOTHING, platform="linux")


@pytest.mark.parametrize(
    ("findings", "gate", "outcome"),
    [
        ((LOAD,), GateSpec(TTFT, max=1.0), "inconclusive"),
        ((LOAD,), GateSpec(TTFT, max=100.0), "pass"),  # others only make it slower
        ((LOAD,), GateSpec(TTFT, min=1.0), "inconclusive"),  # that is how it held
        ((LOAD,), GateSpec(RSS, max=1.0), "fail"),
        ((LOAD,), GateSpec(COUNT, equals=1), "fail"),
        ((MILD,), GateSpec(TTFT, max=1.0), "fail"),
        ((SWAP,), GateSpec(TTFT, max=1.0), "inconclusive"),
        ((SWAP,), GateSpec(RSS, max=1.0), "inconclusive"),
        ((SWAP,), GateSpec(RSS, max=100.0), "inconclusive"),  # part of it was moved out
        ((SWAP,), GateSpec(ANON, max=100.0), "pass"),  # counts what was moved out
        ((SWAP,), GateSpec(ANON, max=1.0), "fail"),
        ((SWAP,), GateSpec(COUNT, equals=1216), "pass"),
        ((FINE, DARK), GateSpec(TTFT, max=1.0), "fail"),  # what is not known excuses nothing
        ((), GateSpec(TTFT, max=1.0), "fail"),
    ],
)
def test_what_a_machine_makes_of_a_gate(
    findings: tuple[MachineFinding, ...], gate: GateSpec, outcome: str
) -> None:
    """Failing latency and any swapped memory are inconclusive; no fail becomes a pass."""
    (found,) = judged(on(*findings), gate)
    assert found.outcome == outcome
    if outcome == "inconclusive":
        assert findings[0].value in found.reason
        assert "(without that: " in found.reason


def test_missing_values_stay_missing() -> None:
    """No load explains that nothing was measured."""
    (found,) = judged(on(LOAD, SWAP), GateSpec('ttft_ms{session="Z",turn="1"}', max=1.0))
    assert (found.outcome, found.state) == ("fail", "missing")


def test_a_warning_for_each_kind_that_was_judged() -> None:
    """With the figures, and only of what strikes that kind."""
    record = on(LOAD, MILD, SWAP, FINE)
    gates = judged(record, GateSpec(TTFT, max=100.0), GateSpec(RSS, max=100.0))
    latency, memory = machine_warnings(record.machine_state, gates)
    assert "latency: load from others 40%, cpu governor powersave, swap 9 MiB moved" in latency
    assert "memory: swap 9 MiB moved;" in memory


def test_runs_of_exact_values_are_quiet() -> None:
    """Whatever the machine is like; so are gates that did not apply, and fit machines."""
    record = on(LOAD, SWAP)
    assert machine_warnings(record.machine_state, judged(record, GateSpec(COUNT, equals=1))) == ()
    away = judged(record, GateSpec(TTFT, max=1.0, needs="launched"))
    away = tuple(msgspec.structs.replace(g, outcome="not applicable") for g in away)
    assert machine_warnings(record.machine_state, away) == ()
    fit = judged(on(FINE, DARK), GateSpec(TTFT, max=100.0))
    assert machine_warnings(on(FINE, DARK).machine_state, fit) == ()


def test_older_records_have_no_state() -> None:
    """They are judged as before, without a warning."""
    record = example.record(("B",))
    (found,) = judged(record, GateSpec(TTFT, max=1.0))
    assert found.outcome == "fail"
    assert machine_warnings(None, (found,)) == ()
