"""Shipped text gates stand on wide gaps, so that a difference means a fault and not a near-tie."""

from __future__ import annotations

import pytest

from benchsuite.scenario.load import load_scenario
from tests.integration.desk import REPOSITORY, Desk
from tests.integration.gaps import gaps_of

pytestmark = pytest.mark.server

SMALLEST = 0.1  # logprob between the two likeliest tokens, at every generated token


@pytest.mark.parametrize("flags", [["--parallel", "2"], ["--parallel", "2", "--kv-unified"]])
def test_the_text_of_scenario_b_has_no_near_tie(desk: Desk, flags: list[str]) -> None:
    """Every generated token of every turn leads by at least 0.1, in both KV layouts."""
    scenario = load_scenario(REPOSITORY / "scenarios" / "scenarioB.yaml")
    found = gaps_of(scenario, desk.tiny_model(), desk.folder, flags)
    assert len(found) == 4
    assert min(found.values()) >= SMALLEST, found
