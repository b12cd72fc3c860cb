"""Counts that contradict each other are found."""

from __future__ import annotations

import msgspec
import pytest

from benchsuite.client.reply import Copy, Reply, Stamps, Timings
from benchsuite.collect.reconcile import (
    contradiction_in,
    contradictions_with_counters,
    totals_of,
)


def _reply(prompt: int | None, cached: int | None, evaluated: int | None, output: int = 8) -> Reply:
    return Reply(
        text="",
        content="",
        prompt_tokens=prompt,
        cached_tokens=cached,
        evaluated_tokens=evaluated,
        output_tokens=output,
        slot=None,
        finish="length",
        truncated=False,
        timings=Timings(),
        stamps=Stamps(scheduled_ns=0, sent_ns=0),
    )


def test_cached_and_evaluated_make_the_prompt() -> None:
    """The invariant of every build: cache_n + prompt_n == tokens_evaluated."""
    assert contradiction_in(_reply(50, 40, 10)) is None
    assert "make 49, but the reply counts 50" in str(contradiction_in(_reply(50, 40, 9)))


def test_what_is_not_told_contradicts_nothing() -> None:
    """A build that does not tell cached tokens is no liar."""
    assert contradiction_in(_reply(50, None, 10)) is None


def test_counters_must_move_by_what_replies_tell() -> None:
    """Each counter is held against the sum over the replies in between."""
    before = {"prompt_tokens_total": 100.0, "tokens_predicted_total": 10.0}
    replies = [_reply(50, 40, 10), _reply(20, 0, 20)]
    after = {"prompt_tokens_total": 130.0, "tokens_predicted_total": 26.0}
    assert contradictions_with_counters(before, after, totals_of(replies)) == []
    off = after | {"prompt_tokens_total": 170.0}
    assert contradictions_with_counters(before, off, totals_of(replies)) == [
        "/metrics counted 70 evaluated tokens (prompt_tokens_total) where the replies count 30"
    ]


@pytest.mark.parametrize("missing", ["before", "after"])
def test_a_counter_that_a_build_lacks_is_passed_over(missing: str) -> None:
    """`prompt_tokens_cached_total` came after build 10068."""
    counters = {"prompt_tokens_cached_total": 5.0}
    before, after = ({}, counters) if missing == "before" else (counters, {})
    assert contradictions_with_counters(before, after, totals_of([_reply(50, 40, 10)])) == []


def test_large_counters_are_only_as_exact_as_they_are_printed() -> None:
    """Six digits: after a million tokens a difference below the last digit says nothing."""
    before = {"prompt_tokens_total": 1101450.0}
    reply = _reply(cached=0, evaluated=12, prompt=12)
    assert not contradictions_with_counters(
        before, {"prompt_tokens_total": 1101460.0}, totals_of([reply])
    )
    assert contradictions_with_counters(
        before, {"prompt_tokens_total": 1101490.0}, totals_of([reply])
    )
    assert contradictions_with_counters(
        {"prompt_tokens_total": 900000.0}, {"prompt_tokens_total": 900010.0}, totals_of([reply])
    )


def test_copies_may_be_counted_once_or_each() -> None:
    """10434 counts the shared prompt once, 10092 once for each copy; anything else is a lie."""
    copy = Copy("", 0, 50, 8, None)
    reply = msgspec.structs.replace(_reply(50, 0, 50), copies=(copy, copy, copy))
    before = {"prompt_tokens_total": 0.0, "tokens_predicted_total": 0.0}
    for counted, problems in ((50.0, 0), (150.0, 0), (100.0, 1)):
        after = {"prompt_tokens_total": counted, "tokens_predicted_total": 24.0}
        assert len(contradictions_with_counters(before, after, totals_of([reply]))) == problems


def test_each_copy_must_add_up() -> None:
    """A copy's cached and evaluated tokens make the one prompt that all share."""
    reply = msgspec.structs.replace(_reply(50, 40, 10), copies=(Copy("", 40, 9, 8, None),))
    assert "make 49, but the reply counts 50" in str(contradiction_in(reply))
