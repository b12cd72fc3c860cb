"""Log-probabilities and embeddings from llama-server's JSON; pure, strict about types.

Fields were seen on builds 10092, 10434 and 11549: `/completion` with `n_probs` gives
`completion_probabilities[0].top_logprobs[]` of `{id, token, bytes, logprob}`, taken from the raw
logits unless `post_sampling_probs` is set; `n_probs` above the vocabulary's size gives all of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from benchsuite.client.fields import expect_object, is_number, shape
from benchsuite.errors import ServerLiedError
from benchsuite.model.vectors import Position, pack_floats, pack_ids


def read_position(body: Mapping[str, Any], what: str) -> Position:
    """The log-probabilities of the one token that a reply generated.

    Raises:
        ServerLiedError: They are not there, or not as llama-server gives them.
    """
    listed = body.get("completion_probabilities")
    if not isinstance(listed, list) or not listed:
        raise ServerLiedError(
            f"{what}: 'completion_probabilities' should be a list, got {shape(listed)}",
            hint="builds before December 2024 send log-probabilities in another form",
        )
    first = expect_object(listed[0], f"{what}: a token's probabilities")
    tops = first.get("top_logprobs")
    if not isinstance(tops, list) or not tops:
        raise ServerLiedError(f"{what}: 'top_logprobs' should be a list, got {shape(tops)}")
    rows: dict[int, float] = {}
    for entry in tops:
        row = expect_object(entry, f"{what}: an entry of 'top_logprobs'")
        token = row.get("id")
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < 2**31:
            raise ServerLiedError(f"{what}: 'id' should be a token id, got {shape(token)}")
        if token in rows:
            raise ServerLiedError(f"{what}: 'top_logprobs' names token {token} twice")
        rows[token] = _number(row, "logprob", what)
    # NaN is kept and told by whoever compares; it is never the likeliest
    top = max(rows, key=lambda token: (not math.isnan(rows[token]), rows[token], -token))
    ids = sorted(rows)
    return Position(top, pack_floats(rows[token] for token in ids), pack_ids(ids))


def read_embedding(body: Mapping[str, Any], what: str) -> bytes:
    """The one embedding of a `/v1/embeddings` reply, packed.

    Raises:
        ServerLiedError: It is not there, or no list of numbers.
    """
    entries = body.get("data")
    if not isinstance(entries, list) or len(entries) != 1:
        raise ServerLiedError(f"{what}: 'data' should hold one embedding, got {shape(entries)}")
    entry = expect_object(entries[0], f"{what}: an embedding")
    values = entry.get("embedding")
    if not isinstance(values, list):
        raise ServerLiedError(f"{what}: 'embedding' should be a list, got {shape(values)}")
    return pack_floats(_number({"embedding": value}, "embedding", what) for value in values)


def read_embeddings(body: Any, what: str) -> tuple[bytes, ...]:
    """The embeddings of a reply of `/v1/embeddings` or of `/embedding`, packed, in order.

    `/embedding` answers with a list of `{index, embedding}`, an embedding being a list of numbers,
    or of such lists: one for the pooled prompt, one a token without pooling (build 11434); builds
    of 2024 with one object, or with one in a list under `results`.

    Raises:
        ServerLiedError: They are not there, or no lists of numbers.
    """
    entries = body
    if isinstance(body, dict):
        entries = body.get("data", body.get("results", [body]))
    if not isinstance(entries, list) or not entries:
        raise ServerLiedError(f"{what} should list embeddings, got {shape(entries)}")
    found: list[bytes] = []
    for raw in entries:
        values = expect_object(raw, f"{what}: an embedding").get("embedding")
        if not isinstance(values, list) or not values:
            raise ServerLiedError(f"{what}: 'embedding' should be a list, got {shape(values)}")
        rows = values if isinstance(values[0], list) else [values]
        for row in rows:
            if not isinstance(row, list):
                raise ServerLiedError(f"{what}: 'embedding' should be a list, got {shape(row)}")
            numbers = (_number({"embedding": value}, "embedding", what) for value in row)
            found.append(pack_floats(numbers))
    return tuple(found)


def read_usage(body: Any) -> int | None:
    """Prompt tokens of a reply of embeddings; None where it does not tell (`/embedding`)."""
    usage = body.get("usage") if isinstance(body, dict) else None
    count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    told = isinstance(count, int) and not isinstance(count, bool) and count >= 0
    return count if told else None


def _number(row: Mapping[str, Any], key: str, what: str) -> float:
    """A number; NaN for the null that llama-server's JSON makes of NaN and infinity."""
    value = row.get(key, "")
    if value is None:
        return math.nan
    if not is_number(value):
        raise ServerLiedError(f"{what}: '{key}' should be a number, got {shape(value)}")
    return float(value)
