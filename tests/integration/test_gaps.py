"""Shipped text gates stand on wide gaps, so that a difference means a fault and not a near-tie."""

from __future__ import annotations

import re

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


@pytest.mark.parametrize("name", ["m3-pipeline", "m5-stack"])
def test_the_texts_of_the_variants_have_no_near_tie(desk: Desk, name: str) -> None:
    """Every generated token of the turns that are compared leads by at least 0.1, in the baseline
    and in every variant that has flags of its own."""
    scenario = load_scenario(REPOSITORY / "scenarios" / f"{name}.yaml")
    for variant in scenario.variants.values():
        if variant.require.overlay:
            continue
        flags = ["--parallel", "2", "--threads", "1"]
        for flag, value in variant.flags.items():
            assert isinstance(value, str)
            flags += _SWITCHES.get((flag, value), [f"--{flag}", value])
        found = gaps_of(scenario, desk.tiny_model(), desk.folder, flags)
        gated = {key: gap for key, gap in found.items() if _GATED.fullmatch(key)}
        assert len(gated) == 8
        assert min(gated.values()) >= SMALLEST, (variant.name, gated)


_GATED = re.compile(r"[AB]/[12]|request/(alone|after)-[01]")
_SWITCHES = {
    ("kv-unified", "true"): ["--kv-unified"],
    ("cont-batching", "false"): ["--no-cont-batching"],
}


@pytest.mark.parametrize(
    ("name", "gated", "count"),
    [
        ("slot-state", r"request/.*", 7),
        ("slot-damage", r"request/.*", 8),
        ("m1-eviction", r"[ABC]/.*|request/afterwards", 8),
        ("context-shift", r"request/afterwards", 1),
    ],
)
def test_texts_that_are_gated_have_no_near_tie(
    desk: Desk, name: str, gated: str, count: int
) -> None:
    """The requests whose text is compared with another variant's, or another request's."""
    scenario = load_scenario(REPOSITORY / "scenarios" / f"{name}.yaml")
    found = gaps_of(scenario, desk.tiny_model(), desk.folder, ["--parallel", "2"])
    chosen = {key: gap for key, gap in found.items() if re.fullmatch(gated, key)}
    assert len(chosen) == count
    assert min(chosen.values()) >= SMALLEST, chosen
