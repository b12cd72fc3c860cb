"""What a sweep may say, and what cannot be together."""

from __future__ import annotations

import msgspec
import pytest

from benchsuite.model.load import Objective
from benchsuite.model.sample import Row, Sample
from benchsuite.model.scenario import SweepStep
from benchsuite.scenario.load import parse_scenario
from tests.unit.scenario.test_load_scenario import problems

LOAD = "load: {requests: 40, warm_up: 4, prompt: {tokens: 9}}"
GOALS = "objectives: {ttft_ms: {p95: 500 ms}, error_share: 1%}"


def step(text: str) -> SweepStep:
    """The step with these keys."""
    (found,) = parse_scenario(f"title: t\nsteps:\n  - sweep: {{as: s, {text}}}\n").steps
    assert isinstance(found, SweepStep)
    return found


def test_values_over_concurrency() -> None:
    """Each stage has its level and texts of its own."""
    found = step(f"over: concurrency, values: [1, 2, 4], {LOAD}, {GOALS}")
    assert list(found.values) == [1.0, 2.0, 4.0]
    assert found.objectives == (
        Objective("ttft_ms", "0.95", 500.0),
        Objective("error_share", None, 0.01),
    )
    second = found.at(2, 1)
    assert (second.name, second.concurrency, second.warm_up) == ("s", 2, 4)
    assert second.prompt_of(0).seed == found.at(1, 0).prompt_of(39).seed + 1


def test_each_stage_goes_on_in_its_file() -> None:
    """From its first row again after the last."""
    found = step("over: concurrency, values: [1, 2], load: {requests: 4, dataset: {file: x.jsonl}}")
    spec = found.load.source
    assert spec is not None
    rows = tuple(Row(number, prompt=str(number)) for number in range(1, 7))
    load = msgspec.structs.replace(found.load, sample=Sample(spec, "0", rows, 6))
    sweep = msgspec.structs.replace(found, load=load)

    def sent(number: int, rows: int) -> list[int]:
        stage = sweep.at(2, number, rows)
        taken = [stage.row_of(request) for request in range(4)]
        return [row.number for row in taken if row is not None]

    assert sweep.load.api == "chat"
    assert sent(0, 0) == [1, 2, 3, 4]
    assert sent(1, 4) == [5, 6, 1, 2]
    assert sent(2, 13) == [2, 3, 4, 5]


def test_a_search_over_rates_is_an_open_loop() -> None:
    """At each level users come at that rate."""
    load = "load: {duration: 5, arrivals: poisson, prompt: {tokens: 9}}"
    found = step(f"over: rate, search: {{from: 2.5, to: 40}}, {load}, {GOALS}")
    assert list(found.search or ()) == [2.5, 40.0]
    arrivals = found.at(2.5, 0).arrivals
    assert arrivals is not None
    assert (arrivals.kind, arrivals.rate) == ("poisson", 2.5)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"over: concurrency, values: [1], search: {{from: 1, to: 2}}, {LOAD}", "found both"),
        (f"over: concurrency, {LOAD}", "expected one of 'values' or 'search'"),
        (f"over: concurrency, values: [2, 1], {LOAD}", "levels ascend, and 1 follows 2"),
        (f"over: concurrency, values: [1.5], {LOAD}", "expected a whole number of users"),
        (f"over: concurrency, search: {{from: 1, to: 8}}, {LOAD}", "a search needs 'objectives'"),
        (
            f"over: concurrency, search: {{from: 1, to: 8}}, {LOAD}, objectives: {{}}",
            "expected at least one, found none; write for example 'objectives: {ttft_ms: {p95: 5",
        ),
        (
            f"over: concurrency, search: {{from: 1, to: 8}}, objectives: null, {LOAD}",
            "found nothing",
        ),
        (f"over: concurrency, search: {{from: 9, to: 8}}, {LOAD}, {GOALS}", "above to 8"),
        (f"over: concurrency, values: [80], {LOAD}", "concurrency 80 is above the 40 requests"),
        (
            "over: concurrency, values: [1], load: {prompt: {tokens: 9}}",
            "give 'requests', 'duration' or both",
        ),
        (
            f"over: concurrency, values: [1], {LOAD}, objectives: {{e2e_from_due_ms: {{p50: 1}}}}",
            "only an open loop has 'e2e_from_due_ms'; write 'e2e_ms'",
        ),
        (
            f"over: concurrency, values: [1], {LOAD.replace('{r', '{api: embedding, r')}, {GOALS}",
            "an embedding has no 'ttft_ms'; write 'e2e_ms'",
        ),
        (
            "over: concurrency, values: [1], load: {requests: 4, rate: 3, prompt: {tokens: 9}}",
            "unknown key 'rate'",
        ),
        (
            "over: rate, values: [1], load: {trace: {file: t.jsonl}}",
            "unknown key 'trace'",
        ),
    ],
)
def test_what_is_wrong_is_said_at_its_line(text: str, problem: str) -> None:
    """At file:line."""
    found = problems(f"title: t\nsteps:\n  - sweep: {{as: s, {text}}}\n")
    assert any(problem in one and ":3: " in one for one in found), found
