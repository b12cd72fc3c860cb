"""The chart of requests and of the server under them, over one time axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchsuite.report.html import plots
from benchsuite.report.html.blocks import Cell, Chart, Table
from benchsuite.report.html.in_step import Bin, InStep, Placed

_MOST_ROWS = 40


def in_step_chart(seen: InStep, name: str) -> Chart:
    """Panels over one another with one time axis: requests above, the server below.

    Args:
        seen: With looks at the server.
        name: Of the chart, unique in the page.
    """
    placed, seconds = seen.placed(), seen.seconds

    def curve(value: Callable[[Bin], float | None]) -> tuple[list[float], list[float]]:
        known = [(p.at_s, v) for p in placed if (v := value(p.bin)) is not None]
        return [x for x, _ in known], [v for _, v in known]

    def rate(one: Bin) -> float | None:
        return one.tokens / seconds if one.replies else None

    panels: list[tuple[str, dict[str, tuple[list[float], list[float]]]]] = [
        (
            "TTFT ms",
            {
                "highest": curve(lambda one: one.high_ttft_ms),
                "lowest": curve(lambda one: one.low_ttft_ms),
            },
        ),
        ("tokens/s", {"of replies that ended": curve(rate)}),
        (
            "requests",
            {
                "in flight": curve(lambda one: one.in_flight),
                "slots busy": curve(lambda one: one.busy),
                "deferred": curve(lambda one: one.deferred),
            },
        ),
        ("tokens", {"held in slots": curve(lambda one: one.held)}),
        ("MiB", {"anonymous memory": curve(lambda one: one.high_anon_mib)}),
    ]
    gaps = [p.at_s for p in placed if p.bin.gaps]
    kept = [
        (unit, {key: xy for key, xy in curves.items() if xy[0]})
        for unit, curves in panels
        if any(xy[0] for xy in curves.values())
    ]
    busy = [p.bin.busy for p in placed if p.bin.busy is not None]
    waited = [p.bin.deferred for p in placed if p.bin.deferred is not None]
    missing = sum(p.bin.gaps for p in placed)
    says = f"{len(kept)} panels over one time axis; {seen.looks} looks at the server"
    says += f"; at most {max(busy)} slots busy" if busy else ""
    says += f", {max(waited)} requests deferred" if waited else ""
    says += f"; {missing} looks brought no answer" if missing else ""
    note = f"Spans of {seconds:g} s, of each the extremes."
    note += f" Dashed: {missing} looks that brought no answer." if missing else ""
    return Chart(
        name,
        "Requests, and the server under them",
        says,
        plots.panels(name, kept, gaps),
        Table(
            "Requests and server over time",
            ("s", "replies", "highest TTFT ms", "in flight", "slots busy", "deferred", "anon MiB"),
            _rows(placed),
            note,
        ),
        note,
    )


def _rows(placed: Sequence[Placed]) -> tuple[tuple[Cell, ...], ...]:
    step = max(1, -(-len(placed) // _MOST_ROWS))
    return tuple(
        (
            Cell(f"{one.at_s:.1f}"),
            _cell(one.bin.replies),
            _cell(one.bin.high_ttft_ms, ",.1f"),
            _cell(one.bin.in_flight),
            _cell(one.bin.busy),
            _cell(one.bin.deferred),
            _cell(one.bin.high_anon_mib, ",.1f"),
        )
        for one in placed[::step]
    )


def _cell(value: float | None, form: str = ",") -> Cell:
    return Cell("-", sort="") if value is None else Cell(format(value, form), sort=value)
