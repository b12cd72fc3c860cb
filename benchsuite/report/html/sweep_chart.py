"""The chart of a sweep: throughput and latency over its levels, knee and best level marked."""

from __future__ import annotations

from collections.abc import Callable

from benchsuite.report.html import plots
from benchsuite.report.html.blocks import Cell, Chart, Table
from benchsuite.report.sweep_table import Level, SweepTable

_LATENCIES = {"ttft_ms": "TTFT", "e2e_ms": "e2e"}


def sweep_chart(sweep: SweepTable, name: str) -> Chart | None:
    """Panels over one another, which share the axis of levels; None where nothing can be drawn.

    Args:
        sweep: One sweep.
        name: Of the chart, unique in the page.
    """

    def curve(value: Callable[[Level], float | None]) -> tuple[list[float], list[float]]:
        known = [(one.level, v) for one in sweep.levels if (v := value(one)) is not None]
        return [x for x, _ in known], [v for _, v in known]

    short = _LATENCIES[sweep.latency]
    several = [
        (
            "requests/s",
            {"served": curve(lambda one: one.served), "goodput": curve(lambda one: one.good)},
        ),
        (f"{short} ms", {f"p95 {short}": curve(lambda one: one.latency_ms)}),
    ]
    drawn = [
        (unit, {key: xy for key, xy in curves.items() if xy[0]})
        for unit, curves in several
        if any(xy[0] for xy in curves.values())
    ]
    if not drawn:
        return None
    known = {"highest that meets the objectives": sweep.best, "knee": sweep.knee}
    marks = {words: level for words, level in known.items() if level is not None}
    says = [f"{len(sweep.levels)} levels of {sweep.over}"]
    says += [
        f"{words}: {f'{marks[words]:g}' if words in marks else 'not known'}" for words in known
    ]
    rows = tuple(tuple(Cell(text) for text in row) for row in sweep.rows)
    return Chart(
        name,
        sweep.title.partition(";")[0],
        "; ".join(says),
        plots.panels(name, drawn, (), (sweep.over, sweep.over), marks),
        Table(sweep.title, sweep.head, rows),
        " ".join(f"{note}." for note in sweep.notes),
    )
