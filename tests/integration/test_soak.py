"""Soak runs: the shipped scenario in short on a real server, and a server that stops telling."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.desk import Desk
from tests.integration.server_under_test import needs_embedded

pytestmark = [pytest.mark.server]

FAST_SERVER = Path(__file__).parents[1] / "servers" / "fast_server.py"

STALLING = """title: stalling
server: {parallel: {min: 2}}
steps:
  - load: {as: soak, duration: 9 s, concurrency: 2, prompt: {tokens: 8}, max_tokens: 2}
gates:
  - {metric: 'requests_failed{step="soak"}', equals: 0, why: every request must be answered}
"""


def _samples(desk: Desk) -> list[dict[str, object]]:
    (journal,) = (desk.folder / ".benchsuite" / "runs").glob("*/samples.jsonl")
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    return [line["sample"] for line in lines if line["kind"] == "server"]


@needs_embedded
def test_the_shipped_soak_runs_in_short(desk: Desk, tmp_path: Path) -> None:
    """Every request is answered, memory, speed and the server's side are told, and the page too."""
    text = desk.scenario_text("soak").replace("warm_up: 64", "warm_up: 4")
    text = text.replace("requests: 64", "requests: 4").replace("requests: 32", "requests: 4")
    (desk.folder / "soak.yaml").write_text(text)
    done = desk.run("run", "soak.yaml", "--duration", "4 s")
    assert done.code in (0, 3), done.text  # so short a load may leave slopes unsure
    record = desk.last_record()
    found = {(one["name"], one["labels"].get("step")) for one in record["measurements"]}
    for step in ("warm-up", "soak", "after"):
        assert ("requests_failed", step) in found
    assert ("slots_busy_max", "soak") in found
    told = {gate["metric"]: gate["outcome"] for gate in record["gates"]}
    assert told['requests_failed{step="soak"}'] == "pass"
    assert told['requests_failed{step="after"}'] == "pass"
    assert "fail" not in told.values()
    assert record["duration"] == "4 s"
    assert any(sample.get("busy") for sample in _samples(desk))
    page = tmp_path / "page.html"
    (run,) = (desk.folder / ".benchsuite" / "runs").iterdir()
    assert desk.run("report", str(run), "--html", str(page)).code == 0
    assert "--duration" in page.read_text()
    assert "Requests, and the server under them" in page.read_text()


def test_a_server_that_tells_nothing_while_busy_leaves_gaps(desk: Desk) -> None:
    """Its /slots and /metrics are not answered for 8 s; requests go on, and nothing fails."""
    (desk.folder / "stalling.yaml").write_text(STALLING)
    told = "stall_after=1 stall_seconds=8"
    done = desk.run("run", "stalling.yaml", "--server", str(FAST_SERVER), FAST_SERVER=told)
    assert done.code == 0, done.text
    gaps = [sample for sample in _samples(desk) if sample.get("gap")]
    assert gaps, _samples(desk)
    assert not any("busy" in sample for sample in gaps)
    assert "brought no answer and are gaps" in done.text
