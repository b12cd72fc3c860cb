"""Text that Markdown shows as it is, on GitHub and GitLab: no markup, mentions, references, links.

Knows nothing of what is shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from benchsuite.report.layout import safe

MOST_CHARACTERS = 300
"""Of one value; a longer one is cut and says how long it is."""

_SPECIAL = re.compile(
    r"[\\`*\[\]<>|~&$]|(?<!\w)_|_(?!\w)"  # markup, tables, HTML, mathematics
    r"|://|(?<=www)\."  # links
    r"|(?<=@)(?=\w)|(?<=[#!])(?=\d)|(?<=\bGH-)(?=\d)"  # mentions and references
    r"|(?<![\w:]:)(?<=:)(?=[a-z0-9_+-]+:)"  # emoji
)
# GitHub finds mentions and references in the rendered text, so an entity alone does not hide them
_BREAK = "&#8203;"


def escape(text: str) -> str:
    """Text for a paragraph, a list item or a table cell."""
    return _SPECIAL.sub(_entity, _shortened(safe(text)))


def code(text: str) -> str:
    """A value in the type of code, whatever is in it; empty stays empty."""
    return f"<code>{escape(text)}</code>" if text else ""


def row(cells: Sequence[str]) -> str:
    """A line of a table, of cells that are Markdown already."""
    return "| " + " | ".join(cells) + " |"


def table_head(names: Sequence[str]) -> list[str]:
    """The two lines above the rows of a table."""
    return [row(names), "|" + "---|" * len(names)]


def _entity(found: re.Match[str]) -> str:
    text = found[0]
    if not text:
        return _BREAK
    return f"&#{ord(text[0])};{text[1:]}"


def _shortened(text: str) -> str:
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[:MOST_CHARACTERS]}... ({len(text)} characters in all)"
