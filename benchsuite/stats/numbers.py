"""Which of the values handed to a statistic can be used, and words for those that cannot; pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

NEEDED = 5
"""Fewest values a side, or pairs, for which an interval is given."""

TINY_SPREAD = 1e-12
"""Spread of log ratios below which they are taken as equal: what binary fractions leave over."""


def finite(value: float | None) -> bool:
    """Whether a value is a finite number; None, text and not-a-number are not."""
    return isinstance(value, int | float) and math.isfinite(value)


def positive(value: float | None) -> bool:
    """Whether a value is a finite number above 0, of which a logarithm can be taken."""
    return value is not None and finite(value) and value > 0


def median(values: Sequence[float]) -> float:
    """The median of at least one value; `statistics` takes 10 ms to import."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    low, high = ordered[middle - 1], ordered[middle]
    if math.isfinite(low + high):
        return (low + high) / 2
    return low / 2 + high / 2  # their sum overflows; halves of the tiniest would be 0


def step_of(values: Sequence[float]) -> float:
    """The step in which finite values seem to be counted: 1 for whole numbers, 0.01 for `2.25`.

    It stands in for a clock's or print's quantum where values without any spread leave nothing
    else to judge their precision by.
    """
    decimals = 0
    for value in values:
        digits = f"{value:.9f}".rstrip("0").partition(".")[2]
        decimals = max(decimals, len(digits))
    return 10.0**-decimals


def floor_step(
    quantum: float, values: Sequence[float], noun: str, *, spread: float
) -> tuple[float, str]:
    """The step below which no error is taken, and a warning where it is all there is.

    Args:
        quantum: The clock's or print's step; 0, or what is no size, gives none.
        values: Finite; where they have no spread and no quantum, their own step stands in.
        noun: What the values are of: `pair`, `launch`.
        spread: Of the log ratios.
    """
    step = quantum if quantum > 0 and math.isfinite(quantum) else 0.0
    if spread > TINY_SPREAD:
        return step, ""
    step = step or step_of(values)
    many = "es" if noun.endswith("ch") else "s"
    return step, f"no spread between {noun}{many}: the error is taken as one step of {step:g}"


def left_out(count: int, noun: str) -> str:
    """The warning about values that no statistic can use: `2 pairs left out: ...`."""
    many = "" if count == 1 else "s"
    return f"{count} {noun}{many} left out: a value is missing, not finite or not above 0"


def too_few(count: int, noun: str) -> str:
    """The warning that an interval was not given: `3 launches: an interval needs 5`."""
    many = "" if count == 1 else "es" if noun.endswith("ch") else "s"
    return f"{count} {noun}{many}: an interval needs {NEEDED}"
