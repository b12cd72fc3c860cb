"""A trend as plain text: for each series what was found, a plot and a table."""

from __future__ import annotations

from collections.abc import Sequence

from benchsuite.report.layout import Style, cells, columns, cut, safe, wrap
from benchsuite.report.plot import plot
from benchsuite.report.trend import Change, Row, Series
from benchsuite.stats.change_points import MIN_POINTS
from benchsuite.units import format_number, format_value

FULL = 3
"""More series than this get a line each, without plot and table."""

_ID_CELLS = 18  # of a side of `ab`: cut, both sides would look alike
_ALL_ROWS = 30  # of a table; of a longer one the newest and those at changes


def render_trend(series: Sequence[Series], style: Style | None = None) -> str:
    """The series as text with a newline at its end."""
    look = style or Style()
    if len(series) > FULL:
        return "\n".join(_overview(series, look)) + "\n"
    blocks = [_block(one, look, series) for one in series]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _overview(series: Sequence[Series], style: Style) -> list[str]:
    lines = []
    quiet = 0
    for one in series:
        if not one.changes:
            quiet += 1
            continue
        lines += _title(one, style, series)
        lines += [line for change in one.changes for line in _sentence(one, change, style)]
        lines.append("")
    names = [(_name(one), _latest(one)) for one in series if not one.changes]
    if names:
        lines.append("no change:")
        half = style.width * 2 // 3
        lines += ["  " + "".join(row) for row in columns(names, (half, style.width - half - 4))]
        lines.append("")
    told = len(series) - quiet
    lines += wrap(
        f"{len(series)} series, {told} with changes; narrow it to {FULL} at most "
        "(--variant, --scenario, --deployment, labels) for table and plot",
        style.width,
    )
    return lines


def _name(series: Series) -> str:
    key = series.key
    return safe(f"{key.series} {key.scenario} {key.variant} on {key.deployment}")


def _latest(series: Series) -> str:
    rows = [row for row in series.rows if row.samples]
    count = f"{len(rows)} run{'' if len(rows) == 1 else 's'}"
    return safe(f"{_shown(rows[-1], series.unit)} ({count})")


def _title(series: Series, style: Style, shown: Sequence[Series]) -> list[str]:
    words = series_title(series, shown)
    return [style.paint(line, "bold") for line in wrap(safe(words), style.width)]


def series_title(series: Series, shown: Sequence[Series]) -> str:
    """What the series is; keys that people seldom see only where they tell two apart."""
    key = series.key
    words = f"{key.series} of {key.scenario}, variant {key.variant}, on {key.deployment}"
    if key.machine:
        words += f", {key.machine}"
    others = [o.key for o in shown if (o.key.series, o.key.scenario) == (key.series, key.scenario)]
    if len({other.seed for other in others}) > 1 or key.seed:
        words += f", seed {key.seed}"
    alike = [o for o in others if (o.deployment, o.variant) == (key.deployment, key.variant)]
    if len({other.digest for other in alike}) > 1:
        words += f", scenario digest {key.digest[:8] or 'unknown'}"
    if len({other.numerics for other in alike}) > 1:
        words += f", numerics {key.numerics or 'unknown'}"
    return words


def _block(series: Series, style: Style, shown: Sequence[Series]) -> list[str]:
    lines = _title(series, style, shown)
    for change in series.changes:
        lines += _sentence(series, change, style)
    if not series.changes:
        lines += [f"  {line}" for line in wrap(nothing_words(series), style.width - 2)]
    notes = series.notes if series.changes else ()
    lines += [line for note in notes for line in wrap(f"note: {safe(note)}", style.width, "  ")]
    lines += ["", *_plotted(series, style)]
    return [*lines, *_table(series, style)]


def nothing_words(series: Series) -> str:
    """What there is to say of a series without changes."""
    values = [row for row in series.rows if row.samples]
    noisy = series.assume in ("memory", "latency")
    if noisy and len(values) < MIN_POINTS:
        return (
            f"{len(values)} run{'' if len(values) == 1 else 's'} with a value: too few to tell "
            f"changes from noise, which needs {MIN_POINTS}"
        )
    tail = f" ({'; '.join(series.notes)})" if series.notes else ""
    if noisy:
        return f"no change and no drift in {len(values)} runs{tail}"
    if len(values) == 1:
        return f"{_shown(values[0], series.unit)} in the only run"
    return f"{_shown(values[-1], series.unit)} in all {len(values)} runs{tail}"


def _sentence(series: Series, change: Change, style: Style) -> list[str]:
    """A change in words, and below it what differs."""
    lines = wrap(safe(change_words(series, change)), style.width, "  ")
    colour = "red" if change.worse else "yellow" if change.worse is None else "green"
    lines = [style.paint(line, colour) for line in lines]
    return [*lines, *wrap(safe(f"differs: {differs_words(change)}"), style.width, "    ")]


def differs_words(change: Change) -> str:
    """What differs between the two runs of a change."""
    return "; ".join(change.differs) or "nothing that benchsuite records"


def change_words(series: Series, change: Change) -> str:
    """A change in one sentence."""
    first, last = series.rows[change.first], series.rows[change.last]
    percent = "" if change.percent is None else f" ({change.percent:+.1f}%{_direction(change)})"
    levels = f"{_level(change.before, '')} to {_level(change.after, series.unit)}{percent}"
    sure = _sure(change.p_value)
    if change.drift:
        steps = change.last - change.first
        assert change.slope is not None
        each = f"{change.slope:+.3g} {series.unit}".rstrip()
        if isinstance(change.before, float) and change.before:
            each = f"{change.slope / abs(change.before) * 100:+.2f}%"
        words = (
            f"drifts from {levels}, {each} a run over {steps} runs, "
            f"from {_run(first)} to {_run(last)}"
        )
        if change.largest is not None and change.percent is not None:
            words += f"; no run differs by more than {change.largest:.1f}% from the one before"
        return words + sure
    return f"changed from {levels} between {_run(first)} and {_run(last)}{sure}"


def _sure(p_value: float | None) -> str:
    if p_value is None:
        return ""
    return "; p < 0.0001" if p_value < 0.0001 else f"; p {p_value:.2g}"


def _direction(change: Change) -> str:
    return "" if change.worse is None else ", worse" if change.worse else ", better"


def _run(row: Row) -> str:
    """A run as a sentence names it: date, id, build, commit."""
    info = row.run.info
    parts = [_date(row), *([info.build] if info.build else [])]
    parts += [f"commit {info.commit[:9]}"] if info.commit else []
    return f"run {row.run.id} ({', '.join(parts)})"


def _date(row: Row) -> str:
    return row.run.started_at[:10]


def _minute(row: Row) -> str:
    return row.run.started_at[:16].replace("T", " ")


def _level(value: float | str, unit: str) -> str:
    return format_value(value, unit)


def _shown(row: Row, unit: str) -> str:
    """A run's value: the median, or the values that its launches disagree on."""
    if row.value is not None:
        return format_value(row.value, unit)
    values = list(dict.fromkeys(format_value(s.value) for s in row.samples))
    return " or ".join(values) if values else "-"


def _plotted(series: Series, style: Style) -> list[str]:
    """The plot, where values are numbers and not all equal."""
    values = [row.value for row in series.rows]
    known = {value for value in values if value is not None}
    if len(known) < 2:
        return []
    cuts = [c.last for c in series.changes if not c.drift]
    marked = [i for i, row in enumerate(series.rows) if row.mark]
    ends = (_date(series.rows[0]), _date(series.rows[-1]))
    lines = plot(values, ends, style, marked=marked, cuts=cuts)
    legend = ["* a run"]
    legend += ["o a run with a mark"] if marked else []
    legend += ["| a change"] if cuts else []
    unit = f", in {series.unit}" if series.unit else ""
    return [*lines, *wrap(f"{', '.join(legend)}{unit}", style.width, "  "), ""]


def _table(series: Series, style: Style) -> list[str]:
    rows = series.rows
    starts = {c.last: c for c in series.changes if not c.drift}
    shown = [
        i for i in range(len(rows)) if i >= len(rows) - _ALL_ROWS or i in starts or i + 1 in starts
    ]
    with_commits = any(row.run.info.commit for row in rows)
    value = f"value, {series.unit}" if series.unit else "value"
    days = {_date(row) for row in rows}
    made = [
        ["date", "run", "build", *(["commit"] if with_commits else []), value, "", "spread (n)"]
    ]
    for i in shown:
        row = rows[i]
        words = ["changed"] if i in starts else []
        words += [row.mark] if row.mark else []
        cells_of_row = [
            _date(row) if len(days) == len(rows) else _minute(row),
            row.run.id,
            (row.run.info.build or "").split("-")[0],
            *([(row.run.info.commit or "")[:7]] if with_commits else []),
            _shown(row, ""),
            ", ".join(words),
            _spread(row),
        ]
        made.append([safe(cell) for cell in cells_of_row])
    limits = [16, _ID_CELLS, 10, *([7] if with_commits else []), 24, 24, 24]
    lines = ["".join(row).rstrip() for row in columns(made, limits)]
    lines = [cut(line, style.width) if cells(line) > style.width else line for line in lines]
    lines[0] = style.paint(lines[0], "dim")
    left = len(rows) - len(shown)
    note = f"{left} older runs are not listed; --csv has them"
    return lines + (wrap(note, style.width) if left else [])


def _spread(row: Row) -> str:
    """From the lowest to the highest of several launches, in percent of their median."""
    numbers = [s.value for s in row.samples if not isinstance(s.value, str)]
    if len(numbers) < 2:
        return ""
    width = max(numbers) - min(numbers)
    words = f"{width / abs(row.value) * 100:.1f}%" if row.value else format_number(width)
    return f"{words} ({len(numbers)})"
