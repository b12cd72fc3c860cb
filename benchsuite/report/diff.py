"""What changed between two sides, as rows; and the rows as a table, Markdown and JSON.

Only what changed is shown, with a count of what did not. Tolerances belong to scenarios, so a
diff has none; memory and latency of runs, which never repeat exactly, are told apart as noise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from benchsuite.gate.differs import differences
from benchsuite.gate.kinds import KINDS
from benchsuite.gate.kinds.noisy import median
from benchsuite.metrics.catalogue import CATALOGUE, Metric
from benchsuite.metrics.select import parse_selector
from benchsuite.model.verdict import State
from benchsuite.report.layout import Style, cells, columns, cut, name_above, safe, wrap
from benchsuite.report.sources import Part, Side
from benchsuite.store.baselines import Sample, SeriesValues
from benchsuite.units import format_value

DIFF_SCHEMA = 1
"""Version of the JSON of a diff. 1: first."""

NOISE_PERCENT = 5.0
"""Smaller changes of a run's memory and latency are counted as the same."""


class Row(msgspec.Struct, frozen=True):
    """One series that changed."""

    deployment: str
    scenario: str
    variant: str
    series: str
    baseline: str  # as printed; empty where it is new
    candidate: str  # as printed; empty where it is missing
    state: State
    change: str = ""  # in words: `-46.9%`, or of a text where it parts
    noisy: bool = False  # memory or latency of a run: not counted as a difference


class Diff(msgspec.Struct, frozen=True):
    """Two sides compared."""

    baseline: str  # name of the first side
    candidate: str
    rows: tuple[Row, ...]
    same: int  # series that did not change
    differs: tuple[str, ...]  # in words: `build b1 -> b2`
    notes: tuple[str, ...] = ()
    schema_version: int = DIFF_SCHEMA

    @property
    def is_same(self) -> bool:
        """Whether nothing changed but noise."""
        return all(row.noisy for row in self.rows)


def diff(baseline: Side, candidate: Side) -> Diff:
    """Compare two sides, series by series.

    Args:
        baseline: The first side; what the words `missing` and `new` are seen from.
        candidate: The second.
    """
    rows: list[Row] = []
    same = 0
    words: dict[str, None] = {}
    notes: dict[str, None] = {}
    with_run = baseline.run is not None or candidate.run is not None
    nothing = Part({}, {}, {})
    for key in dict.fromkeys([*baseline.parts, *candidate.parts]):
        left, right = baseline.parts.get(key), candidate.parts.get(key)
        if with_run and (left is None or right is None):
            notes[f"{key[2]}: only on one side, so not compared"] = None
            continue
        left, right = left or nothing, right or nothing
        for variant, series, before, after in _pairs(left, right, with_run=with_run):
            row = _row(key, variant, series, before, after, with_run=with_run)
            if row is None:
                same += 1
            else:
                rows.append(row)
        for variant in left.infos:
            if variant in right.infos:
                found = differences(left.infos[variant], right.infos[variant], variant)
                words.update(dict.fromkeys(found))
            theirs, ours = left.digests.get(variant), right.digests.get(variant)
            if theirs and ours and theirs != ours:
                notes[f"variant {variant} of {key[1]} does something else on each side"] = None
    return Diff(baseline.name, candidate.name, tuple(rows), same, tuple(words), tuple(notes))


def render_diff(found: Diff, style: Style | None = None) -> str:
    """A diff as plain text with a newline at its end."""
    look = style or Style()
    lines = wrap(safe(f"{found.baseline} -> {found.candidate}"), look.width)
    exact = [row for row in found.rows if not row.noisy]
    noisy = [row for row in found.rows if row.noisy]
    lines += _table(exact, look)
    if noisy:
        lines += ["", f"memory and latency, {NOISE_PERCENT:g}% and more apart: advice only"]
        lines += _table(noisy, look)
    if found.differs:
        lines += ["", "what differs:"]
        lines += [line for d in found.differs for line in wrap(safe(d), look.width, "  ")]
    lines += [line for note in found.notes for line in wrap(f"note: {safe(note)}", look.width)]
    colour = "green" if found.is_same else "red"
    lines += ["", look.paint(summary(found), colour)]
    return "\n".join(lines) + "\n"


def render_diff_markdown(found: Diff) -> str:
    """A diff as a Markdown table with a newline at its end."""
    lines = [f"**{_markdown(found.baseline)} -> {_markdown(found.candidate)}**: {summary(found)}"]
    if found.rows:
        lines += [
            "",
            "| scenario | variant | series | baseline | candidate | state |",
            "|---|---|---|---|---|---|",
        ]
        for row in found.rows:
            state = f"{row.state} {row.change}".strip() + (" (advice)" if row.noisy else "")
            parts = (
                row.scenario,
                row.variant,
                row.series,
                row.baseline or "-",
                row.candidate or "-",
                state,
            )
            lines.append("| " + " | ".join(_markdown(part) for part in parts) + " |")
    lines += [""] if found.differs or found.notes else []
    lines += [f"- {_markdown(words)}" for words in (*found.differs, *found.notes)]
    return "\n".join(lines) + "\n"


def render_diff_json(found: Diff) -> bytes:
    """A diff as indented JSON with a newline at its end."""
    content = {**msgspec.to_builtins(found), "is_same": found.is_same}
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def summary(found: Diff) -> str:
    """The one line that says it: `2 changed, 1 new, 40 the same`."""
    counts: dict[str, int] = {}
    for row in found.rows:
        key = "noisy" if row.noisy else row.state
        counts[key] = counts.get(key, 0) + 1
    parts = [f"{count} {state}" for state, count in counts.items()]
    return ", ".join([*parts, f"{found.same} the same"])


def _pairs(
    left: Part, right: Part, *, with_run: bool
) -> Iterator[tuple[str, str, tuple[Sample, ...] | None, tuple[Sample, ...] | None]]:
    """Each series of both parts with its values; with a run, only of variants that both have."""
    none: SeriesValues = {}
    for variant in dict.fromkeys([*left.metrics, *right.metrics]):
        if with_run and not (variant in left.metrics and variant in right.metrics):
            continue  # `--variant` ran only some
        before, after = left.metrics.get(variant, none), right.metrics.get(variant, none)
        for series in dict.fromkeys([*before, *after]):
            yield variant, series, before.get(series), after.get(series)


def _row(
    key: tuple[str, str, str],
    variant: str,
    series: str,
    before: tuple[Sample, ...] | None,
    after: tuple[Sample, ...] | None,
    *,
    with_run: bool,
) -> Row | None:
    """The row of a series; None where it did not change."""
    metric = CATALOGUE.get(parse_selector(series).name)
    left, right = _show(metric, before), _show(metric, after)
    state: State
    if before is None or after is None:
        state = "new" if before is None else "missing"
        return Row(*key[:2], variant, series, left, right, state)
    if before == after:
        return None
    if metric is None:
        return Row(*key[:2], variant, series, left, right, "changed")
    kind = KINDS[metric.assume]
    found = kind.compare(before, after, unit=metric.unit, better=metric.better)
    state, change = found.state, _change(metric, before, after, found.sentence)
    noisy = kind.advises and with_run
    percent = _percent(before, after)
    if noisy and (state == "same" or (percent is not None and abs(percent) < NOISE_PERCENT)):
        return None
    if kind.advises and state == "same":
        state, change = "changed", "other samples, the same median"
    if state == "inconclusive":  # trials that disagree among themselves
        state = "same" if _values(before) == _values(after) else "changed"
    if state == "same":
        return None
    return Row(
        *key[:2], variant, series, found.expected, found.observed, state, change, noisy=noisy
    )


def _values(samples: tuple[Sample, ...]) -> list[str]:
    return sorted(repr(s.value) for s in samples)


def _show(metric: Metric | None, samples: tuple[Sample, ...] | None) -> str:
    if samples is None:
        return ""
    if metric is None:
        return ", ".join(format_value(s.value) for s in samples)
    return KINDS[metric.assume].show(samples, metric.unit)


def _change(
    metric: Metric, before: tuple[Sample, ...], after: tuple[Sample, ...], sentence: str
) -> str:
    if metric.assume == "text":
        return sentence.split(": ", 1)[0].removeprefix("changed ")
    percent = _percent(before, after)
    return "" if percent is None else f"{percent:+.1f}%"


def _percent(before: tuple[Sample, ...], after: tuple[Sample, ...]) -> float | None:
    """The relative change of medians in percent; None from 0 and for text."""
    if isinstance(before[0].value, str) or isinstance(after[0].value, str):
        return None
    start = median(before)
    return None if start == 0 else (median(after) - start) / abs(start) * 100


def _table(rows: list[Row], look: Style) -> list[str]:
    """The rows by scenario, variants that changed alike in one line."""
    lines: list[str] = []
    for deployment, scenario in dict.fromkeys((row.deployment, row.scenario) for row in rows):
        lines += ["", safe(f"{deployment}/{scenario}" if deployment else scenario)]
        alike: dict[tuple[str, ...], list[str]] = {}
        for row in rows:
            if (row.deployment, row.scenario) == (deployment, scenario):
                state = f"{row.state} {row.change}".strip()
                key = (row.series, row.baseline or "-", row.candidate or "-", state)
                alike.setdefault(key, []).append(row.variant)
        table = [["", "series", "baseline", "candidate", "state"]]
        table += [[",".join(variants), *key] for key, variants in alike.items()]
        cleaned = [[safe(cell) for cell in line] for line in table]
        limits = (12, look.width, look.width // 5, look.width // 5, 24)
        widths = [
            min(limit, max(cells(line[i]) for line in cleaned)) for i, limit in enumerate(limits)
        ]
        rest = look.width - sum(widths) + widths[1] - 8
        widths[1] = max(8, min(widths[1], rest))
        for wanted, made in zip(cleaned, columns(cleaned, widths), strict=True):
            above, row_cells = name_above(wanted, made, widths, look.width)
            lines += [cut(line.rstrip(), look.width) for line in (*above, "".join(row_cells))]
    return lines


def _markdown(text: str) -> str:
    """Text that Markdown shows as it is, in a table cell too."""
    return _SPECIAL.sub(lambda m: f"&#{ord(m[0])};", safe(text))


_SPECIAL = re.compile(r"[\\`*\[\]<>|~&]")
