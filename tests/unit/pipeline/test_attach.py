"""How an attached server is treated: its key, its pace, and what it declares."""

from __future__ import annotations

import asyncio
import time

import pytest

from benchsuite.errors import ConfigError, UsageError
from benchsuite.model.deployment import Deployment
from benchsuite.pipeline.attach import pace_of
from benchsuite.pipeline.command import read_options
from benchsuite.pipeline.options import RunOptions
from benchsuite.pipeline.prepare import prepare
from benchsuite.scenario.load import parse_scenario
from benchsuite.scenario.workspace import load_workspace

SCENARIO = parse_scenario(
    "title: t\nsteps:\n  - complete: {id: a, prompt: {tokens: 4}}\n"
    "gates:\n  - {metric: 'output_tokens{request=\"a\"}', min: 1}\n",
    "t",
    "t.yaml",
)


def _deployment(rate: float | None) -> Deployment:
    return Deployment(name="live", url="http://127.0.0.1:1", requests_per_second=rate)


def test_the_cap_can_be_lifted() -> None:
    """0 sends at once; not given is a cap of our choice."""
    assert pace_of(_deployment(0)) is None
    assert pace_of(_deployment(None)) is not None


@pytest.mark.parametrize(("rate", "requests", "least"), [(10.0, 21, 0.9), (0.5, 1, 0.0)])
def test_requests_wait_for_their_turn(rate: float, requests: int, least: float) -> None:
    """No more than the cap in any second; the first ones need not wait."""
    pace = pace_of(_deployment(rate))
    assert pace is not None

    async def send() -> float:
        started = time.monotonic()
        for _ in range(requests):
            await pace.acquire()
        return time.monotonic() - started

    assert asyncio.run(send()) >= least


def test_the_key_comes_from_the_variable_that_is_named() -> None:
    """It is read once, and a missing one is said before anything is sent."""
    options = RunOptions(url="http://127.0.0.1:1", api_key_env="MY_KEY")
    workspace = load_workspace()
    prepared = prepare(workspace, SCENARIO, options, {"MY_KEY": "sesame"})
    assert prepared.api_key == "sesame"
    assert prepared.target is None
    with pytest.raises(ConfigError, match="'MY_KEY' that should hold the server's API key"):
        prepare(workspace, SCENARIO, options, {})


def test_a_rate_is_for_servers_of_others() -> None:
    """A launched server is ours to load."""
    with pytest.raises(UsageError, match="--rate is for a running server"):
        prepare(load_workspace(), SCENARIO, RunOptions(requests_per_second=3.0), {})


def test_options_are_read_by_their_names() -> None:
    """Limits that were not given keep their defaults; what is no option of a run is left."""
    options = read_options(
        {"variants": ("B",), "sets": (), "seed": 3, "idle_limit": 5.0, "quiet": True}
    )
    assert options.variants == ("B",)
    assert options.seed == 3
    assert options.limits == {"idle": 5.0}
