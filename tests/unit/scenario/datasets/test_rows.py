"""What a line or element may be, and what is said of one that is none."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.model.sample import DatasetFormat, DatasetSpec, Message, Row, TraceFormat
from benchsuite.scenario.datasets.rows import BadRowError, read_row

Form = DatasetFormat | TraceFormat
FORMS: tuple[Form, ...] = (*get_args(DatasetFormat), *get_args(TraceFormat))


LATIN = json.dumps({"messages": [{"role": "user", "content": "é"}]}, ensure_ascii=False).encode(
    "latin-1"
)


def read(form: Form, row: Any, **keys: Any) -> Row:
    """The request of one row, number 7 of its file."""
    raw = row if isinstance(row, bytes) else json.dumps(row).encode()
    return read_row(raw, 7, DatasetSpec("f", form, **keys))


def said(*texts: str, word: str = "user") -> list[dict[str, str]]:
    """Messages in turn, the user's first."""
    return [{"role": (word, "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]


def test_a_chat_is_sent_up_to_its_last_question() -> None:
    """Or its first; answers behind it are the server's to give."""
    row = {"messages": said("a", "b", "c", "d"), "temperature": 0.7, "model": "m"}
    assert [one.content for one in read("messages", row).messages] == ["a", "b", "c"]
    assert [one.content for one in read("messages", row, ask="first").messages] == ["a"]
    assert read("messages", row).max_tokens is None
    assert read("messages", {**row, "max_tokens": 5}).max_tokens == 5
    assert read("messages", {**row, "max_tokens": 5, "max_completion_tokens": 6}).max_tokens == 6


def test_a_line_of_the_batch_api_is_its_body() -> None:
    """And parts of text are one text."""
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    body = {"messages": [{"role": "user", "content": parts}]}
    row = read("messages", {"custom_id": "1", "url": "/v1/chat/completions", "body": body})
    assert row == Row(7, (Message("user", "ab"),))


def test_speakers_of_sharegpt_are_roles() -> None:
    """Whatever else the element has."""
    talk = [
        {"from": "system", "value": "s"},
        {"from": "human", "value": "a"},
        {"from": "gpt", "value": "b"},
        {"from": "user", "value": "c"},
        {"from": "chatgpt", "value": "d"},
    ]
    row = read("sharegpt", {"id": "x_0", "conversations": talk, "model": "m"})
    roles = [(one.role, one.content) for one in row.messages]
    assert roles == [("system", "s"), ("user", "a"), ("assistant", "b"), ("user", "c")]


def test_times_of_prompts_are_seconds_or_milliseconds() -> None:
    """And either word for the output limit will do."""
    row = read("prompts", {"at_s": 1.5, "prompt": "x", "max_tokens": 3})
    assert (row.at_ns, row.prompt, row.max_tokens) == (1_500_000_000, "x", 3)
    row = read("prompts", {"timestamp": 1.5, "prompt": "x", "output_length": 3})
    assert (row.at_ns, row.max_tokens) == (1_500_000, 3)


HASHED = {"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [1, 2]}


@pytest.mark.parametrize(
    ("form", "row", "expected"),
    [
        ("messages", b"{", "no valid JSON"),
        ("messages", b"\xff", "save it as UTF-8"),
        ("messages", b"[]", "Expected `object`, got `array`; expected {"),
        ("messages", {}, "no 'messages'; expected {"),
        ("messages", {"messages": "a"}, "Expected `array"),
        ("messages", {"messages": []}, "no message of 'user' with text"),
        ("messages", {"messages": said(" ")}, "no message of 'user' with text"),
        ("messages", {"messages": said("a", word="tool")}, "unknown role 'tool' at messages[0]"),
        ("messages", {"messages": [{"role": "user"}]}, "missing required field `content`"),
        (
            "messages",
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "content of type 'image_url' at messages[0]; only text",
        ),
        ("messages", {"messages": said("a"), "max_tokens": 0}, "max_tokens 0; expected 1 to"),
        ("messages", b'{"messages":[{"role":"user","content":"\\ud800 a b c"}]}', "surrogate"),
        ("sharegpt", {"items": []}, "missing required field `conversations`"),
        ("sharegpt", {"conversations": [{"from": "bing", "value": "a"}]}, "unknown speaker 'bing'"),
        ("sharegpt", {"conversations": [{"from": "gpt", "value": "a"}]}, "no message of 'human'"),
        ("mooncake", {**HASHED, "hash_ids": [1]}, "1 hash_ids for an input_length of 700"),
        ("mooncake", {**HASHED, "hash_ids": [1, -2]}, "hash id -2"),
        ("mooncake", {**HASHED, "input_length": 0}, "input_length 0; expected 1 to"),
        ("mooncake", {**HASHED, "output_length": 0}, "output_length 0; expected 1 to"),
        ("mooncake", {**HASHED, "timestamp": -1}, "timestamp is out of range"),
        ("mooncake", {**HASHED, "timestamp": 1e13}, "timestamp is out of range"),
        ("messages", LATIN, "save it as UTF-8"),
        ("messages", '{"messages": "e"}'.encode("utf-16"), "save it as UTF-8"),
        ("messages", '{"messages": "e"}'.encode("utf-16-be"), "save it as UTF-8"),
        ("mooncake", {"timestamp": 0}, "missing required field"),
        ("prompts", {"prompt": "a"}, "no arrival time"),
        ("prompts", {"prompt": "a", "at_s": 1, "timestamp": 1}, "both 'at_s' and 'timestamp'"),
        ("prompts", {"prompt": "", "at_s": 1}, "the prompt is empty"),
        ("prompts", {"prompt": "a", "at_s": -1}, "at_s is out of range"),
    ],
)
def test_what_is_no_request_is_refused_in_a_sentence(form: Form, row: Any, expected: str) -> None:
    """What was found, and what was expected."""
    with pytest.raises(BadRowError) as caught:
        read(form, row)
    assert expected in str(caught.value)


_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
_MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "system", "assistant", "x"]) | _VALUES,
        "from": st.sampled_from(["human", "gpt"]) | _VALUES,
        "content": _VALUES,
        "value": _VALUES,
    },
)
_ROW = st.fixed_dictionaries(
    {},
    optional={
        "messages": st.lists(_MESSAGE, max_size=3) | _VALUES,
        "conversations": st.lists(_MESSAGE, max_size=3) | _VALUES,
        "max_tokens": _VALUES,
        "timestamp": _VALUES,
        "at_s": _VALUES,
        "prompt": _VALUES,
        "input_length": _VALUES,
        "output_length": _VALUES,
        "hash_ids": _VALUES,
    },
)


@given(_ROW | _VALUES, st.sampled_from(FORMS))
def test_any_line_is_a_request_or_refused(row: Any, form: Form) -> None:
    """Nothing else is raised, and a request has exactly one thing to send."""
    try:
        found = read(form, row)
    except BadRowError:
        return
    assert sum((bool(found.messages), found.prompt is not None, bool(found.blocks))) == 1
    assert found.max_tokens is None or found.max_tokens >= 1
    assert (found.at_ns is not None) == (form in get_args(TraceFormat))
