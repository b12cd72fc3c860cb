"""What load steps came to, launch by launch: counts, and percentiles with their intervals; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from benchsuite.metrics.catalogue import LOAD_SPANS
from benchsuite.model.load import QUANTILES, LoadSummary
from benchsuite.model.record import Launch, Measurement, RunRecord, Unmeasured
from benchsuite.report.layout import Style, columns, safe, wrap
from benchsuite.units import format_number

_ROWS = {
    "ttft_ms": "TTFT",
    "ttft_from_due_ms": "TTFT from due",
    "itl_ms": "ITL",
    "tpot_ms": "TPOT",
    "e2e_ms": "e2e",
    "e2e_from_due_ms": "e2e from due",
    "wait_ms": "wait",
    "send_lateness_ms": "our lateness",
}
HEAD = ("ms", *(f"p{float(q) * 100:g}" for q in QUANTILES))
_MOST_LAUNCHES = 4
UNKNOWN = "?"


class LoadTable(msgspec.Struct, frozen=True):
    """One load step of one launch."""

    title: str  # `load steady (variant B, trial 1)`
    counts: str  # a sentence
    rows: tuple[tuple[str, ...], ...]  # under `HEAD`
    notes: tuple[str, ...]  # why cells are unknown
    warnings: tuple[str, ...] = ()  # of the step; those of its launch have them too


def load_tables(record: RunRecord) -> list[LoadTable]:
    """A table for each load step of each launch, in their order."""
    return [
        _table(record, launch, summary)
        for launch in record.launches
        for summary in launch.loads
        if not summary.stage
    ]


def load_warnings(launches: Iterable[Launch]) -> list[str]:
    """What is to be said of their load steps and stages, each once, for outputs that have no
    other place for a launch's warnings."""
    return list(
        dict.fromkeys(w for launch in launches for one in launch.loads for w in one.warnings)
    )


def load_lines(record: RunRecord, look: Style) -> list[str]:
    """The tables as text, of the first launches."""
    tables = load_tables(record)
    lines: list[str] = []
    for table in tables[:_MOST_LAUNCHES]:
        lines += wrap(safe(f"{table.title}: {table.counts}"), look.width)
        if table.rows:
            widths = [max(len(row[i]) for row in (HEAD, *table.rows)) for i in range(len(HEAD))]
            made = columns([HEAD, *table.rows], widths)
            text = ["".join(row).rstrip() for row in made]
            lines += [look.paint(f"  {text[0]}", "dim"), *(f"  {line}" for line in text[1:])]
        for note in table.notes:
            lines += wrap(safe(note), look.width, "  ")
    if len(tables) > _MOST_LAUNCHES:
        lines.append(f"and {len(tables) - _MOST_LAUNCHES} more, in the run's record")
    return lines


def _table(record: RunRecord, launch: Launch, summary: LoadSummary) -> LoadTable:
    found: dict[tuple[str, str], Measurement | Unmeasured] = {}
    several: tuple[Sequence[Measurement | Unmeasured], ...] = (
        record.measurements,
        record.unmeasured,
    )
    for one in (one for some in several for one in some):
        ours = one.variant == launch.variant and one.trial == launch.trial
        ours = ours and one.labels.get("stage", "") == summary.stage
        if ours and one.labels.get("step") == summary.name:
            found[one.name, one.labels.get("quantile", "")] = one
    rows = []
    for name in (*LOAD_SPANS, "send_lateness_ms"):
        shown = [_cell(found.get((name, quantile))) for quantile in QUANTILES]
        if any(shown):
            rows.append((_ROWS[name], *shown))
    trial = f", trial {launch.trial}" if record.trials > 1 else ""
    cut = ", cut short" if summary.cut else ""
    title = f"load {summary.name} (variant {launch.variant}{trial}{cut})"
    notes = (*_so_far(summary), *_notes(found))
    return LoadTable(title, _counts(summary, found), tuple(rows), notes, summary.warnings)


def _counts(summary: LoadSummary, found: Mapping[tuple[str, str], Measurement | Unmeasured]) -> str:
    measured = summary.measured
    lost = summary.failed + summary.timed_out
    share = f" ({lost / measured:.2%})" if measured else ""
    beside = f" after {summary.sent - measured} of warm-up" if summary.sent > measured else ""
    if summary.cut:
        beside = f" after warm-up, of {summary.sent} sent in all"
    parts = [
        f"{measured} request{'' if measured == 1 else 's'}{beside}",
        f"{summary.failed} failed, {summary.timed_out} timed out{share}",
        *_rates(summary, found),
        f"{summary.distinct_prompts} distinct prompt{'' if summary.distinct_prompts == 1 else 's'}",
        f"at most {summary.most_in_flight} at once",
        f"{format_number(summary.seconds, 1)} s",
    ]
    if summary.skipped:
        parts.insert(2, f"{summary.skipped} of the file skipped")
    if summary.source:
        parts.append(summary.source)
    return ", ".join(parts)


def _rates(
    summary: LoadSummary, found: Mapping[tuple[str, str], Measurement | Unmeasured]
) -> Iterator[str]:
    """Requests a second, served and asked for, and how many we sent too late."""
    served, late = found.get(("requests_per_second", "")), found.get(("client_late_share", ""))
    if isinstance(served, Measurement) and not isinstance(served.value, str):
        asked = summary.asked_per_second
        of = "" if asked is None else f" of {format_number(asked, 2)} asked for"
        yield f"{_short(served.value)} a second served{of}"
    if isinstance(late, Measurement) and not isinstance(late.value, str):
        yield f"{late.value:.2%} sent late by us"


def _cell(one: Measurement | Unmeasured | None) -> str:
    if one is None:
        return ""
    if isinstance(one, Unmeasured):
        return UNKNOWN
    if one.interval is None or isinstance(one.value, str):
        return str(one.value)
    low, high = (_short(end) for end in one.interval)
    return f"{_short(one.value)} ({low}..{high})"


def _short(value: float) -> str:
    return format_number(value, 2 if value < 10 else 1 if value < 100 else 0)


def _so_far(summary: LoadSummary) -> Iterator[str]:
    """What a load that was cut had come to."""
    if summary.so_far:
        yield f"so far, and judged by nothing: {', '.join(summary.so_far)}"


def _notes(found: dict[tuple[str, str], Measurement | Unmeasured]) -> Iterator[str]:
    """Why cells are unknown: of each quantile the first reason, which others share."""
    told: set[str] = set()
    for (name, quantile), one in found.items():
        if quantile and isinstance(one, Unmeasured) and quantile not in told:
            told.add(quantile)
            yield f"{UNKNOWN} {_ROWS[name]} p{float(quantile) * 100:g}: {one.reason}"
