"""The `limits` of a configuration or deployment: how long waits may take; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchsuite.model.limits import Limits
from benchsuite.scenario.words import remedy


def read_limits(table: Mapping[str, Any], say: Callable[[str, str], None]) -> dict[str, float]:
    """The limits that a table gives, in seconds.

    Args:
        table: As TOML gave it.
        say: Told of each problem: the key, and the sentence.
    """
    found = {}
    for key, value in table.items():
        if key not in Limits.__struct_fields__:
            hint = remedy(key, Limits.__struct_fields__, "valid keys")
            say(key, f"unknown key '{key}' in 'limits'{hint}")
        elif isinstance(value, bool) or not isinstance(value, int | float):
            say(key, f"'{key}': expected a number of seconds, found {value!r}")
        elif not 0 <= value < float("inf") or (value == 0 and key != "lock"):
            say(key, f"'{key}': expected a number of seconds above 0, found {value!r}")
        else:
            found[key] = float(value)
    return found
