"""Fields of JSON of any era, read without complaint: what is absent or of another type is None.

For what a server says of itself. Replies are read strictly instead, in `client/body.py`, since
they are measured.
"""

from __future__ import annotations

import math
from typing import Any


def object_of(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def count_of(body: dict[str, Any], key: str, least: int = 0) -> int | None:
    """A whole number of at least `least`; numbers such as `512.0` count as whole."""
    value = body.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float):
        if not (math.isfinite(value) and value.is_integer()):
            return None
        value = int(value)
    return value if value >= least else None


def text_of(body: dict[str, Any], key: str) -> str | None:
    """A text that is not empty."""
    value = body.get(key)
    return value if isinstance(value, str) and value else None


def flag_of(body: dict[str, Any], key: str) -> bool | None:
    """True or false."""
    value = body.get(key)
    return value if isinstance(value, bool) else None
