"""`benchsuite doctor` on the machine that runs the tests, and what runs record of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchsuite.metrics.catalogue import CLIENT_HEALTH
from tests.integration.desk import Desk
from tests.integration.server_under_test import linux_only, needs_embedded

SERVERS = Path(__file__).parents[1] / "servers"

FACTS = {
    "cores",
    "cpu governor",
    "cpu clock",
    "turbo",
    "load from others",
    "steal time",
    "swap",
    "free memory",
    "memory pressure",
    "cpu quota",
    "cpu throttling",
    "cpu heat",
    "gpu clocks",
    "clock",
    "wake-ups",
}
SCENARIO = """title: small
server: {parallel: 2, ctx-size: {min: 256, per: slot}}
sessions: {A: {}}
steps:
  - turn: {session: A, user: {tokens: 40}, max_tokens: 24}
  - load: {as: crowd, requests: 6, concurrency: 2, prompt: {tokens: 20}, max_tokens: 8}
gates:
  - {metric: 'output_tokens{session="A",turn="1"}', equals: 24}
"""


def check_findings(body: dict[str, Any]) -> None:
    """Every finding says something, and the verdict is what they make of it."""
    for one in body["findings"]:
        assert one["grade"] in ("ok", "warn", "unknown")
        assert one["sentence"]
        assert bool(one["value"]) == (one["grade"] != "unknown")
        assert one["remedy"] or one["grade"] != "warn"
    warned = any(one["grade"] == "warn" for one in body["findings"])
    assert body["exit_code"] == (3 if warned else 0)
    assert body["fit"] is not warned


def test_the_facts_alone(desk: Desk) -> None:
    """Without a server: each fact once, nothing launched, nothing left behind."""
    done = desk.run("doctor", "--no-server", "--json")
    body = json.loads(done.out)
    assert done.code == body["exit_code"]
    assert {one["fact"] for one in body["findings"]} == FACTS
    check_findings(body)
    assert body["noise"] == []
    assert list(desk.folder.iterdir()) == []


@pytest.mark.server
@needs_embedded
def test_a_quick_look_with_launches(desk: Desk) -> None:
    """Three pairs on the embedded server: noise of each metric, and what it can find."""
    done = desk.run("doctor", "--quick", "--server", "embedded", "--json")
    body = json.loads(done.out)
    assert done.code == body["exit_code"], done.text
    check_findings(body)
    assert {one["fact"] for one in body["findings"]} == FACTS | {"noise", "client"}
    assert body["pairs"] == 3
    assert {one["metric"] for one in body["noise"]} == {
        "ttft_ms",
        "e2e_ms",
        "prefill_tokens_per_second",
        "decode_tokens_per_second",
        "output_tokens_per_second",
    }
    for one in body["noise"]:
        assert one["launches"] == 6
        assert one["median"] > 0
        assert one["cv_percent"] > 0
        # where launches differ by much, as on a busy machine, nothing may be found by five pairs
        found = [one["smallest_found"][n] for n in ("5", "10", "20")]
        told = [value for value in found if value is not None]
        assert found == [None] * (3 - len(told)) + told
        assert told == sorted(told, reverse=True)
        assert all(value > 0 for value in told)
    assert list(desk.folder.iterdir()) == []


@linux_only
def test_a_server_that_cannot_be_launched_leaves_no_answer(desk: Desk) -> None:
    """The facts are told all the same; exit 5, the reason, and what to do."""
    server = SERVERS / "illegal_when_loading.sh"
    done = desk.run("doctor", "--quick", "--server", str(server))
    assert done.code == 5, done.text
    assert "load from others" in done.out
    assert "noise could not be measured: launch 1: " in done.text
    assert "illegal instruction" in done.text
    assert "UNKNOWN whether it is fit" in done.text
    assert "--no-server" in done.out


@pytest.mark.parametrize(
    "words",
    [
        ("--no-server", "--quick"),
        ("--no-server", "--pairs", "4"),
        ("--quick", "--pairs", "4"),
        ("--pairs", "1"),
        ("--server", "/nowhere/llama-server"),
    ],
)
def test_what_cannot_be_meant_is_refused(desk: Desk, words: tuple[str, ...]) -> None:
    """Exit 2, with a sentence."""
    done = desk.run("doctor", *words)
    assert done.code == 2, done.text
    assert done.err


@pytest.mark.server
@needs_embedded
def test_a_run_records_its_machine_and_its_client(desk: Desk) -> None:
    """Readings of begin and end, findings, and the client's health in each launch."""
    (desk.folder / "f.yaml").write_text(SCENARIO)
    done = desk.run("run", "f.yaml", "--server", "embedded")
    assert done.code == 0, done.text
    assert "not fit to measure" not in done.text  # exact values alone were judged
    record = desk.last_record()
    state = record["machine_state"]
    assert state["end"]["at_ns"] > state["begin"]["at_ns"]
    assert {one["fact"] for one in state["findings"]} == FACTS - {"wake-ups"}
    assert state["end"]["own_cpu_seconds"] > state["begin"]["own_cpu_seconds"]
    if sys.platform == "linux":
        assert state["end"]["cpu"]["total_seconds"] > state["begin"]["cpu"]["total_seconds"]
    health = {
        (m["name"], *m["labels"].values()): m["value"]
        for m in record["measurements"]
        if m["name"] in CLIENT_HEALTH and "quantile" not in m["labels"]
    }
    assert health.keys() == {
        ("event_loop_lag_ms",),
        ("client_cpu_share",),
        ("send_lateness_ms", "crowd"),
        ("client_late_share", "crowd"),
        ("event_loop_late_share", "crowd"),
    }
    assert 0 <= health["event_loop_lag_ms",] < 1000
    assert 0 < health["client_cpu_share",] < 1
    assert 0 < health["send_lateness_ms", "crowd"] < 1000
    assert 0 <= health["client_late_share", "crowd"] <= 1
    assert 0 <= health["event_loop_late_share", "crowd"] < 1


@pytest.mark.server
@needs_embedded
def test_client_health_is_no_baseline(desk: Desk) -> None:
    """It tells of us, so accepting a run does not store it."""
    (desk.folder / "f.yaml").write_text(SCENARIO)
    assert desk.run("run", "f.yaml", "--server", "embedded").code == 0
    accepted = desk.run("accept", "last", "--reason", "first")
    assert accepted.code == 0, accepted.text
    stored = "".join(p.read_text() for p in (desk.folder / "baselines").rglob("machine.*.json"))
    assert "ttft_ms" in stored
    assert "event_loop_lag_ms" not in stored
    assert "send_lateness_ms" not in stored
