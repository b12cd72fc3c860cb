"""The history of a metric as a page: a plot and a table for each series."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from benchsuite.report.html import plots
from benchsuite.report.html.blocks import Block, Cell, Chart, Listing, Page, Section, Table, Words
from benchsuite.report.html.limits import Limits
from benchsuite.report.html.page import fitting
from benchsuite.report.trend import Row, Series
from benchsuite.report.trend_text import (
    change_words,
    differs_words,
    nothing_words,
    series_title,
)
from benchsuite.stats.change_points import MIN_POINTS
from benchsuite.units import format_number


def render_trend_html(selector: str, series: Sequence[Series]) -> str:
    """Series as an HTML file.

    Args:
        selector: As asked for.
        series: At least one; those with changes are shown first.
    """
    return fitting(partial(trend_page, selector, series))


def trend_page(selector: str, series: Sequence[Series], limits: Limits) -> Page:
    """Series as a page."""
    order = sorted(series, key=lambda one: (not one.changes, -_measured(one)))
    changed = sum(bool(one.changes) for one in series)
    worse = any(change.worse for one in series for change in one.changes)
    runs = {row.run.id for one in series for row in one.rows}
    few = any(_is_short(one) for one in series)
    lost = sum(bool(one.rows[-1].failure) for one in series)
    left_out = len(order) - limits.series
    note = f"{left_out} more series without a plot: narrow the selector." if left_out > 0 else ""
    told = f"{lost} without a value in the newest run." if lost else ""
    count = f"{len(series)} series" if len(series) != 1 else "1 series"
    sections = [
        _section(one, number, series, limits) for number, one in enumerate(order[: limits.series])
    ]
    return Page(
        title=f"History of {selector}",
        kicker="benchsuite trend",
        verdict=Cell(
            "changes" if changed else "too few runs" if few else "no changes",
            tone="bad" if worse else "doubt" if changed or lost else "" if few else "good",
            aside=f"{count}, {changed} with changes, over {len(runs)} runs. {told} {note}".strip(),
        ),
        facts=(),
        sections=tuple(sections),
    )


def _measured(series: Series) -> int:
    return sum(bool(row.samples) for row in series.rows)


def _is_short(series: Series) -> bool:
    """Whether too few runs measured it to tell a change from noise."""
    return series.assume in ("memory", "latency") and _measured(series) < MIN_POINTS


def _section(series: Series, number: int, shown: Sequence[Series], limits: Limits) -> Section:
    blocks = tuple(_blocks(series, number, limits))
    return Section(f"series-{number}", series_title(series, shown), blocks)


def _blocks(series: Series, number: int, limits: Limits) -> Iterator[Block]:
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
    if len(rows) > limits.rows:
        newest = len(rows) - limits.rows
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
    drawn = [(i, row) for i, row in kept if row.value is not None and math.isfinite(row.value)]
    if len(drawn) < 2:  # texts, or nothing to see
        yield table
        return
    name = f"trend-{number}"
    values = [row.value for _, row in drawn]
    columns: dict[str, list[Any]] = {
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
