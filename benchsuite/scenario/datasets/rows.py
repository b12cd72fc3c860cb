"""One line or array element to a request, or a sentence on why it is none; pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from benchsuite.model.sample import MOONCAKE_BLOCK, ROLES, DatasetSpec, Message, Row

_MAX_TOKENS = 1_000_000
_MAX_MS = 2.0**62 / 1e6  # so that nanoseconds stay within 63 bits, those since 1970 too
_NS_PER_MS = 1_000_000

_SPEAKERS = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
}
"""Who speaks in files of ShareGPT's form, and the role in OpenAI's API."""


def is_utf8(raw: bytes) -> bool:
    """Whether bytes are text as JSON has it; of UTF-16 each second byte is 0, or no text at all."""
    try:
        return "\0" not in raw.decode()
    except UnicodeDecodeError:
        return False


class BadRowError(Exception):
    """What was found, what was expected."""


class _Part(msgspec.Struct):
    """One part of a message's content."""

    type: str
    text: str = ""


class _Said(msgspec.Struct):
    """A message of OpenAI's API."""

    role: str
    content: str | list[_Part]


class _Chat(msgspec.Struct):
    """A body of OpenAI's API, or a line of its batch API around one."""

    messages: list[_Said] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    body: _Chat | None = None


class _Spoken(msgspec.Struct):
    """A message of ShareGPT's form."""

    speaker: str = msgspec.field(name="from")
    value: str = ""


class _Conversation(msgspec.Struct):
    """An element of ShareGPT's form."""

    conversations: list[_Spoken]


class _Hashed(msgspec.Struct):
    """A line of Mooncake's form."""

    timestamp: float  # milliseconds
    input_length: int
    output_length: int
    hash_ids: list[int]


class _Timed(msgspec.Struct):
    """A line with its prompt."""

    prompt: str
    at_s: float | None = None
    timestamp: float | None = None  # milliseconds
    max_tokens: int | None = None
    output_length: int | None = None  # another word for max_tokens


def read_row(raw: bytes, number: int, spec: DatasetSpec) -> Row:
    """The request of one line or element.

    Args:
        raw: JSON.
        number: Of the line or element, from 1.
        spec: Its form.

    Raises:
        BadRowError: It is none.
    """
    return _READERS[spec.format](raw, number, spec)


def _decode(raw: bytes, kind: type[Any], example: str) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise BadRowError(f"{error}; expected {example}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if not is_utf8(raw):
            raise BadRowError(f"this is no UTF-8: save it as UTF-8; expected {example}") from None
        raise BadRowError(f"no valid JSON ({error}); expected {example}") from None
    except RecursionError:
        raise BadRowError(f"nested too deep; expected {example}") from None


_CHAT = '{"messages": [{"role": "user", "content": "..."}]}'
_SHARED = '{"conversations": [{"from": "human", "value": "..."}]}'
_HASHES = '{"timestamp": 0, "input_length": 700, "output_length": 50, "hash_ids": [1, 2]}'
_PROMPT = '{"at_s": 0.5, "prompt": "...", "max_tokens": 16}'


def _chat(raw: bytes, number: int, spec: DatasetSpec) -> Row:
    chat: _Chat = _decode(raw, _Chat, _CHAT)
    inner = chat if chat.body is None else chat.body
    if inner.messages is None:
        raise BadRowError(f"no 'messages'; expected {_CHAT}")
    said = []
    for place, one in enumerate(inner.messages):
        if one.role not in ROLES:
            raise BadRowError(
                f"unknown role '{one.role[:40]}' at messages[{place}]; expected one of "
                f"{', '.join(ROLES)}"
            )
        said.append(Message(one.role, _text(one.content, place)))
    limit = inner.max_tokens if inner.max_completion_tokens is None else inner.max_completion_tokens
    messages = _asked(said, spec.ask, "user")
    return Row(number, messages=messages, max_tokens=_count(limit, "max_tokens"))


def _text(content: str | list[_Part], place: int) -> str:
    if isinstance(content, str):
        return content
    for part in content:
        if part.type != "text":
            raise BadRowError(
                f"content of type '{part.type[:40]}' at messages[{place}]; only text can be sent"
            )
    return "".join(part.text for part in content)


def _shared(raw: bytes, number: int, spec: DatasetSpec) -> Row:
    found: _Conversation = _decode(raw, _Conversation, _SHARED)
    said = []
    for place, one in enumerate(found.conversations):
        role = _SPEAKERS.get(one.speaker)
        if role is None:
            raise BadRowError(
                f"unknown speaker '{one.speaker[:40]}' at conversations[{place}]; expected one of "
                f"{', '.join(_SPEAKERS)}"
            )
        said.append(Message(role, one.value))
    return Row(number, messages=_asked(said, spec.ask, "human"))


def _asked(said: Sequence[Message], which: str, word: str) -> tuple[Message, ...]:
    """What is sent: up to the first or last message of the user that is not empty."""
    users = [i for i, one in enumerate(said) if one.role == "user" and one.content.strip()]
    if not users:
        raise BadRowError(f"no message of '{word}' with text, so nothing is asked")
    return tuple(said[: 1 + (users[0] if which == "first" else users[-1])])


def _hashed(raw: bytes, number: int, _: DatasetSpec) -> Row:
    found: _Hashed = _decode(raw, _Hashed, _HASHES)
    length = _count(found.input_length, "input_length")
    blocks = -(-found.input_length // MOONCAKE_BLOCK)
    if len(found.hash_ids) != blocks:
        raise BadRowError(
            f"{len(found.hash_ids)} hash_ids for an input_length of {found.input_length}; expected "
            f"{blocks}, one for each {MOONCAKE_BLOCK} tokens begun"
        )
    low, high = min(found.hash_ids), max(found.hash_ids)
    if low < 0 or high >= 2**63:
        raise BadRowError(f"hash id {low if low < 0 else high}; expected 0 to 2^63 - 1")
    return Row(
        number,
        blocks=tuple(found.hash_ids),
        input_tokens=length,
        max_tokens=_count(found.output_length, "output_length"),
        at_ns=_at(found.timestamp, "timestamp"),
    )


def _prompted(raw: bytes, number: int, _: DatasetSpec) -> Row:
    found: _Timed = _decode(raw, _Timed, _PROMPT)
    if (found.at_s is None) == (found.timestamp is None):
        both = "both 'at_s' and 'timestamp'" if found.at_s is not None else "no arrival time"
        raise BadRowError(f"{both}; expected one of 'at_s' (seconds) or 'timestamp' (milliseconds)")
    if not found.prompt:
        raise BadRowError("the prompt is empty; expected text")
    if found.at_s is not None:
        at_ns = _at(found.at_s * 1000, "at_s")
    else:
        at_ns = _at(found.timestamp or 0.0, "timestamp")
    limit = found.output_length if found.max_tokens is None else found.max_tokens
    return Row(
        number,
        prompt=found.prompt,
        max_tokens=_count(limit, "max_tokens"),
        at_ns=at_ns,
    )


def _at(ms: float, key: str) -> int:
    if not 0 <= ms <= _MAX_MS:
        raise BadRowError(
            f"{key} is out of range; expected 0 or more, from the trace's beginning or since 1970"
        )
    return round(ms * _NS_PER_MS)


def _count(count: int | None, key: str) -> int | None:
    if count is not None and not 1 <= count <= _MAX_TOKENS:
        raise BadRowError(f"{key} {count}; expected 1 to {_MAX_TOKENS} tokens")
    return count


_READERS: dict[str, Callable[[bytes, int, DatasetSpec], Row]] = {
    "messages": _chat,
    "sharegpt": _shared,
    "mooncake": _hashed,
    "prompts": _prompted,
}
