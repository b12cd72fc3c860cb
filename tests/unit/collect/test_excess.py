"""Cached tokens beyond what was there to be reused are counted, and never guessed."""

from __future__ import annotations

import asyncio
from typing import cast

import msgspec

from benchsuite.client.api import LlamaClient
from benchsuite.client.reply import Copy
from benchsuite.collect.excess import Excess, by_step, excess_of, measure_excess
from benchsuite.collect.explain import Asked
from tests.unit.collect.test_explain import PROMPT, Speaker, served


def excess(*asked: Asked) -> dict[str, int | str]:
    """What is found for each request: a count, or why there is none."""
    found = asyncio.run(excess_of(cast(LlamaClient, Speaker()), asked))
    return {one.labels["request"]: one.why if one.tokens is None else one.tokens for one in found}


def test_what_others_left_may_be_reused() -> None:
    """A prompt that goes on from another's prompt and reply, all but its last token."""
    longer = f"{PROMPT} yes it is so and more"
    assert excess(served("a", PROMPT, 0), served("b", longer, 2, cached=44)) == {"a": 0, "b": 0}


def test_more_than_the_common_prefix_is_an_excess() -> None:
    """One word of 40 differs: what comes after it cannot have been there."""
    other = PROMPT.replace("word20", "thing")
    found = excess(served("a", PROMPT, 0), served("b", other, 2, cached=30))
    assert found == {"a": 0, "b": 9}  # <s> and 20 words are common


def test_requests_that_overlap_may_share() -> None:
    """The bound is never too low: one that was under way may have been there first."""
    second = served("b", PROMPT, 0, cached=40)
    assert excess(served("a", PROMPT, 0), second)["b"] == 0


def test_the_first_request_can_reuse_nothing() -> None:
    """Whatever it claims was another's."""
    assert excess(served("a", PROMPT, 0, cached=5))["a"] == 5


def test_unknown_tokens_are_not_called_an_excess() -> None:
    """Where the server counts the other prompt otherwise, nothing is said."""
    first = served("a", PROMPT, 0)
    reply = msgspec.structs.replace(first.reply, prompt_tokens=7)
    other = Asked(msgspec.structs.replace(first.served, reply=reply), 0)
    found = excess(other, served("b", PROMPT, 2, cached=30))
    assert "has 41 tokens and not 7" in str(found["b"])


def test_any_copy_may_have_been_left() -> None:
    """Of several completions it is not known which a slot kept: all of its output may be there."""
    first = served("a", PROMPT, 0)
    copies = (Copy(" yes it is so", 0, 41, 4, 0), Copy(" no it is not", 0, 41, 4, 1))
    reply = msgspec.structs.replace(first.reply, copies=copies)
    other = Asked(msgspec.structs.replace(first.served, reply=reply), 0)
    longer = f"{PROMPT} no it is not so"
    assert excess(other, served("b", longer, 2, cached=45))["b"] == 0


def test_a_load_step_counts_its_worst_request() -> None:
    """One excess is enough; without one, an unknown leaves the step unknown."""
    step = {"step": "s", "request": "1"}
    assert by_step([Excess(step, 0), Excess(step, 3)]) == [Excess({"step": "s"}, 3)]
    assert by_step([Excess(step, 3), Excess(step, why="?")]) == [Excess({"step": "s"}, 3)]
    assert by_step([Excess(step, 0), Excess(step, why="?")]) == [Excess({"step": "s"}, why="?")]


def test_a_reason_makes_it_unmeasured() -> None:
    """On someone else's server what was left is not known, which is no failure."""
    asked = [served("a", PROMPT, 0)]
    client = cast(LlamaClient, Speaker())
    measured, unmeasured = asyncio.run(
        measure_excess(client, asked, "others use it", "B", 1, owned=False)
    )
    assert measured == []
    assert [(u.reason, u.outcome) for u in unmeasured] == [("others use it", "not_applicable")]
