"""A series as a plot of plain characters.

Own code: plotext 6 dropped the calls of plotext 5, keeps its figure in the module, and takes 200 ms
to import, for what is a grid of characters here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from benchsuite.report.layout import Style
from benchsuite.units import format_number

_ROWS = 10
_MAX_GAP = 4  # columns between two neighbours, so that few points are not scattered widely


def plot(
    values: Sequence[float | None],
    ends: tuple[str, str],
    style: Style,
    *,
    marked: Collection[int] = (),
    cuts: Collection[int] = (),
) -> list[str]:
    """Lines of at most the style's width: `*` a value, `o` a marked one, `|` before a change.

    Args:
        values: Oldest first, at least one of them a number; None leaves a gap.
        ends: Words below the first and the last value.
        style: For width and colour.
        marked: Indices of values that deserve doubt.
        cuts: Indices of the first values after a change.
    """
    known = [value for value in values if value is not None]
    low, high = min(known), max(known)
    names = _names(low, high)
    left = max(len(name) for name in names) + 2
    room = style.width - left - 1
    places = _places(len(values), room)
    width = max(places[-1] + 1, len(ends[0]) + len(ends[1]) + 2)
    grid = [[" "] * (places[-1] + 1) for _ in range(_ROWS)]
    for i in cuts:
        for row in grid:
            row[places[i]] = "|"
    for i, value in enumerate(values):
        if value is not None:
            grid[_ROWS - 1 - _row(value, low, high)][places[i]] = "o" if i in marked else "*"
    lines = []
    for number, row in enumerate(grid):
        name = names[number]
        text = "".join(row).rstrip()
        lines.append(f"{name.rjust(left - 2)} {'+' if name else ':'}{_paint(text, style)}".rstrip())
    lines.append(f"{'':{left - 2}} +{'-' * min(width, room)}")
    gap = min(width, room) - len(ends[0]) - len(ends[1])
    if gap >= 1:
        lines.append(f"{'':{left - 2}}  {ends[0]}{' ' * gap}{ends[1]}")
    return lines


def _names(low: float, high: float) -> list[str]:
    """The axis' labels from top to bottom: at both ends and in the middle."""
    if low == high:
        return [""] * (_ROWS // 2 - 1) + [format_number(low)] + [""] * (_ROWS // 2)
    decimals = 2
    while decimals < 9 and high - low < 10 ** (1 - decimals):
        decimals += 1
    names = [""] * _ROWS
    middle = (_ROWS - 1) / 2
    for row in (0, round(middle), _ROWS - 1):
        value = high - (high - low) * row / (_ROWS - 1)
        names[row] = format_number(value, decimals)
    return names


def _row(value: float, low: float, high: float) -> int:
    if high == low:
        return _ROWS // 2
    return round((value - low) / (high - low) * (_ROWS - 1))


def _places(count: int, room: int) -> list[int]:
    """The column of each value; neighbours share one where there are more values than columns."""
    if count == 1:
        return [0]
    gap = min(_MAX_GAP, (room - 1) // (count - 1))
    if gap >= 1:
        return [i * gap for i in range(count)]
    return [i * (room - 1) // (count - 1) for i in range(count)]


def _paint(text: str, style: Style) -> str:
    if not style.colour:
        return text
    painted = {"o": style.paint("o", "yellow"), "|": style.paint("|", "red")}
    return "".join(painted.get(character, character) for character in text)
