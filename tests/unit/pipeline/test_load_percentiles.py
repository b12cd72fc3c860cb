"""Percentiles of a load step: given where they can be told, else inconclusive with the reason."""

from __future__ import annotations

import msgspec

from benchsuite.client.reply import Reply, Stamps, Timings
from benchsuite.drive.driver import Load
from benchsuite.drive.tally import Tally
from benchsuite.model.record import Measurement, Unmeasured
from benchsuite.pipeline.load_percentiles import measure_percentiles

MS = 1_000_000


def reply(ms: int) -> Reply:
    """One token after so long."""
    stamps = Stamps(0, 5 * MS, first_token_ns=(5 + ms) * MS, end_ns=(6 + ms) * MS)
    return Reply("x", "x", 1, 0, 1, 1, 0, "stop", False, Timings(), stamps, (0,))


def found(
    count: int, *, refused: int = 0, timed_out: int = 0, is_open: bool = True
) -> dict[tuple[str, str], Measurement | Unmeasured]:
    """Of requests that took 1, 2, 3 ... ms, by metric and quantile."""
    tally = Tally()
    for ms in range(1, count + 1):
        tally.sending(0, warm_up=False)
        tally.take(reply(ms), 0, warm_up=False)
    for _ in range(refused):
        tally.fail("no", warm_up=False)
    for _ in range(timed_out):
        tally.fail("no", warm_up=False, timed_out=True)
    load = Load("s", tally, MS, is_open=is_open)
    return {(one.name, one.labels["quantile"]): one for one in measure_percentiles(load, "V", 1)}


def test_values_have_intervals() -> None:
    """From when it was due it is longer by the five milliseconds in which it was not sent."""
    values = found(1000)
    one = values["ttft_ms", "0.95"]
    assert isinstance(one, Measurement)
    assert (one.value, one.interval) == (950.0, (936.0, 964.0))
    assert one.labels == {"quantile": "0.95", "step": "s"}
    assert "rank 950 of 1000 requests, order statistic" in one.source
    due = values["ttft_from_due_ms", "0.95"]
    assert isinstance(due, Measurement)
    assert due.value == 955.0


def test_a_p99_of_twenty_is_inconclusive_and_says_what_was_seen() -> None:
    """With how many would do."""
    one = found(20)["ttft_ms", "0.99"]
    assert isinstance(one, Unmeasured)
    assert one.outcome == "inconclusive"
    assert one.reason == (
        "20 requests are too few to tell how high the 0.99 quantile may be: 368 are needed (rank "
        "20 of 20 requests is 20 ms)"
    )


def test_a_request_without_a_reply_is_later_than_any() -> None:
    """Ranks are over all: of 900 served and 100 that were not, p90 may be one of these."""
    few = found(990, refused=10)["ttft_ms", "0.9"]
    assert isinstance(few, Measurement)
    assert few.value == 900.0
    assert few.source.endswith("10 without a reply")
    some = found(900, timed_out=100)["ttft_ms", "0.9"]
    assert isinstance(some, Unmeasured)
    assert "100 of 1000 requests brought no reply, and the 0.9 quantile may be one" in some.reason
    many = found(800, refused=150, timed_out=50)["e2e_ms", "0.9"]
    assert isinstance(many, Unmeasured)
    assert "and the 0.9 quantile is one of them" in many.reason


def test_only_an_open_loop_has_a_schedule() -> None:
    """And what was not measured at all has no percentile: its median says why."""
    names = {name for name, _ in found(50, is_open=False)}
    assert names == {"ttft_ms", "e2e_ms", "send_lateness_ms"}


def test_a_reply_without_a_token_never_came_to_its_first() -> None:
    """It is in the denominator of TTFT, and has a time to its end all the same."""
    tally = Tally()
    for ms in range(1, 61):
        tally.take(reply(ms), 0, warm_up=False)
    for _ in range(40):
        stamps = Stamps(0, 5 * MS, end_ns=6 * MS)
        tally.take(msgspec.structs.replace(reply(1), stamps=stamps), 0, warm_up=False)
    load = Load("s", tally, MS)
    made = {(m.name, m.labels["quantile"]): m for m in measure_percentiles(load, "V", 1)}
    first, whole = made["ttft_ms", "0.9"], made["e2e_ms", "0.9"]
    assert isinstance(first, Unmeasured)
    assert "40 of 100 requests brought no token" in first.reason
    assert isinstance(whole, Measurement)
