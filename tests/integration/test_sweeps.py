"""Sweeps against a server of a known knee: it serves four requests at once, 200 ms each.

So it serves 20 a second at most, and as many from four users on; what more users ask waits in turn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.desk import Desk

pytestmark = pytest.mark.server

FAST_SERVER = Path(__file__).parents[1] / "servers" / "fast_server.py"
AT_ONCE, SERVICE_MS = 4, 200

USERS = """title: users
server: {parallel: 4, ctx-size: 4096}
steps:
  - sweep:
      as: users
      over: concurrency
      LEVELS
      load: {requests: 40, prompt: {tokens: 8}, max_tokens: 2}
      objectives: {e2e_ms: {p50: 280 ms}, error_share: 1%}
"""

RATES = """title: rates
server: {parallel: 4, ctx-size: 4096}
steps:
  - sweep:
      as: rates
      over: rate
      search: {from: 8, to: 64}
      load: {duration: 4 s, prompt: {tokens: 8}, max_tokens: 2}
      objectives: {e2e_from_due_ms: {p50: 600 ms}}
"""


def _swept(desk: Desk, text: str) -> tuple[dict[str, float], dict[str, Any], str]:
    """What the sweep as a whole came to, its summary, and what was printed."""
    (desk.folder / "sweep.yaml").write_text(text)
    told = f"service_ms={SERVICE_MS}"
    done = desk.run("run", "sweep.yaml", "--server", str(FAST_SERVER), FAST_SERVER=told)
    assert done.code == 3, done.text  # without a gate nothing is judged
    record = desk.last_record()
    (sweep,) = record["launches"][0]["sweeps"]
    whole = {
        one["name"]: one["value"]
        for one in record["measurements"]
        if one["labels"] == {"step": sweep["name"]}
    }
    return whole, sweep, done.text


def test_a_search_over_users_finds_the_knee_within_one_step(desk: Desk) -> None:
    """It doubles beyond the knee, goes no higher, and comes back to it."""
    whole, sweep, _ = _swept(desk, USERS.replace("LEVELS", "search: {from: 2, to: 32}"))
    driven = [one["stage"] for one in sweep["stages"]]
    assert driven[:4] == ["2", "4", "8", "6"]
    assert whole["knee_load"] in (AT_ONCE, AT_ONCE + 1)
    assert whole["highest_load"] in (AT_ONCE, AT_ONCE + 1)
    capacity = AT_ONCE / (SERVICE_MS / 1000)
    assert 0.4 * capacity < whole["goodput_requests_per_second"] <= capacity
    assert {one["stage"]: one["verdict"] for one in sweep["stages"]}["8"] == "not met"
    assert f"{whole['highest_load']:g} met them" in sweep["ended"]


def test_stepping_through_values_stops_where_the_server_is_over_saturated(desk: Desk) -> None:
    """What is above is not driven, and the table says why."""
    whole, sweep, said = _swept(desk, USERS.replace("LEVELS", "values: [2, 4, 8, 16, 32]"))
    # with four users the server idles while we answer, with eight it may just serve more for it
    last = sweep["stages"][-1]["stage"]
    assert last in ("8", "16")
    assert whole["knee_load"] == AT_ONCE
    assert f"ended: the server is over-saturated at {last}; the levels above were not" in said
    assert f"the server is over-saturated at {last}: " in said


def test_a_stage_serves_no_more_than_was_offered(desk: Desk) -> None:
    """Five requests in a second are five a second, though the last comes after 0.8 s."""
    text = RATES.replace("search: {from: 8, to: 64}", "values: [5]").replace("4 s", "1 s")
    (desk.folder / "slow.yaml").write_text(text)
    done = desk.run("run", "slow.yaml", "--server", str(FAST_SERVER), FAST_SERVER="service_ms=4")
    assert done.code == 3, done.text
    (rate,) = [
        one["value"]
        for one in desk.last_record()["measurements"]
        if one["name"] == "requests_per_second"
    ]
    assert 0 < rate <= 5


def test_a_search_over_rates_ends_at_what_the_server_serves(desk: Desk) -> None:
    """About 20 a second: at 32 half of the users wait longer than the objective allows."""
    whole, sweep, said = _swept(desk, RATES)
    assert [one["stage"] for one in sweep["stages"]][:3] == ["8", "16", "32"]
    assert 16 <= whole["highest_load"] < 28
    saturated = {one["stage"] for one in sweep["stages"] if one["saturated"]}
    assert "32" in saturated
    assert "of 32 offered" in said


def test_a_backlog_longer_than_the_idle_limit_is_no_hang(desk: Desk) -> None:
    """Twice what the server carries, for 4 s: the last wait 4 s for one that always answers."""
    step = "{as: s, rate: 40, duration: 4 s, prompt: {tokens: 8}, max_tokens: 2}"
    gate = "{metric: 'requests_failed{step=\"s\"}', equals: 0}"
    (desk.folder / "over.yaml").write_text(
        "title: over\nserver: {parallel: 4, ctx-size: 4096}\n"
        f"steps:\n  - load: {step}\ngates:\n  - {gate}\n"
    )
    told = f"service_ms={SERVICE_MS}"
    words = ("run", "over.yaml", "--idle-limit", "1", "--server", str(FAST_SERVER))
    done = desk.run(*words, FAST_SERVER=told)
    assert done.code == 0, done.text
    values = {
        one["name"]: one["value"]
        for one in desk.last_record()["measurements"]
        if one["labels"] == {"quantile": "0.95", "step": "s"}
    }
    assert values["ttft_from_due_ms"] > 2000
