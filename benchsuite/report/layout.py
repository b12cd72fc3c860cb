"""Plain text in columns, and making untrusted text harmless.

Own code and not rich: a table costs nothing to import, and a pipe gets no boxes.
"""

from __future__ import annotations

import os
import re
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TextIO

import msgspec

from benchsuite.redact import redact

PLAIN_WIDTH = 80
"""Columns of output that goes anywhere but to a terminal."""

_MAX_WIDTH = 140

# control characters, and those that reorder or hide what stands beside them
_HARMFUL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff]"
)
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}
_SGR = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Style(msgspec.Struct, frozen=True):
    """How output may look."""

    width: int = PLAIN_WIDTH  # columns
    colour: bool = False

    def paint(self, text: str, colour: str) -> str:
        """The text in a colour, where colours are allowed."""
        return f"\x1b[{_SGR[colour]}m{text}\x1b[0m" if self.colour else text


def style_for(stream: TextIO, environ: Mapping[str, str]) -> Style:
    """The style of a stream: colours and the terminal's width for terminals alone.

    `NO_COLOR` (no-color.org: present and not empty) and `TERM=dumb` take the colours away.
    """
    if not stream.isatty():
        return Style()
    columns = _terminal_columns(stream, environ)
    colour = not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    if os.name == "nt":
        colour = colour and bool(environ.get("WT_SESSION") or environ.get("ANSICON"))
    return Style(max(40, min(columns, _MAX_WIDTH)), colour)


def _terminal_columns(stream: TextIO, environ: Mapping[str, str]) -> int:
    wished = environ.get("COLUMNS", "")
    if wished.isdecimal() and len(wished) < 10 and int(wished) > 0:
        return int(wished)
    try:
        return os.get_terminal_size(stream.fileno()).columns or PLAIN_WIDTH
    except (OSError, ValueError):
        return PLAIN_WIDTH


def safe(text: str) -> str:
    """Text from a model, a log or a file with everything escaped that could steer a terminal,
    and secrets hidden, before lines are broken within them."""
    return _HARMFUL.sub(lambda m: _NAMED.get(m[0]) or _escape(ord(m[0])), redact(text))


def safe_lines(text: str) -> str:
    """As `safe`, of a text of several lines, which stay lines."""
    return "\n".join(map(safe, text.split("\n")))


def safe_json(data: bytes | str) -> str:
    """JSON with escapes of its own for what could steer a terminal; it means what it meant."""
    text = data.decode() if isinstance(data, bytes) else data
    return _HARMFUL.sub(lambda m: m[0] if m[0] == "\n" else f"\\u{ord(m[0]):04x}", text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def cells(text: str) -> int:
    """How many columns a text takes; wide characters take two."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def cut(text: str, width: int) -> str:
    """The text in at most `width` columns, with dots where it was cut."""
    if cells(text) <= width:
        return text
    if width <= 3:
        return "." * width
    kept = ""
    for character in text:
        if cells(kept + character) > width - 3:
            break
        kept += character
    return kept + "..."


def pad(text: str, width: int) -> str:
    """The text filled up to `width` columns."""
    return text + " " * max(0, width - cells(text))


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """The text in lines of at most `width` columns; only words that are too long are broken."""
    if cells(text) != len(text):  # wide characters: count each as two
        width = max(len(indent) + 10, len(indent) + (width - len(indent)) // 2)
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    ) or [indent.rstrip()]


def columns(rows: Sequence[Sequence[str]], limits: Sequence[int], gap: int = 2) -> list[list[str]]:
    """Cells cut and filled to common widths; the last column is not filled.

    Args:
        rows: Equally many cells each, already harmless.
        limits: The most columns that each column may take.
        gap: Spaces between columns; part of the filling.
    """
    widths = [
        min(limit, max((cells(row[i]) for row in rows), default=0))
        for i, limit in enumerate(limits)
    ]
    last = len(limits) - 1
    return [
        [
            cut(cell, widths[i]) if i == last else pad(cut(cell, widths[i]), widths[i] + gap)
            for i, cell in enumerate(row)
        ]
        for row in rows
    ]


def name_above(
    wanted: Sequence[str], made: Sequence[str], widths: Sequence[int], width: int
) -> tuple[list[str], Sequence[str]]:
    """A row whose second cell, its name, is too long for its column: the name on a line above.

    Args:
        wanted: The cells, uncut.
        made: The cells as `columns` made them.
        widths: The columns' widths.
        width: Of the whole line.

    Returns:
        The line above, if there is one, and the row's cells.
    """
    if cells(wanted[1]) <= widths[1]:
        return [], made
    above = made[0] + cut(wanted[1], width - cells(made[0]))
    return [above], (" " * cells(made[0]), " " * cells(made[1]), *made[2:])


def fitting(widths: Sequence[int], room: int) -> list[slice]:
    """Runs of columns that fit side by side; at least one each."""
    parts, start, taken = [], 0, 0
    for i, width in enumerate(widths):
        if i > start and taken + width + 2 > room:
            parts.append(slice(start, i))
            start, taken = i, 0
        taken += width + 2
    return [*parts, slice(start, len(widths))]
