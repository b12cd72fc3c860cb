"""Warm-up in a scenario file, and the gates that it leaves without a value."""

from __future__ import annotations

import pytest

from benchsuite.errors import ScenarioError
from benchsuite.model.scenario import CompleteStep, LoadStep, TurnStep
from benchsuite.report.plan import step_in_words
from benchsuite.scenario.load import parse_scenario

FILE = """title: t
sessions:
  A: {}
steps:
  - turn: {session: A, user: {tokens: 4}, warm_up: true}
  - turn: {session: A, user: {tokens: 4}}
  - complete: {id: one, prompt: {text: hello}, warm_up: true}
  - load: {as: many, requests: 80, warm_up: 16, prompt: {tokens: 4}}
  - load: {as: few, requests: 20, prompt: {tokens: 4}}
"""


def problems(gate: str, text: str = FILE) -> list[str]:
    """What is wrong with a file of this gate, without places."""
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(f"{text}gates:\n  - {gate}\n", display="s.yaml")
    return [problem.split(": ", 1)[1] for problem in caught.value.problems]


def test_steps_know_their_warm_up_and_tell_it() -> None:
    """Turns and completes by themselves, a load by its first requests."""
    text = f"{FILE}gates:\n  - {{metric: ttft_ms, max: 100 ms}}\n"
    turn, other, complete, load, few = parse_scenario(text, display="s.yaml").steps
    assert isinstance(turn, TurnStep)
    assert isinstance(other, TurnStep)
    assert isinstance(complete, CompleteStep)
    assert isinstance(load, LoadStep)
    assert isinstance(few, LoadStep)
    assert (turn.warm_up, other.warm_up, complete.warm_up) == (True, False, True)
    assert (load.warm_up, few.warm_up) == (16, 0)
    assert step_in_words(turn).endswith("; warm-up, not timed")
    assert "warm-up" not in step_in_words(other)
    assert step_in_words(load).endswith("; the first 16 requests are warm-up, not timed")


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        (
            '{metric: \'ttft_ms{session="A",turn="1"}\', max: 1}',
            "selects a warm-up only, and its latency is not measured",
        ),
        (
            "{metric: 'e2e_ms{request=\"one\"}', max: 1}",
            "selects a warm-up only",
        ),
        (
            "{metric: 'anon_mib_per_request{step=\"few\"}', max: 1}",
            "needs at least 64 requests after warm-up, and load 'few' has 20",
        ),
        ("{metric: 'anon_mib_per_request{step=\"none\"}', max: 1}", "no step is called 'none'"),
    ],
)
def test_gates_on_what_is_left_out_are_refused(gate: str, words: str) -> None:
    """Before anything starts."""
    (only,) = problems(gate)
    assert words in only


@pytest.mark.parametrize(
    "gate",
    [
        '{metric: \'cached_tokens{session="A",turn="1"}\', min: 0}',
        '{metric: \'ttft_ms{session="A",turn=~".*"}\', max: 100}',
        "{metric: 'anon_mib_per_request{step=\"many\"}', max: 1}",
        "{metric: anon_mib_per_request, max: 1}",
        "{metric: ttft_ms, regression: {worse_than: 10%}}",
    ],
)
def test_other_gates_are_not(gate: str) -> None:
    """Counts of a warm-up, the rest of a session, the launch's median."""
    parse_scenario(f"{FILE}gates:\n  - {gate}\n", display="s.yaml")


def test_a_median_needs_a_request_that_is_timed() -> None:
    """A launch of loads alone has none of its own, nor one of warm-up alone."""
    alone = "title: t\nsteps:\n  - complete: {id: one, prompt: {text: hello}, warm_up: true}\n"
    (only,) = problems("{metric: ttft_ms, max: 1}", alone)
    assert "selects nothing that the steps will make" in only
    (slope,) = problems("{metric: anon_mib_per_request, max: 1}", alone)
    assert "the steps make 0" in slope


def test_a_load_of_warm_up_alone_is_refused() -> None:
    """Nothing would be left to measure."""
    text = FILE.replace("warm_up: 16", "warm_up: 80")
    (only,) = problems("{metric: ttft_ms, max: 1}", text)
    assert "warm_up 80 leaves none of the 80 requests to measure" in only
