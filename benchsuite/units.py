"""Units: bytes, MiB, percentages and durations, parsed and printed.

Must not import anything of the package but errors.
"""

from __future__ import annotations

import re

MIB = 1024 * 1024

_SIZE_MIB = {"B": 1 / MIB, "KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0, "TiB": 1024.0 * 1024.0}
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_BUILD = re.compile(r"b?(\d{4,9})\b")
_QUANTITY = re.compile(rf"\s*({_NUMBER})\s*([A-Za-z%]*)\s*")


def parse_quantity(text: str, unit: str) -> float:
    """The number in `text`, converted to `unit`.

    Args:
        text: `12`, `16 MiB`, `1.5 GiB`, `5%`, `250 ms`.
        unit: The unit wanted: `MiB`, `s`, `ms`, `%`, or any other for plain numbers only.

    Returns:
        The value in `unit`; a bare number is taken to be in `unit` already. Percentages stay
        percentages (`5%` is 5.0).

    Raises:
        ValueError: `text` is not a number with a unit that converts to `unit`.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a number")
    number, found = float(match[1]), match[2]
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"'{text}' is too large")
    if found in ("", unit):
        return number
    if unit == "MiB" and found in _SIZE_MIB:
        return number * _SIZE_MIB[found]
    if unit in ("s", "ms") and found in _SECONDS:
        return number * _SECONDS[found] / _SECONDS[unit]
    raise ValueError(f"'{text}' is not in {unit}")


def build_number(build: str | None) -> int | None:
    """The number of a build of llama.cpp: 10434 of `b10434-7e4c0a9`; None where it has none.

    Args:
        build: As the log or `/props` names it; names without a number of llama.cpp's own
            (`b0-unknown`) have none.
    """
    match = None if build is None else _BUILD.match(build)
    return None if match is None else int(match[1])


def format_number(value: float, decimals: int = 2) -> str:
    """`value` with at most `decimals` decimals and no trailing zeros; whole numbers have none.

    What so few decimals would make 0 has two digits. Just below 1, where cosines lie, it has as
    many more as tell it from 1, up to 9.
    """
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    if 0.99 <= value < 1:
        decimals = max(decimals, 4)
    text = f"{value:.{decimals}f}"
    while 0.99 <= value < 1 and text.startswith("1") and decimals < 9:
        decimals += 1
        text = f"{value:.{decimals}f}"
    if value and not text.strip("-0."):
        return f"{value:.2g}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_value(value: float | str, unit: str = "") -> str:
    """A measured value as people read it: `16 MiB`, `1215`, `12.3 ms`, or the text itself."""
    if isinstance(value, str):
        return value
    return f"{format_number(value)} {unit}".rstrip()
