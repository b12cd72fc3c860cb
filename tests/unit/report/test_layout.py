"""Columns, and text that could do harm."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.report.layout import (
    Style,
    cells,
    columns,
    cut,
    pad,
    safe,
    safe_json,
    safe_lines,
    style_for,
    wrap,
)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@given(st.text())
def test_untrusted_text_cannot_steer_a_terminal(text: str) -> None:
    """No control character is left, and what is harmless stays."""
    shown = safe(text)
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in shown)
    assert not any("\u202a" <= c <= "\u202e" or "\u2066" <= c <= "\u2069" for c in shown)
    shown.encode("utf-8")
    if text.isprintable() and text.isascii():
        assert shown == text


def test_escapes_are_readable() -> None:
    """So that a reader sees what was there."""
    assert safe("a\x1b[31mb\n\u202ec\x00") == "a\\e[31mb\\n\\u202ec\\x00"
    assert safe("[red]x[/red]") == "[red]x[/red]"


@given(st.text(), st.integers(1, 60))
def test_cut_text_fits(text: str, width: int) -> None:
    """Wide characters counted as two."""
    assert cells(cut(text, width)) <= width
    assert cells(pad(cut(text, width), width)) == width


@given(st.text(st.characters(codec="ascii", categories=["L", "N", "P", "Zs"])))
def test_wrapped_text_fits_and_keeps_its_words(text: str) -> None:
    """Lines of 30 columns."""
    lines = wrap(text, 30, "  ")
    assert all(len(line) <= 30 for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_wide_characters_wrap_within_their_columns() -> None:
    """A line of Chinese takes two columns a character."""
    for line in wrap("\u4f60\u597d " * 30, 40, "  "):
        assert cells(line) <= 40


def test_columns_line_up() -> None:
    """Whatever is in them."""
    made = columns([("a", "\u4f60", "x"), ("long one", "b", "y")], (5, 5, 5))
    assert len({cells(row[0]) for row in made}) == 1
    assert len({cells(row[1]) for row in made}) == 1


@pytest.mark.parametrize(
    ("stream", "environ", "style"),
    [
        (io.StringIO(), {"COLUMNS": "120"}, Style(80, False)),
        (Terminal(), {"COLUMNS": "120"}, Style(120, True)),
        (Terminal(), {"COLUMNS": "120", "NO_COLOR": "1"}, Style(120, False)),
        (Terminal(), {"COLUMNS": "120", "NO_COLOR": ""}, Style(120, True)),
        (Terminal(), {"COLUMNS": "120", "TERM": "dumb"}, Style(120, False)),
        (Terminal(), {"COLUMNS": "9"}, Style(40, True)),
        (Terminal(), {"COLUMNS": "x"}, Style(80, True)),
    ],
)
def test_colours_and_width_are_for_terminals(
    stream: io.StringIO, environ: dict[str, str], style: Style
) -> None:
    """A pipe gets 80 plain columns."""
    assert style_for(stream, environ) == style


def test_json_that_is_printed_means_what_it_meant() -> None:
    """What could steer a terminal is written as JSON escapes it; lines stay."""
    value = {"a\u202e": "\x9b2J\x7f b\u2066", "n": [1, "\n"]}
    text = json.dumps(value, ensure_ascii=False, indent=1)
    printed = safe_json(text.encode())
    assert json.loads(printed) == value
    assert printed.isascii()
    assert printed.count("\n") == text.count("\n")


def test_lines_stay_lines() -> None:
    """Everything else of several lines is escaped."""
    assert safe_lines("a\x1bb\n\rc\n") == "a\\eb\n\\rc\n"
