"""Replies are read strictly: absent counts stay unknown, wrong types are the server's lie."""

from __future__ import annotations

from typing import Any

import pytest

from benchsuite.client.body import (
    ChatParts,
    CompletionParts,
    completion_reply,
    copies_asked,
    read_timings,
)
from benchsuite.client.exchange import quoted
from benchsuite.client.fields import read_piece, shape
from benchsuite.client.reply import Reply, Stamps
from benchsuite.errors import ServerLiedError
from benchsuite.redact import forget, learn, new_key

STAMPS = Stamps(scheduled_ns=1, sent_ns=2)


def _final(**changes: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "stop": True,
        "id_slot": 1,
        "tokens_evaluated": 50,
        "tokens_predicted": 8,
        "tokens_cached": 57,
        "stop_type": "limit",
        "timings": {"cache_n": 40, "prompt_n": 10, "prompt_ms": 2.5, "predicted_n": 8},
    }
    return body | changes


def test_a_completion_counts_its_whole_prompt() -> None:
    """`tokens_evaluated` is the whole prompt, and `tokens_cached` is never taken for reuse."""
    reply = completion_reply(_final(), "text", STAMPS, ())
    assert (reply.prompt_tokens, reply.cached_tokens, reply.evaluated_tokens) == (50, 40, 10)
    assert reply.slot == 1


@pytest.mark.parametrize("slot", [-1, None, True, "1"])
def test_a_slot_that_is_not_named_is_unknown(slot: object) -> None:
    """Partial events carry -1; nothing but a slot number is taken for one."""
    assert completion_reply(_final(id_slot=slot), "", STAMPS, ()).slot is None


def test_builds_without_cache_n_leave_cached_tokens_unknown() -> None:
    """Before September 2025 cached tokens are missing, which is not 0."""
    reply = completion_reply(_final(timings={"prompt_n": 10}), "", STAMPS, ())
    assert reply.cached_tokens is None


@pytest.mark.parametrize("value", [-1, 1.5, "7", True, float("nan")])
def test_a_count_of_a_wrong_type_is_a_lie(value: object) -> None:
    """A count is a whole number of 0 or more."""
    with pytest.raises(ServerLiedError, match="'cache_n' should be a count"):
        read_timings({"timings": {"cache_n": value}}, "/completion")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "3", False])
def test_a_time_that_is_no_number_is_a_lie(value: object) -> None:
    """NaN and text are no times."""
    with pytest.raises(ServerLiedError, match="'prompt_ms' should be a number"):
        read_timings({"timings": {"prompt_ms": value}}, "/completion")


def _chat(*chunks: dict[str, Any]) -> ChatParts:
    parts = ChatParts()
    for chunk in chunks:
        parts.take(chunk)
    return parts


def test_a_chat_is_put_together_from_its_chunks() -> None:
    """Content comes in deltas, timings in the finish chunk, usage in the last one."""
    reply = _chat(
        {"choices": [{"delta": {"role": "assistant", "content": None}}]},
        {"choices": [{"delta": {"reasoning_content": "hm "}}]},
        {"choices": [{"delta": {"content": "yes"}}]},
        {
            "choices": [{"delta": {}, "finish_reason": "length"}],
            "timings": {"cache_n": 3, "prompt_n": 4, "predicted_n": 2},
        },
        {
            "choices": [],
            "usage": {
                "prompt_tokens": 7,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 3},
            },
        },
    ).reply(STAMPS, ())
    assert reply.text == "hm yes"
    assert reply.content == "yes"
    assert (reply.prompt_tokens, reply.cached_tokens, reply.output_tokens) == (7, 3, 2)
    assert reply.finish == "length"


def test_a_chat_without_usage_takes_the_prompt_from_timings() -> None:
    """cache_n + prompt_n is the whole prompt."""
    reply = _chat({"choices": [], "timings": {"cache_n": 3, "prompt_n": 4}}).reply(STAMPS, ())
    assert reply.prompt_tokens == 7


def test_two_counts_of_cached_tokens_must_agree() -> None:
    """`usage` and `timings` count the same tokens."""
    parts = _chat(
        {"choices": [], "timings": {"cache_n": 3, "prompt_n": 4}},
        {
            "choices": [],
            "usage": {"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 2}},
        },
    )
    with pytest.raises(ServerLiedError, match="2 cached tokens in 'usage' and 3 in 'timings'"):
        parts.reply(STAMPS, ())


def _streamed(*deltas: dict[str, Any], tokens: int, finish: str = "length") -> Reply:
    return _chat(
        {"choices": [{"delta": {"role": "assistant", "content": None}}]},
        *({"choices": [{"delta": delta}]} for delta in deltas),
        {"choices": [{"delta": {}, "finish_reason": finish}]},
        {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": tokens}},
    ).reply(STAMPS, ())


def test_a_chat_with_more_events_than_tokens_is_a_lie() -> None:
    """One that came twice, or any beyond the tokens of a reply that ended by itself."""
    twice = [{"content": piece} for piece in ("a", "b", "b", "c")]
    with pytest.raises(ServerLiedError, match="4 events with text came of 3 generated tokens"):
        _streamed(*twice, tokens=3)
    other = [{"content": piece} for piece in "abcd"]
    with pytest.raises(ServerLiedError, match="4 events with text came of 3"):
        _streamed(*other, tokens=3, finish="stop")
    with pytest.raises(ServerLiedError, match="4 events with text came of 2"):
        _streamed(*other, tokens=2)


def test_a_chat_may_have_fewer_events_than_tokens() -> None:
    """Tokens share one, add nothing to the message, or call a tool; an empty one is none."""
    call: dict[str, Any] = {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}
    deltas: list[dict[str, Any]] = [{"content": "ab"}, {"content": ""}, {}, call, call]
    assert _streamed(*deltas, tokens=1).text == "ab"
    assert _streamed({"content": "a"}, {"content": "a"}, tokens=2).text == "aa"


def test_a_token_of_a_chat_may_make_two_events() -> None:
    """The one that ends reasoning, and the last one, a part of which was held back."""
    deltas = [{"reasoning_content": "a"}, {"reasoning_content": "b"}, {"content": "c"}]
    assert _streamed(*deltas, tokens=2, finish="stop").content == "c"
    held = [{"content": piece} for piece in ("a", "b", "<")]
    assert _streamed(*held, tokens=2).content == "ab<"


def test_several_completions_of_a_chat_are_not_held_against_one_count() -> None:
    """Their events come interleaved, and the count is one completion's."""
    chunks = [{"choices": [{"index": i, "delta": {"content": "a"}}]} for i in (0, 1, 0, 1)]
    usage = {"choices": [], "usage": {"completion_tokens": 2}}
    assert _chat(*chunks, usage).reply(STAMPS, ()).output_tokens == 2


def test_a_text_completion_with_more_events_than_tokens_is_a_lie() -> None:
    """Without a chat's parser no text is held back."""
    parts = ChatParts("/v1/completions")
    for piece in "abc":
        parts.take({"choices": [{"text": piece, "finish_reason": None}]})
    parts.take({"choices": [], "usage": {"completion_tokens": 2}})
    with pytest.raises(ServerLiedError, match="/v1/completions: 3 events with text came of 2"):
        parts.reply(STAMPS, ())


def test_a_chunk_without_choices_is_a_lie() -> None:
    """An object of another kind is not taken for an empty reply."""
    with pytest.raises(ServerLiedError, match="'choices' should be a list"):
        ChatParts().take({"object": "error"})


def test_replies_of_2024_name_slot_and_end_otherwise() -> None:
    """`slot_id` until March, one flag a reason until December."""
    final = {"slot_id": 3, "stopped_limit": True, "stopped_eos": False, "tokens_evaluated": 9}
    reply = completion_reply(final, "", STAMPS, ())
    assert (reply.slot, reply.finish, reply.cached_tokens) == (3, "limit", None)


def test_a_token_has_an_id_and_a_text() -> None:
    """Bytes that are no text are shown as escapes; a bare id is a build without pieces."""
    assert read_piece({"id": 332, "piece": "h"}, "/tokenize") == (332, "h")
    assert read_piece({"id": 200, "piece": [195]}, "/tokenize") == (200, "\\xc3")
    assert read_piece(7, "/tokenize") == (7, "<7>")
    assert read_piece({"id": 7}, "/tokenize") == (7, "<7>")
    for wrong in ("x", {"piece": "h"}, {"id": True, "piece": "h"}, {"id": "1"}):
        with pytest.raises(ServerLiedError):
            read_piece(wrong, "/tokenize")


def test_what_an_answer_holds_is_cut_once_its_keys_are_hidden() -> None:
    """Also keys that are longer than what is quoted, and the random one of a launched server."""
    try:
        for key in ("k" + "3f9a" * 8, "k1" + "ab9" * 500, str(new_key())):
            learn(key)
            for before in (0, 30, 55, 75, 4080):
                text = "x" * before + f"{key} " * 9
                for shown in (quoted(text), quoted(text.encode()), shape(text), shape([text])):
                    assert key[:16] not in shown
                    assert key[-16:] not in shown
    finally:
        forget()


def _copies(*events: dict[str, Any], wanted: int = 2) -> Reply | None:
    parts = CompletionParts(wanted)
    for event in events:
        parts.take(event)
    return parts.reply(STAMPS, ())


def test_several_completions_are_told_apart_by_their_index() -> None:
    """They come interleaved, each with an end of its own; the reply's own are the first one's."""
    reply = _copies(
        {"index": 1, "content": " b", "stop": False},
        {"index": 0, "content": " a", "stop": False},
        _final(index=1, content="", id_slot=3),
        _final(index=0, content="", tokens_predicted=5, timings={"predicted_n": 5}),
    )
    assert reply is not None
    assert (reply.text, reply.slot, reply.output_tokens) == (" a", 1, 5)
    assert [(c.text, c.slot, c.output_tokens) for c in reply.copies] == [(" a", 1, 5), (" b", 3, 8)]
    assert reply.generated_tokens == 13


def test_fewer_completions_than_asked_for_are_a_lie() -> None:
    """A build that does not know `n_cmpl` sends one."""
    with pytest.raises(ServerLiedError, match="asked for 2 completions of a prompt and sent 1"):
        _copies(_final(content=" a"))
    assert _copies({"index": 0, "content": " a"}) is None  # cut off before any end


def test_either_name_asks_for_several() -> None:
    """`n` is the other name of `n_cmpl`; nothing else counts."""
    assert copies_asked({"n_cmpl": 3}) == 3
    assert copies_asked({"n": 2}) == 2
    assert copies_asked({}) == 1


def _piece(told: int, text: str = "a") -> dict[str, Any]:
    return {"content": text, "stop": False, "tokens_predicted": told}


@pytest.mark.parametrize(
    ("events", "sentence"),
    [
        ([_piece(2), _piece(1)], "counts 1 generated tokens where the one before it counted 2"),
        ([_final(), _piece(8)], "an event follows the last"),
        ([_final(), _final()], "ended twice"),
        ([_piece(8)] * 9 + [_final(content="")], "9 events with text came of 8 generated tokens"),
        ([_piece(8)] * 8 + [_final(content="x")], "9 events with text came of 8 generated tokens"),
    ],
)
def test_events_out_of_order_or_twice_are_a_lie(
    events: list[dict[str, Any]], sentence: str
) -> None:
    """Their text would be another than the server made."""
    parts = CompletionParts(1)
    for event in events[:-1]:
        parts.take(event)
    with pytest.raises(ServerLiedError, match=sentence):
        parts.take(events[-1])


def test_tokens_accepted_together_have_one_count() -> None:
    """Speculative decoding counts all of a step's tokens in the event of each of them."""
    parts = CompletionParts(1)
    assert [parts.take(one) for one in [_piece(3), _piece(3), _piece(3)]] == [3, 0, 0]
    assert parts.take(_final(content="", tokens_predicted=3)) == 0
