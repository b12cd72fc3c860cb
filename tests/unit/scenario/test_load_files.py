"""Keys of load steps that name a file of requests, and what has no place beside them."""

from __future__ import annotations

import pytest

from benchsuite.model.load import Arrivals
from benchsuite.model.sample import DatasetSpec
from benchsuite.model.scenario import LoadStep
from benchsuite.report.load_words import load_in_words
from benchsuite.scenario.load import parse_scenario
from benchsuite.scenario.load_step import MANY, requests_after_warm_up
from tests.unit.scenario.test_load_scenario import problems

HEAD = "title: t\nsteps:\n  - load: {as: s, "


def step(text: str) -> LoadStep:
    """The step with these keys."""
    (found,) = parse_scenario(f"{HEAD}{text}}}\n").steps
    assert isinstance(found, LoadStep)
    return found


def test_a_dataset_is_chats_in_a_loop_of_the_steps_choice() -> None:
    """By default lines of messages, each sent once, one at a time."""
    found = step("dataset: {file: data/a.jsonl}")
    assert found.source == DatasetSpec("data/a.jsonl", "messages", line=3)
    assert (found.api, found.arrivals, found.requests, found.duration) == (
        "chat",
        None,
        None,
        None,
    )
    assert found.sample is None
    every = (
        "{file: a.json, format: sharegpt, sample: 9, seed: 4, order: file, ask: first, "
        "min_chars: 2, max_chars: 90, skip_bad: 3}"
    )
    found = step(f"dataset: {every}, rate: 5, duration: 9 s")
    assert found.source == DatasetSpec(
        "a.json", "sharegpt", 9, 4, "file", "first", 2, 90, skip_bad=3, line=3
    )
    assert found.arrivals == Arrivals("constant", 5.0)


def test_a_trace_is_an_open_loop_by_its_file() -> None:
    """Of raw prompts, in Mooncake's form unless told otherwise."""
    found = step("trace: {file: t.jsonl, speed: 2.5, block: 64, sample: 10}, in_flight: 4")
    assert found.source == DatasetSpec("t.jsonl", "mooncake", 10, speed=2.5, block=64, line=3)
    assert (found.arrivals, found.api, found.in_flight) == (Arrivals("trace"), "completion", 4)
    found = step("trace: {file: t.jsonl, format: prompts}")
    assert found.source is not None
    assert found.source.format == "prompts"


def test_how_many_requests_a_file_makes_is_known_before_only_where_it_is_asked_for() -> None:
    """A gate that needs some is not refused for a file that nobody has looked into."""
    assert requests_after_warm_up(step("dataset: {file: a}")) == MANY
    assert requests_after_warm_up(step("dataset: {file: a, sample: 40}, warm_up: 5")) == 35
    assert requests_after_warm_up(step("dataset: {file: a, sample: 4}, requests: 90")) == 90
    assert requests_after_warm_up(step("trace: {file: a, sample: 4}, requests: 90")) == 4
    assert requests_after_warm_up(step("trace: {file: a}, duration: 5 s")) == MANY


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dataset: {file: a}, prompt: {tokens: 3}", "found 'prompt' and 'dataset'"),
        ("dataset: {file: a}, trace: {file: b}", "found 'dataset' and 'trace'"),
        ("requests: 3", "or 'trace', found none"),
        ("dataset: {sample: 3}", "'file' is missing"),
        ("dataset: {file: 'a\\b'}", "expected a path with forward slashes"),
        ("dataset: {file: a, format: mooncake}", "'mooncake' is unknown"),
        ("dataset: {file: a, speed: 2}", "unknown key 'speed'"),
        ("trace: {file: a, order: file}", "unknown key 'order'"),
        ("trace: {file: a, speed: 0}", "expected a number such as 2"),
        ("trace: {file: a, block: 513}", "a whole number of at least 1, at most 512"),
        ("dataset: {file: a, min_chars: 9, max_chars: 8}", "min_chars 9 is above max_chars 8"),
        *(
            (f"dataset: {{file: a}}, {key}", "the file of 'dataset' says what is sent; leave")
            for key in (
                "prefix: {tokens: 3}",
                "same: true",
                "distinct: 3",
                "turns: 2",
                "api: chat",
            )
        ),
        *(
            (f"trace: {{file: a}}, {key}", f"says when each request comes; leave '{key[:4]}")
            for key in ("rate: 3", "arrivals: poisson", "concurrency: 2", "users: 2", "think: 2 s")
        ),
    ],
)
def test_what_has_no_place_beside_a_file_is_refused_in_its_line(text: str, expected: str) -> None:
    """With the key to leave out."""
    found = problems(f"{HEAD}{text}}}\n")
    assert any(one.startswith("s.yaml:3: ") and expected in one for one in found), found


def test_a_step_with_a_file_is_told_in_words() -> None:
    """Of a trace its speed; of both the file."""
    words = load_in_words(step("trace: {file: t.jsonl, speed: 2}"), "", "", "")
    assert "when the trace says, at 2 times its speed" in words
    assert "requests of t.jsonl" in words
    words = load_in_words(step("dataset: {file: d.jsonl}, users: 3"), "", "", "")
    assert words.startswith("load s: each request once, 3 at once, requests of d.jsonl")
