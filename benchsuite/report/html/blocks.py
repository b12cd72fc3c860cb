"""What a page is made of, as plain values; `page.html` has a macro for each.

Texts are untrusted and go through `page.py`'s `shown` on their way out, never around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

Tone = Literal["", "good", "bad", "doubt", "dim"]
"""How a text is coloured; the text says it too."""

TONES: dict[str, Tone] = {
    "pass": "good",
    "fail": "bad",
    "error": "bad",
    "xpass": "bad",
    "server failed": "bad",
    "machine failed": "bad",
    "inconclusive": "doubt",
    "interrupted": "doubt",
    "xfail": "dim",
    "not applicable": "dim",
}
"""Of outcomes of gates and runs."""


class Cell(msgspec.Struct, frozen=True):
    """One cell of a table."""

    text: str
    sort: float | str | None = None  # what a column is sorted by; None is the text
    tone: Tone = ""
    code: bool = False
    aside: str = ""  # a second line, in small print


class Table(msgspec.Struct, frozen=True):
    """A table whose columns can be sorted."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""  # what was left out
    cards: bool = False  # with long texts: on a phone each row is a card


class Words(msgspec.Struct, frozen=True):
    """A paragraph."""

    text: str
    tone: Tone = ""


class Listing(msgspec.Struct, frozen=True):
    """A bullet list."""

    items: tuple[str, ...]
    tone: Tone = ""


class Facts(msgspec.Struct, frozen=True):
    """Names and values."""

    pairs: tuple[tuple[str, str], ...]


class Lines(msgspec.Struct, frozen=True):
    """Text as it stood in a log, or a command to copy; marked lines stand out."""

    caption: str
    lines: tuple[str, ...]
    marked: frozenset[int] = frozenset()  # indices


class Chart(msgspec.Struct, frozen=True):
    """A plot, with what it shows in words and as a table."""

    name: str  # unique in the page, letters, digits and dashes
    title: str
    says: str  # what can be seen, for those who cannot see it
    item: str  # of Bokeh, as JSON
    table: Table
    note: str = ""  # how samples were thinned


class Fold(msgspec.Struct, frozen=True):
    """Blocks that open at a click."""

    summary: str
    blocks: tuple[Block, ...]
    is_open: bool = False


Block = Cell | Table | Words | Listing | Facts | Lines | Chart | Fold


class Section(msgspec.Struct, frozen=True):
    """A part of the page with a heading."""

    name: str  # its anchor
    title: str
    blocks: tuple[Block, ...]


class Page(msgspec.Struct, frozen=True):
    """A whole page."""

    title: str
    kicker: str  # small print above the title
    verdict: Cell  # the one word that matters, with a sentence as its `aside`
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]


def cells(texts: Sequence[str]) -> tuple[Cell, ...]:
    """Plain cells."""
    return tuple(Cell(text) for text in texts)


def charts_of(blocks: Sequence[Block]) -> list[Chart]:
    """Every chart, those in folds too."""
    found: list[Chart] = []
    for block in blocks:
        if isinstance(block, Chart):
            found.append(block)
        elif isinstance(block, Fold):
            found += charts_of(block.blocks)
    return found
