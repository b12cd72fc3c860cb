"""Records as JSON in which numbers that are not finite survive.

JSON has no infinity and no not-a-number: msgspec writes both as null, which no measurement can be
read back from. They are written as `{"not finite": "nan"}` instead, and only where there are any.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import msgspec

_T = TypeVar("_T")
_KEY = "not finite"
_MARK = b'{"not finite":"'  # no text holds it: its quotes would be escaped


def encode_record(record: Any) -> bytes:
    """The record as JSON in one line.

    Args:
        record: Anything that msgspec can encode.
    """
    data = msgspec.json.encode(record)
    if b"null" not in data:
        return data
    plain = msgspec.to_builtins(record)
    marked, found = _marked(plain)
    return msgspec.json.encode(marked) if found else data


def decode_record(data: bytes, kind: type[_T]) -> _T:
    """A record as `encode_record` wrote it.

    Raises:
        msgspec.DecodeError: It is no JSON, or not of this type.
    """
    if _MARK not in data:
        return msgspec.json.decode(data, type=kind)
    return msgspec.convert(decode_plain(data), kind)


def decode_plain(data: bytes) -> Any:
    """The JSON's plain values, with the numbers that are not finite.

    Raises:
        msgspec.DecodeError: It is no JSON.
    """
    plain = msgspec.json.decode(data)
    return _unmarked(plain) if _MARK in data else plain


def _marked(value: Any) -> tuple[Any, bool]:
    """A plain value with its non-finite numbers replaced, and whether there were any."""
    if isinstance(value, float):
        return (value, False) if math.isfinite(value) else ({_KEY: str(value)}, True)
    if isinstance(value, dict):
        parts = {key: _marked(one) for key, one in value.items()}
        return {key: one for key, (one, _) in parts.items()}, any(f for _, f in parts.values())
    if isinstance(value, list | tuple):
        items = [_marked(one) for one in value]
        return [one for one, _ in items], any(found for _, found in items)
    return value, False


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        if len(value) == 1 and value.get(_KEY) in ("nan", "inf", "-inf"):
            return float(value[_KEY])
        return {key: _unmarked(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_unmarked(one) for one in value]
    return value
