"""Noisy gates on a real server over several launches: what each verdict stands on."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.integration.desk import Desk, wrapper

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(sys.platform != "linux", reason="anonymous memory is told by Linux only"),
]

SCENARIO = """title: memory and latency of three launches
server:
  parallel: 1
  ctx-size: {min: 8192, per: slot}
steps:
  - complete: {id: first, prompt: {tokens: 40, seed: 1}, max_tokens: 2, warm_up: true}
  - complete: {id: second, prompt: {tokens: 40, seed: 2}, max_tokens: 2}
  - complete: {id: third, prompt: {tokens: 40, seed: 3}, max_tokens: 2}
gates:
  - metric: 'anon_mib{at="end"}'
    regression: {worse_than: 10%, and_by: 4 MiB}
  - metric: ttft_ms
    regression: {worse_than: 10%}
  - metric: server_start_ms
    max: 600 s
"""


def gates_of(desk: Desk) -> dict[str, dict[str, Any]]:
    """The gates of the last run by metric."""
    return {gate["metric"]: gate for gate in desk.last_record()["gates"]}


def test_three_launches_block_on_memory_and_advise_on_latency(desk: Desk) -> None:
    """The same server passes; one whose KV weighs half as much again fails, with the difference."""
    (desk.folder / "three.yaml").write_text(SCENARIO)
    run = ("run", "three.yaml", "--trials", "3", "--server")
    assert desk.run(*run, "embedded").code == 0
    assert desk.run("accept", "last", "--reason", "first").code == 0

    same = desk.run(*run, "embedded")
    assert same.code == 0, same.text
    memory, latency = (gates_of(desk)[name] for name in ('anon_mib{at="end"}', "ttft_ms"))
    assert (memory["outcome"], memory["level"]) == ("pass", "block")
    assert (memory["estimate"]["baseline_n"], memory["estimate"]["candidate_n"]) == (3, 3)
    assert memory["estimate"]["warnings"][0] == "3 launches: an interval needs 5"
    assert (latency["outcome"], latency["level"]) == ("inconclusive", "advise")
    assert latency["estimate"]["warnings"] == [
        "3 launches: an interval needs 5",
        "of each launch median of 2 requests, 1 of warm-up left out",
    ]
    assert "3 launches: an interval needs 5" in " ".join(same.text.split())
    assert gates_of(desk)["server_start_ms"]["estimate"]["candidate_n"] == 3

    server = wrapper(desk.folder / "llama-server", ["--cache-type-k", "f32"])
    heavier = desk.run(*run, str(server))
    memory = gates_of(desk)['anon_mib{at="end"}']
    assert heavier.code == 1, heavier.text
    assert (memory["outcome"], memory["state"]) == ("fail", "regressed"), heavier.text
    assert memory["estimate"]["value"] == pytest.approx(8, abs=2)
