"""Fields of a reply, read strictly: absent is None, a wrong type is the server's lie; pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from benchsuite.errors import ServerLiedError
from benchsuite.redact import redact


def expect_object(value: Any, what: str) -> dict[str, Any]:
    """`value` if it is a JSON object.

    Raises:
        ServerLiedError: It is something else.
    """
    if not isinstance(value, dict):
        raise ServerLiedError(f"{what} should be a JSON object, got {shape(value)}")
    return value


def read_count(body: Mapping[str, Any], key: str, what: str) -> int | None:
    """A token count; None where the field is absent or null.

    Raises:
        ServerLiedError: It is not a whole number of 0 or more.
    """
    value = body.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ServerLiedError(f"{what}: '{key}' should be a count, got {shape(value)}")
    return value


def read_number(body: Mapping[str, Any], key: str, what: str) -> float | None:
    """A finite number; None where the field is absent or null.

    Raises:
        ServerLiedError: It is no finite number.
    """
    value = body.get(key)
    if value is None:
        return None
    if not is_number(value) or value != value:
        raise ServerLiedError(f"{what}: '{key}' should be a number, got {shape(value)}")
    return float(value)


def is_number(value: Any) -> bool:
    """Whether a value is a number that a float can hold, or NaN; a whole one may be too large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return not abs(value) > sys.float_info.max


def read_piece(token: Any, what: str) -> tuple[int, str]:
    """Id and text of one token: `{"id", "piece"}`, the piece as bytes where it is no text.

    Raises:
        ServerLiedError: It is something else.
    """
    if isinstance(token, int) and not isinstance(token, bool):
        return token, f"<{token}>"  # a build that does not know pieces
    body = expect_object(token, f"{what}: a token")
    number, piece = body.get("id"), body.get("piece")
    if not isinstance(number, int) or isinstance(number, bool):
        raise ServerLiedError(f"{what}: a token's 'id' should be a number, got {shape(number)}")
    if isinstance(piece, list) and all(isinstance(part, int) for part in piece):
        return number, "".join(f"\\x{part:02x}" for part in piece)
    return number, piece if isinstance(piece, str) else f"<{number}>"


def read_text(body: Mapping[str, Any], key: str, what: str) -> str:
    """A text; empty where the field is absent or null.

    Raises:
        ServerLiedError: It is something else.
    """
    value = body.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ServerLiedError(f"{what}: '{key}' should be text, got {shape(value)}")
    return value


def shape(value: Any) -> str:
    """A wrong value in a message, cut short once what it tells is hidden."""
    try:
        text = redact(repr(value))
    except (RecursionError, ValueError):  # too deep, or a number of more than 4300 digits
        text = f"a {type(value).__name__} too large to show"
    return text if len(text) <= 60 else f"{text[:57]}..."
