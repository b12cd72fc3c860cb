"""Shipped text gates stand on wide gaps, so that a difference means a fault and not a near-tie."""

from __future__ import annotations

import pytest

from benchsuite.scenario.load import load_scenario
from tests.integration.desk import REPOSITORY, Desk
from tests.integration.gaps import gaps_of

pytestmark = pytest.mark.server

SMALLEST = 0.1  # logprob between the two likeliest tokens, at every generated token


PER_SLOT, UNIFIED = ["--parallel", "2"], ["--parallel", "2", "--kv-unified"]


@pytest.mark.parametrize(
    ("name", "flags", "replies"),
    [
        ("scenarioB", PER_SLOT, 12),
        ("scenarioB", UNIFIED, 12),
        ("m0-single-session", PER_SLOT, 12),
        ("m0-single-session", UNIFIED, 12),
        ("m2-residency", ["--parallel", "1"], 6),
    ],
)
def test_gated_texts_have_no_near_tie(
    desk: Desk, name: str, flags: list[str], replies: int
) -> None:
    """Every generated token of every reply leads by at least 0.1."""
    scenario = load_scenario(REPOSITORY / "scenarios" / f"{name}.yaml")
    found = gaps_of(scenario, desk.tiny_model(), desk.folder, flags)
    assert len(found) == replies
    assert min(found.values()) >= SMALLEST, found
