"""A launch's medians over its requests: what counts, and what is left out."""

from __future__ import annotations

from benchsuite.collect.launch_medians import launch_medians
from benchsuite.collect.requests import WARM_UP, measure_reply
from benchsuite.metrics.catalogue import CATALOGUE, LAUNCH_MEDIANS
from benchsuite.model.record import Measurement
from tests.unit.collect.test_explain import served


def ttft(value: float, **labels: str) -> Measurement:
    """A time to first token."""
    return Measurement("ttft_ms", value, "ms", "B", 2, labels)


def test_the_median_is_over_turns_and_completes() -> None:
    """Load steps have medians of their own, and other metrics have none."""
    found = launch_medians(
        [
            ttft(10, session="A", turn="1"),
            ttft(30, session="A", turn="2"),
            ttft(21, request="one"),
            ttft(500, step="many"),
            Measurement("cached_tokens", 5, "tokens", "B", 2, {"request": "one"}),
        ],
        1,
        "B",
        2,
    )
    (only,) = found
    assert (only.name, only.value, only.unit, only.labels) == ("ttft_ms", 21, "ms", {})
    assert (only.variant, only.trial) == ("B", 2)
    assert only.source == "median of 3 requests, 1 of warm-up left out"


def test_an_even_number_has_its_median_between() -> None:
    """And without any request there is none, not 0."""
    found = launch_medians([ttft(10, request="a"), ttft(20, request="b")], 0, "B", 1)
    assert [m.value for m in found] == [15]
    assert found[0].source == "median of 2 requests"
    assert launch_medians([ttft(500, step="many")], 0, "B", 1) == []


def test_a_warm_up_has_counts_and_no_latency() -> None:
    """What is left out says why, and nothing else is touched."""
    reply = served("r", "one two three", 0).served.reply
    labels = {"request": "r"}
    timed, _ = measure_reply(reply, 0, labels, "B", 1)
    measured, unmeasured = measure_reply(reply, 0, labels, "B", 1, warm_up=True)
    latencies = {m.name for m in timed if CATALOGUE[m.name].assume == "latency"}
    assert "e2e_ms" in latencies
    assert [m for m in timed if m.name not in latencies] == measured
    left_out = {u.name: (u.reason, u.outcome) for u in unmeasured}
    assert all(left_out[name] == (WARM_UP, "not_applicable") for name in latencies)


def test_every_latency_of_a_request_has_a_median() -> None:
    """The catalogue declares each without labels too."""
    assert "ttft_ms" in LAUNCH_MEDIANS
    assert "server_start_ms" not in LAUNCH_MEDIANS
    assert all(() in CATALOGUE[name].labels for name in LAUNCH_MEDIANS)
