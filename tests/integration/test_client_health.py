"""Who made a latency: a client that is held up in front of a real server, and a healthy one."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from benchsuite.model.record import RunRecord
from benchsuite.pipeline.options import RunOptions
from benchsuite.pipeline.prepare import prepare
from benchsuite.pipeline.run import run_scenario
from benchsuite.report.progress import QuietProgress
from benchsuite.report.terminal import render_run
from benchsuite.scenario.load import load_scenario
from benchsuite.scenario.workspace import load_workspace
from tests.integration.desk import Desk
from tests.integration.server_under_test import needs_embedded

pytestmark = [pytest.mark.server, needs_embedded]

SCENARIO = """title: small
server: {parallel: 1, ctx-size: 1024}
sessions: {A: {}}
steps:
  - turn: {session: A, user: {tokens: 200}, max_tokens: 48}
gates:
  - {metric: 'output_tokens{session="A",turn="1"}', equals: 48}
  - {metric: 'e2e_ms{session="A",turn="1"}', max: 1 h}
  - {metric: 'e2e_ms{session="A",turn="1"}', max: 0.001 ms}
"""


LOAD = """title: load
server: {parallel: 1, ctx-size: 1024}
steps:
  - load: {as: s, requests: 10, prompt: {tokens: 200}, max_tokens: 48}
gates:
  - {metric: 'output_tokens{step="s"}', equals: 480}
  - {metric: 'e2e_ms{step="s"}', max: 1 h}
  - {metric: 'requests_per_second{step="s"}', min: 0.001}
"""


class Holding(QuietProgress):
    """Holds the event loop up for 0.3 of each 0.4 s until the requests of a step have ended."""

    def step(self, words: str) -> None:
        self._holds = words.startswith(("turn", "load"))
        if self._holds:
            loop = asyncio.get_running_loop()
            loop.call_later(0.005, self._hold, loop)

    def _hold(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._holds:
            time.sleep(0.3)
            loop.call_later(0.1, self._hold, loop)


def ran(
    desk: Desk,
    progress: QuietProgress,
    monkeypatch: pytest.MonkeyPatch,
    scenario: str = SCENARIO,
) -> RunRecord:
    """The record of a run in this process."""
    path = desk.folder / "f.yaml"
    path.write_text(scenario)
    monkeypatch.chdir(desk.folder)
    options = RunOptions(server="embedded", model=str(desk.tiny_model()))
    prepared = prepare(load_workspace(Path.cwd()), load_scenario(path), options, os.environ)
    return run_scenario(prepared, os.environ, progress).record


def lag_of(record: RunRecord) -> float:
    """The event loop's lag in milliseconds."""
    return next(float(m.value) for m in record.measurements if m.name == "event_loop_lag_ms")


def test_a_client_that_is_held_up_decides_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit of an hour and one of a microsecond are both inconclusive; counts are judged."""
    record = ran(desk, Holding(), monkeypatch)
    assert lag_of(record) > 100
    assert [gate.outcome for gate in record.gates] == ["pass", "inconclusive", "inconclusive"]
    for gate in record.gates[1:]:
        assert "benchsuite was the bottleneck: its event loop was " in gate.reason
    assert record.verdict is not None
    assert record.verdict.exit_code == 3
    assert "benchsuite was the bottleneck" in " ".join(render_run(record).split())


def test_a_load_during_which_our_loop_was_held_up_decides_no_latency(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By how likely a moment was answered too late, however long requests took."""
    record = ran(desk, Holding(), monkeypatch, LOAD)
    (share,) = [m for m in record.measurements if m.name == "event_loop_late_share"]
    assert 0.1 < float(share.value) < 1
    assert share.labels == {"step": "s"}
    assert [gate.outcome for gate in record.gates] == ["pass", "inconclusive", "inconclusive"]
    assert "benchsuite was the bottleneck" in record.gates[2].reason


def test_a_healthy_client_leaves_the_judgement_to_the_gate(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless this machine itself holds it up, which its figures then say."""
    record = ran(desk, QuietProgress(), monkeypatch)
    e2e = next(float(m.value) for m in record.measurements if m.name == "e2e_ms")
    share = next(float(m.value) for m in record.measurements if m.name == "client_cpu_share")
    slow = lag_of(record) > 0.1 * e2e or share > 0.25
    state = record.machine_state
    assert state is not None
    unfit = any("latency" in one.voids for one in state.warnings)
    counts, kept, broken = (gate.outcome for gate in record.gates)
    assert counts == "pass"
    assert kept == ("inconclusive" if slow else "pass")
    assert broken == ("inconclusive" if slow or unfit else "fail")
    warned = any("not fit to measure latency" in words for words in record.warnings)
    assert warned == any("latency" in one.strikes for one in state.warnings)
