"""Loads and sweeps as Markdown tables, for a comment; pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchsuite.model.record import RunRecord
from benchsuite.report.load_table import HEAD, load_tables
from benchsuite.report.markdown import escape, row, table_head
from benchsuite.report.sweep_table import sweep_tables

MOST_TABLES = 8
"""Of each kind; a comment is short."""


class LoadSection(msgspec.Struct, frozen=True):
    """One table, folded away."""

    head: tuple[str, ...]
    rows: tuple[str, ...]
    tail: tuple[str, ...]


def load_sections(record: RunRecord) -> list[LoadSection]:
    """A table for each load step and each sweep of a run: sweeps first, as they are more."""
    sweeps, loads = sweep_tables(record), load_tables(record)
    sections = [
        _section(one.title, one.head, one.rows, one.notes) for one in sweeps[:MOST_TABLES]
    ] + [
        _section(f"{one.title}: {one.counts}", HEAD, one.rows, (*one.warnings, *one.notes))
        for one in loads[:MOST_TABLES]
    ]
    left_out = max(0, len(sweeps) - MOST_TABLES) + max(0, len(loads) - MOST_TABLES)
    if left_out:
        sections.append(LoadSection((), ("", f"and {left_out} more, in the run's record"), ()))
    return sections


def _section(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]
) -> LoadSection:
    table = table_head([escape(name) for name in head]) if rows else []
    return LoadSection(
        ("", f"<details><summary>{escape(title)}</summary>", "", *table),
        tuple(row([escape(cell) or "-" for cell in cells]) for cells in rows),
        ("", *(f"- {escape(note)}" for note in notes), *([""] if notes else []), "</details>"),
    )
