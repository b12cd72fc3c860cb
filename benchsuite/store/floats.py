"""Records as JSON in which numbers that are not finite survive.

JSON has no infinity and no not-a-number: msgspec writes both as null, which no measurement can be
read back from. They are written as `{"not finite": "nan"}` instead, and only where there are any.
"""

from __future__ import annotations

import math
import sys
from typing import Any, TypeVar

import msgspec

from benchsuite.redact import beginning, redact_json

_T = TypeVar("_T")
_KEY = "not finite"
_MOST_WORDS = 300  # of an error, which may quote what was found in full
_MARK = b'{"not finite":"'  # no text holds it: its quotes would be escaped


def is_finite(value: float) -> bool:
    """Whether arithmetic can take a number; a whole one may be too large for it."""
    return abs(value) <= sys.float_info.max


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


def decode_json(data: bytes, kind: Any = Any) -> Any:
    """JSON as a type; in whatever way it cannot be read, it is one error.

    Raises:
        msgspec.DecodeError: It is no JSON, not of this type, no UTF-8 or nested too deeply.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        if len(str(error)) <= _MOST_WORDS:
            raise
        raise msgspec.DecodeError(f"{beginning(str(error), _MOST_WORDS)}...") from None
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"it is not UTF-8 (byte {error.start})") from None


def redacted(record: _T) -> _T:
    """The record with every secret in its texts hidden; itself where there is none."""
    data = encode_record(record)
    hidden = redact_json(data)
    return record if hidden is data else decode_record(hidden, type(record))


def decode_record(data: bytes, kind: type[_T]) -> _T:
    """A record as `encode_record` wrote it.

    Raises:
        msgspec.DecodeError: It is no JSON, or not of this type.
    """
    if _MARK not in data:
        found: _T = decode_json(data, kind)
        return found
    return msgspec.convert(decode_plain(data), kind)


def decode_plain(data: bytes) -> Any:
    """The JSON's plain values, with the numbers that are not finite.

    Raises:
        msgspec.DecodeError: It is no JSON.
    """
    plain = decode_json(data)
    try:
        return _unmarked(plain) if _MARK in data else plain
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None


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
