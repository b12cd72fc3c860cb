"""A load step is measured as a whole; what is refused is counted apart."""

from __future__ import annotations

import msgspec
import pytest

from benchsuite.client.reply import Stamps
from benchsuite.collect.load import measure_load
from benchsuite.drive.driver import Load, Refused, Served
from tests.unit.collect.test_explain import served

MS = 1_000_000


def one(first_ms: int, end_ms: int, cached: int | None = 1) -> Served:
    """A request with a time to its first token and to its end."""
    asked = served("r", "one two three", 0).served
    stamps = Stamps(0, 0, first_token_ns=first_ms * MS, end_ns=end_ms * MS)
    reply = msgspec.structs.replace(asked.reply, stamps=stamps, cached_tokens=cached)
    return msgspec.structs.replace(asked, reply=reply)


def test_sums_rates_and_medians() -> None:
    """Over all that were served; an even number has its median between the middle two."""
    load = Load("s", (one(10, 20), one(30, 40), one(20, 30), one(40, 90)), (), 2_000 * MS)
    measured, unmeasured = measure_load(load, "B", 1)
    assert unmeasured == []
    assert all(m.labels == {"step": "s"} for m in measured)
    assert {m.name: m.value for m in measured} == {
        "requests_failed": 0,
        "prompt_tokens": 16,
        "cached_tokens": 4,
        "evaluated_tokens": 16,
        "output_tokens": 16,
        "requests_per_second": 2.0,
        "output_tokens_per_second": 8.0,
        "ttft_ms": pytest.approx(25.0),
        "e2e_ms": pytest.approx(35.0),
    }


def test_a_count_that_one_reply_lacks_is_not_a_sum() -> None:
    """Nothing missing becomes 0."""
    load = Load("s", (one(10, 20), one(30, 40, cached=None)), (), MS)
    _, unmeasured = measure_load(load, "B", 1)
    assert [u.name for u in unmeasured] == ["cached_tokens"]


def test_where_all_are_refused_only_that_is_measured() -> None:
    """No rate and no median of nothing."""
    refused = Refused({"step": "s", "request": "1"}, 500, "no")
    measured, unmeasured = measure_load(Load("s", (), (refused,), MS), "B", 1)
    assert {m.name: m.value for m in measured} == {"requests_failed": 1}
    assert {u.reason for u in unmeasured} == {"no request of it was served"}
    assert len(unmeasured) == 8


def test_a_warm_up_is_in_counts_and_nowhere_else() -> None:
    """Medians and rates are of the requests after it, from the first of them sent to the last."""
    warm = msgspec.structs.replace(one(900, 1000), warm_up=True)
    load = Load("s", (warm, one(10, 20), one(30, 40)), (), 5_000 * MS)
    measured, unmeasured = measure_load(load, "B", 1)
    found = {m.name: m for m in measured}
    assert unmeasured == []
    assert found["prompt_tokens"].value == 12
    assert found["output_tokens"].value == 12
    assert found["ttft_ms"].value == pytest.approx(20)
    assert found["ttft_ms"].source == "client clock, median of replies, 1 of warm-up left out"
    assert found["requests_per_second"].value == pytest.approx(2 / 0.04)
    assert found["output_tokens_per_second"].value == pytest.approx(8 / 0.04)


def test_nothing_but_warm_up_is_no_rate() -> None:
    """Where all others were refused."""
    warm = msgspec.structs.replace(one(900, 1000), warm_up=True)
    refused = Refused({"step": "s", "request": "2"}, 500, "no")
    measured, unmeasured = measure_load(Load("s", (warm,), (refused,), MS), "B", 1)
    assert not {"ttft_ms", "requests_per_second"} & {m.name for m in measured}
    assert {u.reason for u in unmeasured} == {"no request of it was served after its warm-up"}
