"""`--duration`: which load steps it changes, and what it refuses."""

from __future__ import annotations

import pytest

from benchsuite.errors import ScenarioError, UsageError
from benchsuite.model.scenario import LoadStep, SweepStep
from benchsuite.scenario.lengthen import lengthen, parse_duration
from benchsuite.scenario.load import parse_scenario

_FILE = """\
title: t
steps:
  - load: {as: begin, requests: 10, prompt: {tokens: 8}}
  - load: {as: long, duration: 30 s, warm_up: 2, prompt: {tokens: 8}}
gates:
  - {metric: 'requests_failed{step="long"}', equals: 0, why: all}
"""


def test_only_what_ends_by_a_duration_is_lengthened() -> None:
    """A step that counts requests stays as it is, and the sentence names what was changed."""
    scenario, words = lengthen(parse_scenario(_FILE), parse_duration("8h"))
    begin, long = scenario.steps
    assert isinstance(begin, LoadStep)
    assert isinstance(long, LoadStep)
    assert (begin.requests, begin.duration) == (10, None)
    assert long.duration == 28_800
    assert "load long last 28800 s" in words


def test_sweeps_are_left_alone_and_it_is_said() -> None:
    """Their stages keep their duration; a scenario of sweeps alone is refused."""
    load = "{duration: 20 s, prompt: {tokens: 8}}"
    sweep = f"  - sweep: {{as: up, over: rate, values: [1, 2], load: {load}}}\n"
    scenario, words = lengthen(parse_scenario(_FILE.replace("gates:", f"{sweep}gates:")), 60)
    step = scenario.steps[-1]
    assert isinstance(step, SweepStep)
    assert step.load.duration == 20
    assert words.endswith("; sweep up was left as it is")
    with pytest.raises(UsageError, match="not for sweeps"):
        lengthen(parse_scenario(f"title: t\nsteps:\n{sweep}"), 60)


def test_a_scenario_without_a_duration_is_refused() -> None:
    """With what would help."""
    scenario = parse_scenario(_FILE.replace("duration: 30 s", "requests: 30"))
    with pytest.raises(UsageError, match="has none"):
        lengthen(scenario, 60)


def test_what_would_be_all_warm_up_is_refused() -> None:
    """Nothing would be measured."""
    scenario = parse_scenario(_FILE.replace("warm_up: 2", "warm_up: 10 s"))
    with pytest.raises(UsageError, match="warms up for 10 s"):
        lengthen(scenario, 5)


@pytest.mark.parametrize("text", ["", "0", "-3 s", "soon", "5 MiB", "1e9h", "604801", "8d"])
def test_no_time_is_refused(text: str) -> None:
    """With the option in the sentence."""
    with pytest.raises(UsageError, match="--duration"):
        parse_duration(text)


def test_a_load_lasts_no_longer_by_an_option_than_by_its_file() -> None:
    """Seven days, in the words that a file is refused with."""
    assert parse_duration("168h") == 7 * 86_400
    words = "expected a number such as 30 or 500 ms (above 0 and at most 604800), found '169h'"
    with pytest.raises(UsageError) as by_option:
        parse_duration("169h")
    with pytest.raises(ScenarioError) as by_file:
        parse_scenario(_FILE.replace("duration: 30 s", "duration: 169h"))
    assert words in str(by_option.value)
    assert words in str(by_file.value)
