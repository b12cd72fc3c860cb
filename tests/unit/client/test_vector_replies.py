"""Log-probabilities and embeddings from llama-server's JSON."""

from __future__ import annotations

import math
from typing import Any

import pytest

from benchsuite.client.vectors import read_embedding, read_embeddings, read_position, read_usage
from benchsuite.errors import ServerLiedError
from benchsuite.model.vectors import pack_floats, unpack_floats, unpack_ids


def reply(*rows: tuple[Any, Any]) -> dict[str, Any]:
    """A `/completion` reply as builds 10092 to 11549 give it."""
    tops = [{"id": i, "token": "x", "bytes": [120], "logprob": p} for i, p in rows]
    return {"completion_probabilities": [{**tops[0], "top_logprobs": tops}]}


def test_a_position_is_ordered_by_token() -> None:
    """The server sorts by likelihood; vectors are by id, and of equals the lower id leads."""
    position = read_position(reply((4, -0.5), (2, -0.5), (9, -3.0)), "/completion")
    assert unpack_ids(position.ids, 3) == (2, 4, 9)
    assert unpack_floats(position.logprobs) == (-0.5, -0.5, -3.0)
    assert position.top == 2


def test_a_null_stays_no_number() -> None:
    """NaN becomes null in JSON; it must not become 0, and never leads."""
    position = read_position(reply((0, None), (1, -2.0)), "/completion")
    assert math.isnan(unpack_floats(position.logprobs)[0])
    assert position.top == 1


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "completion_probabilities"),
        ({"completion_probabilities": []}, "completion_probabilities"),
        ({"completion_probabilities": [{"probs": [{"tok_str": "x", "prob": 1}]}]}, "top_logprobs"),
        (reply((1, -1.0), (1, -2.0)), "twice"),
        (reply((-1, -1.0)), "token id"),
        (reply((1, "x")), "should be a number"),
        ({"completion_probabilities": [{"top_logprobs": [{"id": 1}]}]}, "should be a number"),
    ],
)
def test_other_forms_are_refused(body: dict[str, Any], words: str) -> None:
    """An older form, a missing field or a wrong type is named."""
    with pytest.raises(ServerLiedError, match=words):
        read_position(body, "/completion")


def test_an_embedding_is_read() -> None:
    """One list of numbers, null kept as no number."""
    packed = read_embedding({"data": [{"embedding": [0.5, None]}]}, "/v1/embeddings")
    assert unpack_floats(packed)[0] == 0.5
    assert math.isnan(unpack_floats(packed)[1])


@pytest.mark.parametrize(
    "body", [{}, {"data": []}, {"data": [{}, {}]}, {"data": [{"embedding": "AAAA"}]}]
)
def test_no_embedding_is_refused(body: dict[str, Any]) -> None:
    """None, several, or one that is no list."""
    with pytest.raises(ServerLiedError):
        read_embedding(body, "/v1/embeddings")


def test_embeddings_are_read_in_each_form() -> None:
    """`/embedding` lists vectors a token or one for the prompt; older builds send one object."""
    one = pack_floats([1.0, 2.0])
    assert read_embeddings([{"index": 0, "embedding": [[1.0, 2.0]]}], "x") == (one,)
    assert read_embeddings([{"embedding": [[1.0, 2.0], [1.0, 2.0]]}], "x") == (one, one)
    assert read_embeddings({"embedding": [1.0, 2.0]}, "x") == (one,)
    assert read_embeddings({"data": [{"embedding": [1.0, 2.0]}]}, "x") == (one,)
    for wrong in ([], {"data": 1}, [{"embedding": [[1.0], 2.0]}], [{"embedding": "x"}], [1]):
        with pytest.raises(ServerLiedError):
            read_embeddings(wrong, "x")


def test_prompt_tokens_of_embeddings_are_told_or_unknown() -> None:
    """Never 0 where nothing is said."""
    assert read_usage({"usage": {"prompt_tokens": 9, "total_tokens": 9}}) == 9
    for silent in ([{"embedding": [1.0]}], {}, {"usage": None}, {"usage": {"prompt_tokens": True}}):
        assert read_usage(silent) is None
