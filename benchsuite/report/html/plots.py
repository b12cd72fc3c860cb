"""Bokeh's side of the plots: figures from plain values, as JSON that a page embeds.

Bokeh: hover and zoom in one file of 1.2 MiB that needs no network. plotly's is 4.5 MiB, and
vega needs `unsafe-eval`. Colours of text, axes and grids come from the page's style sheet, so that
dark mode needs no second set of figures; colours of marks are told from both backgrounds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bokeh.core.types import ID
from bokeh.embed import json_item
from bokeh.layouts import column
from bokeh.models import (
    BoxZoomTool,
    ColumnDataSource,
    DataRange1d,
    HoverTool,
    LayoutDOM,
    PanTool,
    ResetTool,
    WheelZoomTool,
)
from bokeh.models.annotations.geometry import Span
from bokeh.models.annotations.legends import Legend, LegendItem
from bokeh.plotting import figure
from bokeh.resources import Resources

from benchsuite.report.html.series import quantile

BLUE, ORANGE, GREEN, PINK, GREY = "#3b82c4", "#d9691a", "#1b9e77", "#c0649a", "#8a8a8a"
"""Each at least 3:1 against both backgrounds of the page."""

MOST_NAMES = 24
"""More names than this are not written below an axis; the pointer and the table tell them."""

_MOST_DOTS = 60  # of more points in a curve none is marked

_LEGEND = ".bk-item .bk-label { color: var(--text) !important; }"
"""Bokeh reads a legend's colours before it stands in the page, where it knows none of ours."""

_MATH = re.compile(r"\$\$|\\[(\[)\]]")


def library() -> str:
    """BokehJS: one script."""
    (script,) = [
        text for text in Resources(mode="inline", components=["bokeh"]).js_raw if len(text) > 10_000
    ]
    return str(script)


def label(text: str) -> str:
    """A text that Bokeh draws as it stands: what would begin mathematics is broken up."""
    return _MATH.sub(lambda m: f"{m[0][0]}\u2060{m[0][1]}", text)


def stacked(
    name: str,
    names: Sequence[str],
    parts: Mapping[str, Sequence[float | None]],
    colours: Sequence[str],
    unit: str,
) -> str:
    """Bars of several parts each; None is a part that is not known, and has no height.

    Args:
        name: The figure's, unique in the page.
        names: Of the bars; made unique here.
        parts: Name of a part -> its size in each bar.
        colours: Of the parts.
        unit: Of the sizes, as written on the axis.
    """
    bars = unique(names)
    columns = {key: [0.0 if v is None else v for v in values] for key, values in parts.items()}
    told = {
        f"{key}_told": ["not known" if v is None else f"{v:,.6g} {unit}" for v in values]
        for key, values in parts.items()
    }
    plot = _figure(x_range=bars, y_range=DataRange1d(start=0), y_axis_label=unit)
    source = ColumnDataSource({"bar": bars, **columns, **told})
    keys = list(parts)
    drawn = plot.vbar_stack(keys, x="bar", width=0.8, color=list(colours), source=source)
    plot.add_tools(
        HoverTool(
            renderers=list(drawn),
            tooltips=[("", "@bar"), *((key, f"@{{{key}_told}}") for key in keys)],
        )
    )
    _legend(plot, [(key, [bar]) for key, bar in zip(keys, drawn, strict=True)])
    _names_below(plot, bars)
    return _item(plot, name)


def spans(
    name: str,
    rows: Sequence[str],
    bars: Mapping[str, Mapping[str, Sequence[Any]]],
    colours: Mapping[str, str],
) -> str:
    """Bars along time, in rows.

    Args:
        name: The figure's.
        rows: Names of the rows, from the top.
        bars: Kind -> columns `row`, `left`, `right` (seconds) and `told`.
        colours: Of the kinds.
    """
    plot = _figure(
        y_range=list(reversed(rows)),
        x_axis_label="seconds since the launch's first sample",
        height=110 + 34 * min(len(rows), 12),
    )
    items = []
    for kind, columns in bars.items():
        source = ColumnDataSource({key: list(values) for key, values in columns.items()})
        drawn = plot.hbar(
            y="row",
            left="left",
            right="right",
            height=0.62,
            fill_color=colours[kind],
            line_color=None,
            source=source,
        )
        tips = [("", "@told"), (kind, "@left{0.000} s to @right{0.000} s")]
        plot.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
        items.append((kind, [drawn]))
    _legend(plot, items)
    return _item(plot, name)


def lines(
    name: str,
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    colours: Sequence[str],
    unit: str,
    level: tuple[str, float] | None = None,
) -> str:
    """Curves over seconds, and a level across them.

    Args:
        name: The figure's.
        curves: Name -> seconds and values.
        colours: Of the curves.
        unit: Of the values.
        level: Name and value of a level line.
    """
    plot = _figure(
        x_axis_label="seconds since the launch's first sample",
        y_range=DataRange1d(start=0),
        y_axis_label=unit,
    )
    items = []
    for (key, (x, y)), colour in zip(curves.items(), colours, strict=False):
        source = ColumnDataSource({"x": list(x), "y": list(y)})
        drawn = plot.line("x", "y", line_color=colour, line_width=2, source=source)
        seen = 1.0 if len(x) <= _MOST_DOTS else 0.0  # the pointer finds them all the same
        dots = plot.scatter("x", "y", size=5, color=colour, alpha=seen, source=source)
        tips = [(key, f"@y{{0,0.00}} {unit}"), ("at", "@x{0.00} s")]
        plot.add_tools(HoverTool(renderers=[dots], tooltips=tips))
        items.append((key, [drawn, dots]))
    if level is not None:
        key, value = level
        every = [x for xs, _ in curves.values() for x in xs] or [0.0, 1.0]
        ends = [min(every), max(every)]
        drawn = plot.line(ends, [value, value], line_color=ORANGE, line_width=2, line_dash="dashed")
        tips = [(key, f"@y{{0,0.00}} {unit}")]
        plot.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
        items.append((key, [drawn]))
    _legend(plot, items)
    return _item(plot, name)


def panels(
    name: str,
    parts: Sequence[tuple[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]]],
    gaps: Sequence[float],
    across: tuple[str, str] = ("seconds since the launch's first sample", "s"),
    marks: Mapping[str, float] | None = None,
) -> str:
    """Curves in panels over one another, which share their horizontal axis.

    Args:
        name: The figure's.
        parts: From the top: unit, and name -> seconds and values.
        gaps: Seconds at which nothing was known.
        across: What the shared axis says, and its unit.
        marks: Name -> place on the shared axis that is marked; None: nothing is.
    """
    made: list[figure] = []
    for number, (unit, curves) in enumerate(parts):
        given: dict[str, Any] = {"x_range": made[0].x_range} if made else {}
        if number == len(parts) - 1:
            given["x_axis_label"] = across[0]
        plot = _figure(y_range=DataRange1d(start=0), y_axis_label=unit, height=170, **given)
        plot.xgrid.grid_line_color = "#cccccc"
        items = []
        for (key, (x, y)), colour in zip(curves.items(), (BLUE, ORANGE, GREEN), strict=False):
            source = ColumnDataSource({"x": list(x), "y": list(y)})
            drawn = plot.line("x", "y", line_color=colour, line_width=1.5, source=source)
            seen = 1.0 if len(x) <= _MOST_DOTS else 0.0
            dot = plot.scatter("x", "y", size=4, color=colour, alpha=seen, source=source)
            tips = [(key, f"@y{{0,0.00}} {unit}"), ("at", f"@x{{0.0}} {across[1]}")]
            plot.add_tools(HoverTool(renderers=[dot], tooltips=tips))
            items.append((key, [drawn, dot]))
        top = max((y for _, ys in curves.values() for y in ys), default=1.0)
        for (key, at), colour in zip((marks or {}).items(), (PINK, GREY), strict=False):
            drawn = plot.line(
                [at, at], [0.0, top], line_color=colour, line_width=2, line_dash="dashed"
            )
            items.append((key, [drawn]))
        for at in gaps:
            plot.add_layout(
                Span(location=at, dimension="height", line_color=GREY, line_dash="dashed")
            )
        _legend(plot, items)
        made.append(plot)
    return _item(column(*made, sizing_mode="stretch_width"), name)


def dots(name: str, rows: Sequence[tuple[str, str, Sequence[float]]], unit: str) -> str:
    """Values as dots in rows, with the middle half of each row as a bar and its median as a line.

    Args:
        name: The figure's.
        rows: Row, side (`baseline` or `candidate`) and values.
        unit: Of the values.
    """
    names = [row for row, _, _ in rows]
    plot = _figure(
        y_range=list(reversed(names)), x_axis_label=unit, height=110 + 30 * min(len(rows), 16)
    )
    items = []
    for side, colour in (("baseline", GREY), ("candidate", BLUE)):
        own = [(row, values) for row, of, values in rows if of == side]
        if not own:
            continue
        box = ColumnDataSource(
            {
                "row": [row for row, _ in own],
                "low": [quantile(v, 0.25) for _, v in own],
                "mid": [quantile(v, 0.5) for _, v in own],
                "high": [quantile(v, 0.75) for _, v in own],
                "count": [len(v) for _, v in own],
            }
        )
        bar = plot.hbar(
            y="row",
            left="low",
            right="high",
            height=0.6,
            fill_color=colour,
            fill_alpha=0.35,
            line_color=colour,
            source=box,
        )
        middle = plot.scatter(
            "mid",
            "row",
            marker="dash",
            angle=1.5708,
            size=18,
            line_width=3,
            color=colour,
            source=box,
        )
        flat = ColumnDataSource(
            {
                "row": [(row, _shift(i)) for row, v in own for i in range(len(v))],
                "x": [x for _, v in own for x in v],
                "of": [row for row, v in own for _ in v],
            }
        )
        points = plot.scatter("x", "row", size=6, color=colour, alpha=0.75, source=flat)
        plot.add_tools(
            HoverTool(
                renderers=[bar],
                tooltips=[
                    ("", "@row"),
                    ("median", f"@mid{{0,0.00}} {unit}"),
                    ("middle half", "@low{0,0.00} to @high{0,0.00}"),
                    ("requests", "@count"),
                ],
            ),
            HoverTool(renderers=[points], tooltips=[("@of", f"@x{{0,0.00}} {unit}")]),
        )
        items.append((side, [bar, middle, points]))
    _legend(plot, items)
    return _item(plot, name)


def history(
    name: str,
    columns: Mapping[str, Sequence[Any]],
    unit: str,
    changes: Sequence[float],
) -> str:
    """A series over runs.

    Args:
        name: The figure's.
        columns: `x` (number of the run from 1), `y`, `run`, `build`, `mark`, and `colour`.
        unit: Of the values.
        changes: Where on the x axis the level changed.
    """
    plot = _figure(x_axis_label="run, oldest first", y_axis_label=unit)
    source = ColumnDataSource({key: list(values) for key, values in columns.items()})
    plot.line("x", "y", line_color=BLUE, line_width=1.5, line_alpha=0.6, source=source)
    drawn = plot.scatter("x", "y", size=8, color="colour", source=source)
    plot.add_tools(
        HoverTool(
            renderers=[drawn],
            tooltips=[
                ("run", "@run"),
                ("value", f"@y{{0,0.[000]}} {unit}"),
                ("build", "@build"),
                ("state", "@mark"),
            ],
        )
    )
    for at in changes:
        plot.add_layout(
            Span(
                location=at, dimension="height", line_color=ORANGE, line_dash="dashed", line_width=2
            )
        )
    return _item(plot, name)


def unique(names: Sequence[str]) -> list[str]:
    """The names with a number behind each that was there before."""
    seen: dict[str, int] = {}
    made = []
    for name in map(label, names):
        seen[name] = seen.get(name, 0) + 1
        made.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return made


def _shift(number: int) -> float:
    """Where in its row a dot is drawn, so that equal values are seen apart."""
    return ((number * 7) % 11 - 5) / 22


def _figure(*, height: int = 260, **given: Any) -> figure:
    plot = figure(
        height=height,
        sizing_mode="stretch_width",
        toolbar_location="above",
        tools=[],
        **given,
    )
    # the page turns the box on where there is a mouse: a finger must be able to scroll past
    plot.add_tools(PanTool(), BoxZoomTool(), WheelZoomTool(), ResetTool())
    plot.toolbar.logo = None
    plot.toolbar.active_drag = None
    plot.toolbar.active_scroll = None
    plot.grid.level = "underlay"
    plot.xgrid.grid_line_color = None if "x_range" in given else "#cccccc"
    plot.background_fill_alpha = 0
    plot.border_fill_alpha = 0
    plot.outline_line_color = None
    plot.min_border_left = 4
    return plot


def _legend(plot: figure, items: Sequence[tuple[str, Sequence[Any]]]) -> None:
    made = [LegendItem(label={"value": text}, renderers=list(drawn)) for text, drawn in items]
    plot.add_layout(
        Legend(
            items=made,
            orientation="horizontal",
            click_policy="hide",
            border_line_color=None,
            background_fill_alpha=0,
            margin=0,
            spacing=10,
            stylesheets=[_LEGEND],
        ),
        "above",
    )


def _names_below(plot: figure, names: Sequence[str]) -> None:
    if len(names) > MOST_NAMES:
        plot.xaxis.major_label_text_font_size = "0px"
        plot.xaxis.major_tick_line_color = None
    elif len(names) > 3:
        plot.xaxis.major_label_orientation = 0.9


def _item(plot: LayoutDOM, name: str) -> str:
    """The figure as JSON that may stand in a script element."""
    text = json.dumps(json_item(plot, ID(name)), separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
