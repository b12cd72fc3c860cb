"""The history of a metric as a page: a plot and a table for each series."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchsuite.report.html import plots
from benchsuite.report.html.blocks import Block, Cell, Chart, Listing, Page, Section, Table, Words
from benchsuite.report.html.page import render
from benchsuite.report.trend import Row, Series
from benchsuite.report.trend_text import (
    change_words,
    differs_words,
    nothing_words,
    series_title,
)
from benchsuite.units import format_number

_MOST_SERIES = 24
_MOST_ROWS = 300


def render_trend_html(selector: str, series: Sequence[Series]) -> str:
    """Series as an HTML file.

    Args:
        selector: As asked for.
        series: At least one; those with changes are shown first.
    """
    return render(trend_page(selector, series))


def trend_page(selector: str, series: Sequence[Series]) -> Page:
    """Series as a page."""
    order = sorted(series, key=lambda one: not one.changes)
    changed = sum(bool(one.changes) for one in series)
    worse = any(change.worse for one in series for change in one.changes)
    runs = {row.run.id for one in series for row in one.rows}
    left_out = len(order) - _MOST_SERIES
    note = f"{left_out} more series without a plot: narrow the selector." if left_out > 0 else ""
    count = f"{len(series)} series" if len(series) != 1 else "1 series"
    sections = [_section(one, number, series) for number, one in enumerate(order[:_MOST_SERIES])]
    return Page(
        title=f"History of {selector}",
        kicker="benchsuite trend",
        verdict=Cell(
            "changes" if changed else "no changes",
            tone="bad" if worse else "doubt" if changed else "good",
            aside=f"{count}, {changed} with changes, over {len(runs)} runs. {note}".strip(),
        ),
        facts=(),
        sections=tuple(sections),
    )


def _section(series: Series, number: int, shown: Sequence[Series]) -> Section:
    blocks = tuple(_blocks(series, number))
    return Section(f"series-{number}", series_title(series, shown), blocks)


def _blocks(series: Series, number: int) -> Iterator[Block]:
    if series.changes:
        worse = any(change.worse for change in series.changes)
        told = [f"{change_words(series, c)}; differs: {differs_words(c)}" for c in series.changes]
        yield Listing(tuple(told), "bad" if worse else "doubt")
        if series.notes:
            yield Listing(series.notes, "dim")
    else:
        yield Words(nothing_words(series))
    rows = list(enumerate(series.rows, start=1))
    at_changes = {i for change in series.changes for i in (change.first, change.last)}
    if len(rows) > _MOST_ROWS:
        newest = len(rows) - _MOST_ROWS
        kept = [(i, row) for i, row in rows if i > newest or i - 1 in at_changes]
    else:
        kept = rows
    note = "" if len(kept) == len(rows) else f"{len(kept)} of {len(rows)} runs: the newest."
    table = Table(
        "Runs, newest first",
        ("run", "when", "build", "value", "lowest to highest", "state"),
        tuple(_row(series, row, i - 1 in at_changes) for i, row in reversed(kept)),
        note,
    )
    drawn = [(i, row) for i, row in kept if row.value is not None]
    if not drawn:  # texts
        yield table
        return
    name = f"trend-{number}"
    values = [row.value for _, row in drawn]
    columns = {
        "x": [i for i, _ in drawn],
        "y": values,
        "run": [f"{row.run.id} {row.run.started_at[:16]}" for _, row in drawn],
        "build": [row.run.info.build or "not known" for _, row in drawn],
        "mark": [row.mark or "pass" for _, row in drawn],
        "colour": [_colour(row) for _, row in drawn],
    }
    cuts = [change.last + 0.5 for change in series.changes if not change.drift]
    numbers = [value for value in values if value is not None]
    yield Chart(
        name,
        f"{series.key.series} over runs; dashed where it changed",
        f"{len(drawn)} runs from {format_number(min(numbers))} to {format_number(max(numbers))} "
        f"{series.unit}, {len(series.changes)} changes",
        plots.history(name, columns, series.unit, cuts),
        table,
        note,
    )


def _colour(row: Row) -> str:
    return plots.ORANGE if row.mark else plots.BLUE


def _row(series: Series, row: Row, changed: bool) -> tuple[Cell, ...]:
    texts = list(dict.fromkeys(str(sample.value) for sample in row.samples))
    value = row.value
    shown = " or ".join(texts) if value is None else f"{format_number(value)} {series.unit}"
    numbers = [s.value for s in row.samples if not isinstance(s.value, str)]
    spread = ""
    if len(set(numbers)) > 1:
        spread = f"{format_number(min(numbers))} to {format_number(max(numbers))}"
    return (
        Cell(row.run.id, code=True),
        Cell(row.run.started_at[:16].replace("T", " ")),
        Cell(row.run.info.build or "not known", aside=(row.run.info.commit or "")[:9]),
        Cell(shown.strip() or "-", sort=value, tone="doubt" if changed else ""),
        Cell(spread or "-"),
        Cell(row.mark or "pass", tone="doubt" if row.mark else ""),
    )
