"""Exact values that the order of concurrent requests decides are not compared by default."""

from __future__ import annotations

import msgspec

from benchsuite.gate.racing import Racing
from benchsuite.model.scenario import (
    CompleteStep,
    ConcurrentlyStep,
    LoadStep,
    LogprobsStep,
    PromptSpec,
    Step,
    TurnStep,
)
from tests.unit.gate import gate_example

PROMPT = PromptSpec(tokens=8)


def _racing(*steps: Step) -> Racing:
    return Racing(msgspec.structs.replace(gate_example.scenario(), steps=steps))


def test_what_comes_before_the_first_concurrent_step_is_compared() -> None:
    """Turn 1 is alone, turns 2 of both sessions run at once, turn 3 finds what they left."""
    turn = {name: TurnStep(name, PROMPT) for name in "AB"}
    both = ConcurrentlyStep(((turn["A"],), (turn["B"],)))
    racing = _racing(turn["A"], turn["B"], both, turn["A"])
    left_out = {
        (session, number): racing.leaves_out("cached_tokens", {"session": session, "turn": number})
        for session in "AB"
        for number in "123"
    }
    assert [key for key, out in left_out.items() if out] == [("A", "2"), ("A", "3"), ("B", "2")]


def test_a_load_with_one_worker_is_in_order() -> None:
    """Two workers are not."""
    labels = {"step": "crowd"}
    one, two = (_racing(LoadStep("crowd", 6, workers, PROMPT)) for workers in (1, 2))
    assert not one.leaves_out("cached_tokens", labels)
    assert two.leaves_out("cached_tokens", labels)
    assert two.leaves_out("prompt_cache_mib", {})
    assert not two.leaves_out("kv_mib", {})


def test_what_a_healthy_server_keeps_in_any_order_is_compared() -> None:
    """Leaks, excess and failed requests are 0 whoever comes first."""
    racing = _racing(LoadStep("crowd", 6, 3, PROMPT))
    for metric in ("leaks", "excess_cached_tokens", "requests_failed", "http_status"):
        assert not racing.leaves_out(metric, {"step": "crowd"})


def test_copies_and_vectors_at_once_count_as_requests() -> None:
    """Also a copy's own values, after vectors that were asked for four at a time."""
    racing = _racing(LogprobsStep("long", PROMPT, at_once=4), CompleteStep("copies", PROMPT))
    assert racing.leaves_out("text", {"request": "copies", "copy": "1"})
    assert not _racing(CompleteStep("copies", PROMPT)).any
