"""A server that began anew is told from one that went on."""

from __future__ import annotations

import os

import pytest

from benchsuite.client.props import Props
from benchsuite.collect.restarts import Sight, counters_fell, restart_between, start_time

_TOTAL = "llamacpp:prompt_tokens_total"
_BEFORE = Sight(Props(build="b1", total_slots=2), {_TOTAL: 90.0}, started=5.0)


def test_a_server_that_went_on_is_not_taken_for_restarted() -> None:
    """Totals that grew and gauges that fell are ordinary."""
    after = Sight(_BEFORE.props, {_TOTAL: 99.0}, started=5.0)
    assert restart_between(_BEFORE, after) is None
    assert (
        counters_fell({"llamacpp:requests_processing": 2}, {"llamacpp:requests_processing": 0})
        is None
    )


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (Sight(_BEFORE.props, {_TOTAL: 9.0}, 5.0), "went back from 90 to 9"),
        (Sight(_BEFORE.props, {_TOTAL: 99.0}, 6.0), "began anew"),
        (Sight(_BEFORE.props, {_TOTAL: 99.0}, None), "has ended"),
        (Sight(Props(build="b2", total_slots=2), {_TOTAL: 99.0}, 5.0), "build of /props was b1"),
    ],
)
def test_what_shows_a_restart_is_named(after: Sight, words: str) -> None:
    """A total that fell, another process and another build are told apart."""
    assert words in (restart_between(_BEFORE, after) or "")


def test_what_cannot_be_seen_shows_nothing() -> None:
    """Neither a missing counter nor an unobserved process is a restart."""
    assert restart_between(Sight(Props()), Sight(Props(build="b2"), {_TOTAL: 1.0}, 5.0)) is None
    assert start_time(None) is None
    assert start_time(os.getpid()) is not None
