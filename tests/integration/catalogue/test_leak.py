"""Growth with requests: a leak is found by its slope, and a cache that fills is let pass."""

from __future__ import annotations

import sys

import pytest

from tests.integration.desk import Desk, lying

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(sys.platform != "linux", reason="anonymous memory is told by Linux only"),
]


def slope_of(desk: Desk) -> tuple[float, tuple[float, float]]:
    """The slope of the load step of the last run, with its interval."""
    (found,) = (
        m
        for m in desk.last_record()["measurements"]
        if m["name"] == "anon_mib_per_request" and m["labels"] == {"step": "many"}
    )
    low, high = found["interval"]
    return found["value"], (low, high)


def test_a_healthy_server_passes(desk: Desk) -> None:
    """76 requests after 24 of warm-up take nothing more, with an interval that says so."""
    done = desk.run("run", "leak", "--server", "embedded")
    assert done.code == 0, done.text
    value, (low, high) = slope_of(desk)
    assert low <= value <= high < 0.1


def test_a_leak_of_a_mib_a_request_is_found(desk: Desk) -> None:
    """The gate fails with the slope, which is 1 MiB to within a tenth; nothing else fails."""
    server = lying(desk.folder / "llama-server", "grows")
    done = desk.run("run", "leak", "--server", str(server))
    assert done.code == 1, done.text
    value, (low, _) = slope_of(desk)
    assert value == pytest.approx(1, abs=0.1)
    assert low > 0.25
    failed = [g["metric"] for g in desk.last_record()["gates"] if g["outcome"] == "fail"]
    assert failed == ['anon_mib_per_request{step="many"}']


def test_a_server_that_fills_a_cache_is_let_pass(desk: Desk) -> None:
    """16 MiB over the first requests, and no more then."""
    server = lying(desk.folder / "llama-server", "fills")
    done = desk.run("run", "leak", "--server", str(server))
    assert done.code == 0, done.text


def test_a_host_prompt_cache_that_fills_is_let_pass(desk: Desk) -> None:
    """A cache of 1 MiB is full long before the end, and is overwritten from then on."""
    done = desk.run("run", "leak", "--server", "embedded", "--set", "cache-ram=1")
    assert done.code == 0, done.text


def test_few_requests_give_no_slope(desk: Desk) -> None:
    """A scenario with fewer than 64 after its warm-up is refused with the count."""
    text = desk.scenario_text("leak").replace("requests: 100", "requests: 87")
    (desk.folder / "short.yaml").write_text(text)
    done = desk.run("check", "short.yaml")
    assert done.code == 2
    assert "needs at least 64 requests after warm-up, and load 'many' has 63" in done.text
