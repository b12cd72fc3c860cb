"""What a load step sends of a file: texts, limits, times, and what it leaves out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from benchsuite.client.api import LlamaClient
from benchsuite.collect.load import measure_load, summarise_load
from benchsuite.drive.arrivals import arrival_times
from benchsuite.drive.prompts import NONCE_TOKENS, PromptBook
from benchsuite.drive.replay import content_of, fit_to_server
from benchsuite.errors import RequestRefusedError, UsageError
from benchsuite.model.load import Arrivals
from benchsuite.model.sample import DatasetSpec, Message, Row, Sample
from benchsuite.model.scenario import LoadStep, PromptSpec
from benchsuite.report.load_words import load_in_words
from tests.unit.drive.test_driver import Server, _drive

CHATS = DatasetSpec("c.jsonl", "messages")


class Holding(Server):
    """Slots of so many tokens, which are words here."""

    def __init__(self, context: int | None = 100, *, templates: bool = True) -> None:
        super().__init__()
        self.counted = 0
        self._context = context
        self._templates = templates

    async def props(self) -> SimpleNamespace:
        return SimpleNamespace(n_ctx_slot=self._context)

    async def prompt_tokens(self, text: str) -> list[int]:
        self.counted += 1
        return list(range(1 + len(text.split())))

    async def apply_template(self, messages: Sequence[Mapping[str, str]]) -> str:
        if not self._templates:
            raise RequestRefusedError("no such path", status=404)
        return await super().apply_template(messages)


class Melting(Holding):
    """Every third letter begins a token, so that where texts meet counts."""

    async def tokenise(self, text: str) -> list[int]:
        return list(range(-(-len(text) // 3)))


def chat(number: int, *texts: str, limit: int | None = None) -> Row:
    """A row whose messages are the user's, all of them."""
    return Row(number, tuple(Message("user", text) for text in texts), max_tokens=limit)


def step_of(rows: Sequence[Row], spec: DatasetSpec = CHATS, **changes: Any) -> LoadStep:
    """A load of these rows."""
    sample = Sample(spec, "ab" * 32, tuple(rows), len(rows))
    fields = {"requests": None, "concurrency": 1, "prompt": PromptSpec(), **changes}
    return LoadStep("s", source=spec, sample=sample, **fields)


def hashed(number: int, ids: tuple[int, ...], tokens: int, output: int, at_ns: int = 0) -> Row:
    """A row of a Mooncake trace."""
    return Row(number, blocks=ids, input_tokens=tokens, max_tokens=output, at_ns=at_ns)


def test_chats_are_sent_as_they_stand_each_once_in_order() -> None:
    """A row's output limit goes before the step's."""
    step = step_of([chat(1, "a b", limit=3), chat(2, "c", "d")], api="chat", max_tokens=9)
    server, seen = _drive([step], server=Holding())
    assert server.sent == [
        ("chat", [{"role": "user", "content": "a b"}], {"temperature": 0.0, "max_tokens": 3}),
        (
            "chat",
            [{"role": "user", "content": "c"}, {"role": "user", "content": "d"}],
            {"temperature": 0.0, "max_tokens": 9},
        ),
    ]
    (load,) = seen.loads
    assert (load.tally.sent, load.distinct_prompts, load.skipped) == (2, 2, 0)


def test_rows_are_sent_in_turn_where_more_requests_are_asked_for() -> None:
    """From the first again after the last."""
    step = step_of([chat(1, "a"), chat(2, "b")], api="chat", requests=5)
    server, _ = _drive([step], server=Holding())
    assert [what[0]["content"] for _, what, _ in server.sent] == ["a", "b", "a", "b", "a"]


def test_what_no_slot_can_hold_is_skipped_counted_and_told() -> None:
    """With the reason of the first; the others are sent, and the count of requests is theirs."""
    long = " ".join(["word"] * 95)
    rows = [chat(1, "a"), chat(2, long), chat(3, "b"), chat(4, "c", limit=99)]
    server, seen = _drive([step_of(rows, api="chat", max_tokens=5)], server=Holding())
    assert [what[0]["content"] for _, what, _ in server.sent] == ["a", "b"]
    (load,) = seen.loads
    assert load.skipped == 2
    summary = summarise_load(load, capped=False)
    (warning,) = summary.warnings
    assert warning == (
        "load s: 2 of 4 requests of c.jsonl were skipped, the first for this: row 2 of c.jsonl has "
        "96 prompt tokens and asks for 5, and a slot holds 100"
    )
    assert (summary.skipped, summary.sent) == (2, 2)
    measured, _ = measure_load(load, "B", 1)
    assert {m.name: m.value for m in measured}["requests_skipped"] == 2


def test_only_a_load_of_a_file_counts_what_was_skipped() -> None:
    """With 0 where all rows fit; a load of made prompts has no such count."""
    made = LoadStep("s", requests=1, concurrency=1, prompt=PromptSpec(text="a"))
    for step, count in ((step_of([chat(1, "a")], api="chat"), 0), (made, None)):
        _, seen = _drive([step], server=Holding())
        measured, unmeasured = measure_load(seen.loads[0], "B", 1)
        assert {m.name: m.value for m in measured}.get("requests_skipped") == count
        assert "requests_skipped" not in {u.name for u in unmeasured}


def test_what_was_left_out_of_a_file_is_told_beside_its_digest() -> None:
    """Its lines that could not be used, in a warning and in the record's words."""
    step = step_of([chat(1, "a")], api="chat")
    assert step.sample is not None
    sample = msgspec.structs.replace(
        step.sample, seen=4, filtered=3, bad=1, first_bad="c.jsonl:2: no 'messages'"
    )
    _, seen = _drive([msgspec.structs.replace(step, sample=sample)], server=Holding())
    summary = summarise_load(seen.loads[0], capped=False)
    assert summary.source == (
        "1 of 4 requests of c.jsonl, 3 left out by their length, 1 unusable (sha256 abababababab)"
    )
    assert summary.source_sha256 == "ab" * 32
    (warning,) = summary.warnings
    assert "1 unusable line was left out of c.jsonl, the first for this: c.jsonl:2: no" in warning


def test_where_no_row_fits_nothing_is_sent() -> None:
    """A load of nothing would measure nothing, and for a duration never wait."""
    with pytest.raises(UsageError, match=r"no request of c\.jsonl can be sent"):
        _drive([step_of([chat(1, "a")], max_tokens=200)], server=Holding())


def test_short_rows_are_not_counted_and_unknown_contexts_leave_nothing_out() -> None:
    """A token has at least one byte, so that what fits by bytes needs no question."""
    rows = [chat(n, "a b c") for n in range(9)]
    server = Holding(100)
    _drive([step_of(rows, api="chat")], server=server)
    assert server.counted == 0
    for known in (Holding(None), Holding(18, templates=False)):
        _drive([step_of(rows, api="chat", max_tokens=12)], server=known)
        assert len(known.sent) == 9


@pytest.mark.parametrize("server", [Holding(10_000), Melting(10_000)])
def test_equal_hashes_are_equal_text_and_every_total_is_exact(server: Holding) -> None:
    """Also where tokens melt together at the seams; a block and the limits scale together."""
    spec = DatasetSpec("t.jsonl", "mooncake", block=32)
    rows = [
        hashed(1, (7, 8, 9), 1024 + 256, 64),
        hashed(2, (7, 8, 10), 1024 + 512, 512),
        hashed(3, (11,), 48, 1),
        hashed(4, (7, 12), 512 + 16, 16),
    ]
    server.sent.clear()
    _drive([step_of(rows, spec, arrivals=Arrivals("trace"))], server=server)
    texts = {fields["n_predict"]: what for _, what, fields in server.sent}
    assert len(server.sent) == 4
    prompts = [what for _, what, _ in server.sent]
    counts = sorted(len(asyncio.run(server.tokenise(text))) for text in prompts)
    assert counts == sorted([64 + 16, 64 + 32, 3, 32 + 1])
    assert {4, 32, 1} == set(texts)
    first, second = texts[4], texts[32]
    both = next(i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    shared = first[:both]
    assert len(asyncio.run(server.tokenise(shared))) >= 64
    (fourth,) = [text for text in prompts if len(asyncio.run(server.tokenise(text))) == 33]
    assert shared.startswith(fourth[: len(fourth) // 2])
    (third,) = [text for text in prompts if len(asyncio.run(server.tokenise(text))) == 3]
    assert not first.startswith(third[:6])


def test_a_trace_row_beyond_the_context_is_skipped_without_making_its_text() -> None:
    """A trace of long contexts costs nothing on a server of short ones."""
    spec = DatasetSpec("t.jsonl", "mooncake")
    rows = [hashed(1, tuple(range(200)), 200 * 512, 1), hashed(2, (1,), 20, 1)]
    step = step_of(rows, spec, arrivals=Arrivals("trace"))
    client, prompts = cast(LlamaClient, Holding(100)), PromptBook()
    fit = asyncio.run(fit_to_server(step, client, prompts))
    assert (fit.skipped, fit.step.requests) == (1, 1)
    assert "102401 prompt tokens" in fit.why
    assert not prompts._blocks


@pytest.mark.parametrize(
    ("changes", "numbers", "skipped"),
    [
        ({}, [1, 3, 4, 5], 1),
        ({"requests": 2}, [1, 3], 1),
        ({"requests": 1}, [1], 0),
        ({"requests": 9}, [1, 3, 4, 5], 1),
        ({"duration": 1.5}, [1, 3], 1),
        ({"duration": 0.5}, [1], 0),
    ],
)
def test_only_rows_that_will_be_sent_are_looked_at(
    changes: dict[str, Any], numbers: list[int], skipped: int
) -> None:
    """A trace of hours of which a minute is sent takes no hour to prepare."""
    spec = DatasetSpec("t.jsonl", "prompts", speed=2.0)
    texts = ["x", "y " * 200, "z", "x", "y"]
    rows = [Row(n + 1, prompt=text, at_ns=n * 1_000_000_000) for n, text in enumerate(texts)]
    step = step_of(rows, spec, arrivals=Arrivals("trace"), **changes)
    fit = asyncio.run(fit_to_server(step, cast(LlamaClient, Holding(100)), PromptBook()))
    assert fit.step.sample is not None
    assert [row.number for row in fit.step.sample.rows] == numbers
    assert fit.skipped == skipped


def test_a_trace_keeps_its_times_and_speed() -> None:
    """Twice the speed is half the time; a duration cuts it."""
    spec = DatasetSpec("t.jsonl", "prompts", speed=2.0)
    rows = [Row(n, prompt="x", at_ns=n * 1_000_000_000) for n in range(4)]
    step = step_of(rows, spec, arrivals=Arrivals("trace"))
    assert step.arrivals is not None

    def times(duration: float | None) -> list[float]:
        assert step.arrivals is not None
        found = arrival_times(step.arrivals, duration, 0, step.recorded_ns)
        return [at / 1e9 for at in found]

    assert times(None) == [0.0, 0.5, 1.0, 1.5]
    assert times(1.0) == [0.0, 0.5]


def test_prompts_of_a_trace_go_over_completion() -> None:
    """As the file has them."""
    spec = DatasetSpec("t.jsonl", "prompts")
    rows = [Row(1, prompt="x y", at_ns=0, max_tokens=2), Row(2, prompt="z", at_ns=1000)]
    step = step_of(rows, spec, arrivals=Arrivals("trace"), max_tokens=7)
    server, seen = _drive([step], server=Holding())
    sent = [(kind, what, fields["n_predict"]) for kind, what, fields in server.sent]
    assert sent == [("complete", "x y", 2), ("complete", "z", 7)]
    assert seen.loads[0].is_open


def test_on_servers_of_others_a_chat_begins_with_a_text_of_the_runs_own() -> None:
    """Its first message does, as a session's; later ones stay."""
    step = step_of([chat(1, "a b", "c")], api="chat")
    assert step.sample is not None
    client = cast(LlamaClient, Holding())
    content = asyncio.run(content_of(step.sample.rows[0], step, PromptBook("run"), client))
    assert not isinstance(content, str)
    assert content[0]["content"].endswith(" a b")
    assert len(content[0]["content"].split()) == 2 + NONCE_TOKENS
    assert content[1]["content"] == "c"


def test_a_sample_larger_than_its_file_is_told() -> None:
    """Three of three are not the ten that were asked for."""
    spec = msgspec.structs.replace(CHATS, sample=10)
    step = step_of([chat(n, "a") for n in range(3)], spec, api="chat")
    _, seen = _drive([step], server=Holding())
    assert summarise_load(seen.loads[0], capped=False).warnings == (
        "load s: 'sample: 10' asks for more requests than c.jsonl has: 3",
    )
    spec = msgspec.structs.replace(CHATS, sample=3)
    step = step_of([chat(n, "a") for n in range(3)], spec, api="chat")
    _, seen = _drive([step], server=Holding())
    assert summarise_load(seen.loads[0], capped=False).warnings == ()


def test_a_plan_tells_how_much_of_a_trace_is_due_in_its_duration() -> None:
    """Of three that come each second, two in 1.5 s; at twice the speed all three."""
    rows = [hashed(n, (n,), 5, 5, n * 1_000_000_000) for n in range(3)]
    trace = DatasetSpec("t.jsonl", "mooncake")
    for speed, duration, words in (
        (1.0, 1.5, "3 of 3 requests of t.jsonl, 2 of them due in that time"),
        (2.0, 1.5, "3 of 3 requests of t.jsonl"),
        (1.0, None, "3 of 3 requests of t.jsonl"),
    ):
        step = step_of(
            rows,
            msgspec.structs.replace(trace, speed=speed),
            duration=duration,
            arrivals=Arrivals("trace"),
        )
        assert f", {words}, up to" in load_in_words(step, "", "", "")
