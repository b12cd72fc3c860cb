"""A load step is measured as a whole; what is refused is counted apart."""

from __future__ import annotations

import msgspec
import pytest

from benchsuite.client.reply import Embedded, Stamps
from benchsuite.collect.load import measure_load, summarise_load
from benchsuite.drive.driver import Load, Served
from benchsuite.drive.tally import Tally
from benchsuite.model.load import Objective
from benchsuite.pipeline.load_percentiles import measure_percentiles
from tests.unit.collect.test_explain import served

MS = 1_000_000


def one(first_ms: int, end_ms: int, cached: int | None = 1) -> Served:
    """A request with a time to its first token and to its end."""
    asked = served("r", "one two three", 0).served
    first, end = first_ms * MS, end_ms * MS
    last = first + 6 * MS  # four tokens, 1, 2 and 3 ms apart
    stamps = Stamps(0, 0, first_token_ns=first, last_token_ns=last, end_ns=end)
    reply = msgspec.structs.replace(
        asked.reply,
        stamps=stamps,
        cached_tokens=cached,
        token_ns=(first, first + 1 * MS, first + 3 * MS, last),
    )
    return msgspec.structs.replace(asked, reply=reply)


def brought(*replies: Served, refused: int = 0, wall_ms: int = 1) -> Load:
    """A load step's outcome, of replies to requests that were due at 0, and errors."""
    tally = Tally()
    for reply in replies:
        tally.take(reply.reply, 0, warm_up=reply.warm_up)
    for _ in range(refused):
        tally.fail("request 1 of load s: no", warm_up=False)
    return Load("s", tally, wall_ms * MS)


def with_stamps(one_: Served, **stamps: int) -> Served:
    """The same request, stamped otherwise."""
    changed = msgspec.structs.replace(one_.reply.stamps, **stamps)
    return msgspec.structs.replace(one_, reply=msgspec.structs.replace(one_.reply, stamps=changed))


def test_late_stamps_tell_no_latency() -> None:
    """Of a client that fell behind; counts, rates and our own lateness are told as ever."""
    load = brought(one(10, 20), with_stamps(one(10, 20), held_up=3), wall_ms=1_000)
    measured, unmeasured = measure_load(load, "B", 1)
    told = {m.name for m in measured}
    assert {"requests_per_second", "output_tokens"} <= told
    assert not {"ttft_ms", "itl_ms", "tpot_ms", "e2e_ms"} & told
    assert {one.outcome for one in unmeasured} == {"inconclusive"}
    assert all("1 of 2 replies" in one.reason for one in unmeasured)
    percentiles = measure_percentiles(load, "B", 1)
    assert {one.name for one in percentiles} <= {"send_lateness_ms"}


@pytest.mark.parametrize(("behind", "of", "told"), [(1, 100, True), (2, 100, False)])
def test_a_client_that_looked_too_late_tells_no_latency(
    behind: int, of: int, *, told: bool
) -> None:
    """At tokens that came more than 100 ms before; one reply of a hundred is no sign of it."""
    late = [with_stamps(one(10, 20), behind_ns=101 * MS)] * behind
    prompt = [with_stamps(one(10, 20), behind_ns=100 * MS)] * (of - behind)
    measured, unmeasured = measure_load(brought(*late, *prompt, wall_ms=1_000), "B", 1)
    assert ("itl_ms" in {m.name for m in measured}) is told
    assert all(f"{behind} of {of} replies" in u.reason for u in unmeasured)
    assert bool(unmeasured) is not told


def test_tokens_that_came_at_one_moment_have_no_pace() -> None:
    """Behind a proxy that keeps the stream back: the time a token is unknown, and not 0."""
    at_once = with_stamps(one(900, 910), last_token_ns=900 * MS)
    at_once = msgspec.structs.replace(
        at_once, reply=msgspec.structs.replace(at_once.reply, token_ns=(900 * MS,) * 4)
    )
    measured, unmeasured = measure_load(brought(at_once), "B", 1)
    assert "tpot_ms" not in {m.name for m in measured}
    outcomes = {one.name: one.outcome for one in unmeasured}
    assert (outcomes["tpot_ms"], outcomes["itl_ms"]) == ("inconclusive", "inconclusive")
    for metric in ("tpot_ms", "itl_ms"):
        tally = Tally(objectives=[Objective(metric, "0.95", 1000.0)])
        tally.take(at_once.reply, 0, warm_up=False)
        assert tally.good == 0
        tally.take(one(10, 20).reply, 0, warm_up=False)
        assert tally.good == 1


@pytest.mark.parametrize(("at_once", "told"), [(1, True), (2, False)])
def test_a_pace_that_many_replies_do_not_tell_is_unknown(at_once: int, *, told: bool) -> None:
    """Of more than a tenth: those that tell theirs may be unlike them."""
    whole = with_stamps(one(10, 20), last_token_ns=10 * MS)
    whole = msgspec.structs.replace(
        whole, reply=msgspec.structs.replace(whole.reply, token_ns=(10 * MS,) * 4)
    )
    load = brought(*[whole] * at_once, *[one(10, 20)] * (10 - at_once), wall_ms=1_000)
    measured, unmeasured = measure_load(load, "B", 1)
    values = {m.name: m for m in measured}
    assert ("tpot_ms" in values) is told
    assert ("itl_ms" in values) is told
    if told:
        assert "1 without a pace (tokens at one moment) taken for later" in values["tpot_ms"].source
    else:
        reasons = {u.name: (u.outcome, u.reason) for u in unmeasured}
        words = "the tokens of 2 of 10 replies came at one moment, and nobody knows their pace"
        assert reasons == dict.fromkeys(("tpot_ms", "itl_ms"), ("inconclusive", words))
        assert not {"tpot_ms", "itl_ms"} & {p.name for p in measure_percentiles(load, "B", 1)}


def test_sums_rates_and_medians() -> None:
    """Over all that were served; an even number has its median between the middle two."""
    load = brought(one(10, 20), one(30, 40), one(20, 30), one(40, 90), wall_ms=2_000)
    measured, unmeasured = measure_load(load, "B", 1)
    assert unmeasured == []
    assert all(m.labels == {"step": "s"} for m in measured)
    assert {m.name: m.value for m in measured} == {
        "requests_failed": 0,
        "requests_timed_out": 0,
        "error_share": 0.0,
        "tpot_ms": pytest.approx(2.0),
        "itl_ms": pytest.approx(2.0),
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
    load = brought(one(10, 20), one(30, 40, cached=None))
    _, unmeasured = measure_load(load, "B", 1)
    assert [u.name for u in unmeasured] == ["cached_tokens"]


def test_where_all_are_refused_only_that_is_measured() -> None:
    """No rate and no median of nothing."""
    measured, unmeasured = measure_load(brought(refused=1), "B", 1)
    assert {m.name: m.value for m in measured} == {
        "requests_failed": 1,
        "requests_timed_out": 0,
        "error_share": 1.0,
    }
    assert {u.reason for u in unmeasured} == {"no request of it was served"}
    assert len(unmeasured) == 10


def test_a_warm_up_is_in_counts_and_nowhere_else() -> None:
    """Medians and rates are of the requests after it, from the first of them sent to the last."""
    warm = msgspec.structs.replace(one(900, 1000), warm_up=True)
    load = brought(warm, one(10, 20), one(30, 40), wall_ms=5_000)
    measured, unmeasured = measure_load(load, "B", 1)
    found = {m.name: m for m in measured}
    assert unmeasured == []
    assert found["prompt_tokens"].value == 12
    assert found["output_tokens"].value == 12
    assert found["ttft_ms"].value == pytest.approx(20)
    assert found["ttft_ms"].source == "client clock, median of replies, 1 of warm-up left out"
    assert found["requests_per_second"].value == pytest.approx(2 / 0.04)
    assert found["output_tokens_per_second"].value == pytest.approx(8 / 0.04)


def test_an_open_loop_serves_no_more_than_was_asked() -> None:
    """Two requests at 5 a second, answered at once: the schedule lasted longer than they did."""
    load = brought(one(10, 20), one(30, 40), wall_ms=240)
    scheduled = msgspec.structs.replace(load, scheduled_ns=400 * MS)
    measured, _ = measure_load(scheduled, "B", 1)
    found = {m.name: m.value for m in measured}
    assert found["requests_per_second"] == pytest.approx(5)
    assert found["output_tokens_per_second"] == pytest.approx(8 / 0.4)
    slow = msgspec.structs.replace(scheduled, wall_ns=500 * MS)
    measured, _ = measure_load(slow, "B", 1)
    assert {m.name: m.value for m in measured}["requests_per_second"] == pytest.approx(4)


def test_nothing_but_warm_up_is_no_rate() -> None:
    """Where all others were refused."""
    warm = msgspec.structs.replace(one(900, 1000), warm_up=True)
    measured, unmeasured = measure_load(brought(warm, refused=1), "B", 1)
    assert not {"ttft_ms", "requests_per_second"} & {m.name for m in measured}
    assert {u.reason for u in unmeasured} == {"no request of it was served after its warm-up"}


def test_what_embeddings_do_not_have_is_unmeasured_and_never_0() -> None:
    """Their whole time is measured, and their prompts where the server counts them."""
    reply = Embedded((b"1234",), Stamps(0, 0, end_ns=20 * MS), prompt_tokens=7).reply
    of_embedding = msgspec.structs.replace(one(10, 20), reply=reply)
    load = msgspec.structs.replace(brought(of_embedding, of_embedding), embeds=True)
    measured, unmeasured = measure_load(load, "B", 1)
    values = {m.name: m.value for m in measured}
    assert (values["e2e_ms"], values["prompt_tokens"]) == (20, 14)
    assert values["requests_per_second"] == 2000
    told = {one.name: one for one in unmeasured}
    assert told.keys() == {
        "ttft_ms", "tpot_ms", "itl_ms", "cached_tokens", "evaluated_tokens", "output_tokens",
        "output_tokens_per_second",
    }  # fmt: skip
    assert all(one.outcome == "not_applicable" for one in unmeasured)
    assert "without a first token" in told["ttft_ms"].reason
    assert told["output_tokens"].reason == "an embedding generates no tokens"


def test_a_load_that_sent_nothing_measures_nothing() -> None:
    """That none of no requests failed is no good news."""
    load = Load("s", Tally(), 1_000 * MS, is_open=True)
    measured, unmeasured = measure_load(load, "B", 1)
    assert measured == []
    assert {"requests_failed", "requests_timed_out", "client_late_share", "wait_ms"} <= {
        one.name for one in unmeasured
    }
    assert {(u.outcome, u.reason) for u in unmeasured} == {("inconclusive", "no request was sent")}
    (warning,) = summarise_load(load, capped=False).warnings
    assert warning.startswith("load s: no request was sent")


@pytest.mark.parametrize(
    ("served_well", "refused", "words"),
    [(10, 30, "the median is one of them"), (21, 19, "the median may be one of them")],
)
def test_a_median_that_may_be_a_request_without_a_reply_is_inconclusive(
    served_well: int, refused: int, words: str
) -> None:
    """The few that were served well are not the median of all."""
    measured, unmeasured = measure_load(
        brought(*[one(10, 20)] * served_well, refused=refused), "B", 1
    )
    assert not {"ttft_ms", "e2e_ms"} & {m.name for m in measured}
    told = {u.name: u for u in unmeasured}
    for name in ("ttft_ms", "e2e_ms"):
        assert told[name].outcome == "inconclusive"
        assert told[name].reason == f"{refused} of 40 requests brought no reply, and {words}"


def test_a_median_has_failures_as_later_than_any_other() -> None:
    """Of 1 to 30 ms and ten without a reply it is that of 40: between 20 and 21 ms."""
    measured, _ = measure_load(brought(*[one(ms, ms) for ms in range(1, 31)], refused=10), "B", 1)
    (median,) = [m for m in measured if m.name == "ttft_ms"]
    assert median.value == pytest.approx(20.5)
    assert median.source.endswith("10 without a reply taken for later")


def test_replies_without_a_token_are_told_and_are_late() -> None:
    """80 chats of nothing are no good chats."""
    empty = msgspec.structs.replace(one(0, 20), reply=Embedded((), Stamps(0, 0, end_ns=MS)).reply)
    load = brought(*[one(10, 20)] * 10, *[empty] * 30)
    _, unmeasured = measure_load(load, "B", 1)
    (ttft,) = [u for u in unmeasured if u.name == "ttft_ms"]
    assert ttft.outcome == "inconclusive"
    assert ttft.reason.startswith("30 of 40 requests brought no token")
    (warning,) = summarise_load(load, capped=False).warnings
    assert warning.startswith("load s: 30 of 40 replies brought no token")
