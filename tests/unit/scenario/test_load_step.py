"""What a load step may say, and what cannot be together."""

from __future__ import annotations

from typing import Any

import pytest

from benchsuite.drive.arrivals import arrival_times
from benchsuite.errors import ScenarioError
from benchsuite.metrics.catalogue import SLOPES
from benchsuite.model.load import Arrivals, Length, Think
from benchsuite.model.scenario import LoadStep
from benchsuite.scenario.load import parse_scenario
from benchsuite.scenario.load_step import MANY, requests_after_warm_up
from tests.unit.scenario.test_load_scenario import problems

HEAD = "title: t\nsteps:\n  - load: {as: s, prompt: {tokens: 9}, "


def step(text: str) -> LoadStep:
    """The step with these keys."""
    (found,) = parse_scenario(f"{HEAD}{text}}}\n").steps
    assert isinstance(found, LoadStep)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("duration: 2 min", {"requests": None, "duration": 120.0, "concurrency": 1}),
        ("requests: 9, users: 3, think: 500 ms", {"concurrency": 3, "think": Think("fixed", 0.5)}),
        (
            "requests: 9, think: {uniform: {min: 1, max: 2 s}}",
            {"think": Think("uniform", 1.0, 2.0)},
        ),
        (
            "requests: 9, think: {exponential: {mean: 3}}",
            {"think": Think("exponential", 3.0)},
        ),
        ("duration: 5, rate: 200", {"arrivals": Arrivals("constant", 200.0)}),
        (
            "duration: 5, rate: 0.5, arrivals: poisson, in_flight: 4",
            {"arrivals": Arrivals("poisson", 0.5), "in_flight": 4},
        ),
        (
            "requests: 9, arrivals: {bursts: {size: 3, every: 2 s}}",
            {"arrivals": Arrivals("bursts", size=3, every=2.0)},
        ),
        (
            "duration: 9, arrivals: {ramp: {from: 1, to: 50}}",
            {"arrivals": Arrivals("ramp", 1.0, 50.0)},
        ),
        ("requests: 9, turns: 3", {"turns": 3, "api": "chat"}),
        ("requests: 9, api: embedding", {"api": "embedding"}),
        ("requests: 9, warm_up: 3", {"warm_up": 3, "warm_up_seconds": 0.0}),
        ("duration: 9, warm_up: 1500 ms", {"warm_up": 0, "warm_up_seconds": 1.5}),
        ("requests: 9, prefix: {tokens: 4}, prefix_share: 60%", {"prefix_share": 0.6}),
        (
            "requests: 9, output_tokens: {uniform: {min: 2, max: 8}}",
            {"output_tokens": Length("uniform", 2, 8)},
        ),
        ("requests: 9, timeout: 2 s, seed: 7, distinct: 4", {"timeout": 2.0, "seed": 7}),
    ],
)
def test_each_key_arrives(text: str, expected: dict[str, Any]) -> None:
    """In seconds, tokens, or users a second."""
    found = step(text)
    assert {name: getattr(found, name) for name in expected} == expected


def test_prompts_of_mixed_lengths_are_a_pool_that_is_sent_in_turn() -> None:
    """Each text has its own length, the same whenever it is sent."""
    text = (
        "title: t\nsteps:\n  - load: {as: s, duration: 5, distinct: 3, seed: 2, prompt_tokens: "
        "{log_normal: {median: 20, sigma: 0.5, min: 5, max: 90}}}\n"
    )
    (found,) = parse_scenario(text).steps
    assert isinstance(found, LoadStep)
    specs = [found.prompt_of(number) for number in range(7)]
    assert specs[:3] == specs[3:6]
    assert specs[6] == specs[0]
    assert [spec.seed for spec in specs[:3]] == [2, 3, 4]
    assert all(5 <= (spec.tokens or 0) <= 90 for spec in specs)
    assert len({spec.tokens for spec in specs}) > 1
    assert found.texts == 3


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("requests: 9", 9),
        ("requests: 9, same: true", 1),
        ("duration: 9", 256),
        ("requests: 20, duration: 9", 20),
        ("requests: 2000000, distinct: 64", 64),
    ],
)
def test_how_many_texts_there_are(text: str, texts: int) -> None:
    """One a request where it ends by count; a pool where it ends by time."""
    assert step(text).texts == texts


def test_a_share_of_the_users_has_the_prefix() -> None:
    """The same users in every run; all turns of one alike."""
    found = step("requests: 9, prefix: {tokens: 4}, prefix_share: 60%")
    having = [found.is_prefixed(user) for user in range(1000)]
    assert 550 < sum(having) < 650
    assert having == [found.is_prefixed(user) for user in range(1000)]
    assert not step("requests: 9").is_prefixed(0)
    assert step("requests: 9, prefix: {tokens: 4}").is_prefixed(0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("concurrency: 1", "load 's': how long is it? give 'requests', 'duration' or both"),
        ("requests: 9, in_flight: 2", "load 's': 'in_flight' limits an open loop, and this one"),
        ("duration: 9, rate: 5, users: 2", "load 's': 'rate' or 'arrivals' make an open loop"),
        ("duration: 9, rate: 5, think: 2", "load 's': a user of an open loop asks once"),
        ("requests: 9, users: 2, concurrency: 2", "load 's': 'users' and 'concurrency' are one"),
        ("duration: 9, arrivals: poisson", "load 's': arrivals are 'poisson', but how many? give"),
        (
            "duration: 9, rate: 5, arrivals: {bursts: {size: 2, every: 1}}",
            "load 's': 'bursts' has rates of its own; leave 'rate' out",
        ),
        (
            "requests: 9, arrivals: {ramp: {from: 1, to: 2}}",
            "load 's': a ramp goes over the step's duration; give a 'duration'",
        ),
        ("requests: 9, api: embedding, max_tokens: 4", "load 's': an embedding generates nothing"),
        (
            "requests: 9, api: embedding, turns: 2",
            "load 's': 'turns' make a chat, and api is embed",
        ),
        ("requests: 9, turns: 2, api: completion", "load 's': 'turns' make a chat, and api is"),
        ("requests: 9, prefix_share: 5%", "load 's': 'prefix_share' is a share of the users who"),
        ("requests: 9, warm_up: soon", "'warm_up' of step 'load': expected a whole number of"),
        ("requests: 9, warm_up: -1", "'warm_up' of step 'load': expected a whole number of"),
        ("requests: 9, warm_up: 9", "load 's': warm_up 9 leaves none of the 9 requests"),
        ("duration: 9, warm_up: 9 s", "load 's': warm_up of 9 s leaves nothing of the 9 s"),
        ("requests: 200000", "load 's': 200000 different prompts are too many to make and keep"),
        ("requests: 9, same: true, distinct: 2", "load 's': 'distinct' is for prompts of so many"),
        (
            "requests: 9, max_tokens: 3, output_tokens: {uniform: {min: 1, max: 2}}",
            "load 's': give one of 'max_tokens' and 'output_tokens'",
        ),
        (
            "requests: 9, output_tokens: {uniform: {min: 5, max: 2}}",
            "load 's': 'output_tokens': min 5 is above max 2",
        ),
        (
            "requests: 9, output_tokens: {log_normal: {median: 9, sigma: 1, min: 1, max: 5}}",
            "load 's': 'output_tokens': the median 9 is outside 1 to 5",
        ),
        (
            "requests: 9, prompt_tokens: {uniform: {min: 1, max: 2}}",
            "step 'load': expected one of 'prompt', 'prompt_tokens', 'dataset' or 'trace', found",
        ),
        ("duration: 9, arrivals: sometimes", "'arrivals' of step 'load': 'sometimes' is unknown"),
        ("requests: 9, think: {poisson: 3}", "unknown kind of think time 'poisson'"),
    ],
)
def test_what_cannot_be_is_one_problem_with_its_remedy(text: str, expected: str) -> None:
    """Before anything starts, at its line."""
    (found,) = problems(f"{HEAD}{text}}}\n")
    assert found.split(": ", 1)[1].startswith(expected), found


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("requests: 90, warm_up: 10", 80),
        ("duration: 10, rate: 20", 200),
        ("duration: 10, rate: 20, warm_up: 5 s", 100),
        ("requests: 50, duration: 10, rate: 20", 50),
        ("requests: 150, rate: 20, warm_up: 5 s", 50),
        ("duration: 60, warm_up: 40 s, arrivals: {ramp: {from: 1, to: 9}}", 153),
        ("duration: 60, warm_up: 40 s, arrivals: {ramp: {from: 9, to: 1}}", 46),
        ("duration: 30, arrivals: {bursts: {size: 150, every: 60}}", 150),
        ("duration: 30, rate: 0.1, warm_up: 1 s", 2),
        ("duration: 10", MANY),
    ],
)
def test_how_many_will_be_measured(text: str, count: int) -> None:
    """For gates that need so many."""
    assert requests_after_warm_up(step(text)) == count


@pytest.mark.parametrize(
    "text",
    [
        "duration: 60, warm_up: 40 s, arrivals: {ramp: {from: 1, to: 9}}",
        "duration: 61, warm_up: 13 s, arrivals: {ramp: {from: 9, to: 0.5}}",
        "duration: 31, warm_up: 7 s, arrivals: {bursts: {size: 7, every: 0.7}}",
        "duration: 30, warm_up: 9.5 s, rate: 0.3",
        "duration: 3, warm_up: 1 s, rate: 1000",
    ],
)
def test_they_are_as_many_as_will_arrive(text: str) -> None:
    """No chance is in these schedules."""
    made = step(text)
    assert made.arrivals is not None
    times = arrival_times(made.arrivals, made.duration, 0)
    after = sum(at_ns >= made.warm_up_seconds * 1e9 for at_ns in times)
    assert requests_after_warm_up(made) == after


def gated(metric: str) -> str:
    """A file with a gate on an open step `s` and a closed step `c`."""
    return (
        "title: t\nsteps:\n"
        "  - load: {as: s, duration: 5, rate: 9, prompt: {tokens: 9}}\n"
        "  - load: {as: c, requests: 5, prompt: {tokens: 9}}\n"
        f"gates:\n  - {{metric: '{metric}', max: 100}}\n"
    )


@pytest.mark.parametrize(
    "metric",
    [
        'ttft_ms{quantile="0.95",step="s"}',
        'itl_ms{quantile="0.5",step="c"}',
        'ttft_from_due_ms{step="s"}',
        'error_share{step="c"}',
        'send_lateness_ms{quantile="0.99",step="s"}',
    ],
)
def test_gates_know_what_a_load_makes(metric: str) -> None:
    """Medians and quantiles of its steps."""
    assert [gate.metric for gate in parse_scenario(gated(metric)).gates] == [metric]


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ('ttft_ms{quantile="0.999",step="s"}', "there is no quantile '0.999'"),
        ('wait_ms{step="c"}', "step 'c' has no wait_ms"),
    ],
)
def test_a_gate_on_what_no_load_makes_is_refused(metric: str, expected: str) -> None:
    """A closed loop has no schedule to wait from."""
    (found,) = problems(gated(metric))
    assert expected in found


@pytest.mark.parametrize("metric", ["ttft_ms", "itl_ms", "output_tokens", "cached_tokens"])
def test_a_gate_on_tokens_of_embeddings_is_refused_beforehand(metric: str) -> None:
    """There will be none; what a load of embeddings has may be gated."""
    gates = "gates:\n  - {metric: '%s{step=\"s\"}', max: 9, why: w}\n"
    text = f"{HEAD}requests: 9, api: embedding}}\n"
    assert any(
        one.startswith(f"s.yaml:5: step 's' has no {metric}")
        for one in problems(text + gates % metric)
    )
    assert parse_scenario(text + gates % "e2e_ms").gates


@pytest.mark.parametrize("metric", sorted(SLOPES))
def test_memory_of_a_load_of_embeddings_may_be_gated(metric: str) -> None:
    """It grows with requests, whatever they ask for."""
    gates = f"gates:\n  - {{metric: '{metric}{{step=\"s\"}}', max: 9, why: w}}\n"
    assert parse_scenario(f"{HEAD}requests: 300, api: embedding}}\n{gates}").gates


def test_other_arrivals_are_told_with_every_form_there_is() -> None:
    """Bursts and ramps too, which are no single word."""
    text = (
        "title: t\nsteps:\n"
        "  - load: {as: a, rate: 5, arrivals: gamma, duration: 5 s, prompt: {tokens: 8}}\n"
    )
    words = r"valid words are: constant, poisson, \{bursts: .*ramp"
    with pytest.raises(ScenarioError, match=words):
        parse_scenario(text)
