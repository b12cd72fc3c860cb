"""What sweeps came to, launch by launch: a row for each stage; pure."""

from __future__ import annotations

import msgspec

from benchsuite.model.load import StageSummary, SweepSummary
from benchsuite.model.record import Launch, Measurement, RunRecord, Unmeasured
from benchsuite.report.layout import Style, columns, cut, safe, wrap
from benchsuite.units import format_number

UNKNOWN = "?"
_COLUMNS = (
    ("req/s", "requests_per_second", None),
    ("good/s", "goodput_requests_per_second", None),
    ("tok/s", "output_tokens_per_second", None),
    ("TTFT ms", "ttft_ms", "0.95"),
    ("ITL ms", "itl_ms", "0.95"),
    ("e2e ms", "e2e_ms", "0.95"),
    ("errors", "error_share", None),
)
_LEVELS = {"concurrency": "users", "rate": "rate"}
_WHOLE = (
    ("highest load that meets the objectives", "highest_load"),
    ("goodput there, requests a second", "goodput_requests_per_second"),
    ("knee", "knee_load"),
)
_Found = dict[tuple[str, str, str], Measurement | Unmeasured]


class Level(msgspec.Struct, frozen=True):
    """The figures of one stage; None is what is not known."""

    level: float
    served: float | None  # requests a second
    good: float | None  # likewise, that met the objectives
    latency_ms: float | None  # p95 of `SweepTable.latency`


class SweepTable(msgspec.Struct, frozen=True):
    """One sweep of one launch."""

    title: str  # `sweep capacity (variant B, trial 1)`
    head: tuple[str, ...]  # latencies are p95
    rows: tuple[tuple[str, ...], ...]  # under `head`, by level
    notes: tuple[str, ...]  # what the sweep came to, why it ended
    over: str  # `users`, or `users a second`
    levels: tuple[Level, ...]  # as `rows`
    latency: str  # metric of `Level.latency_ms`
    best: float | None  # highest level that met the objectives
    knee: float | None


def sweep_tables(record: RunRecord) -> list[SweepTable]:
    """A table for each sweep of each launch, in their order."""
    return [_table(record, launch, sweep) for launch in record.launches for sweep in launch.sweeps]


def sweep_lines(record: RunRecord, look: Style) -> list[str]:
    """The tables as text."""
    lines: list[str] = []
    for table in sweep_tables(record):
        lines += wrap(safe(table.title), look.width)
        cells = [table.head, *table.rows]
        widths = [max(len(row[i]) for row in cells) for i in range(len(table.head))]
        made = [cut("".join(row).rstrip(), look.width - 2) for row in columns(cells, widths)]
        lines += [look.paint(f"  {made[0]}", "dim"), *(f"  {line}" for line in made[1:])]
        for note in table.notes:
            lines += wrap(safe(note), look.width, "  ")
    return lines


def _table(record: RunRecord, launch: Launch, sweep: SweepSummary) -> SweepTable:
    found: _Found = {}
    everything: list[Measurement | Unmeasured] = [*record.measurements, *record.unmeasured]
    for one in everything:
        labels = one.labels
        ours = one.variant == launch.variant and one.trial == launch.trial
        if ours and labels.get("step") == sweep.name:
            found[one.name, labels.get("stage", ""), labels.get("quantile", "")] = one
    stages = sorted(sweep.stages, key=lambda one: one.level)
    shown = [
        (head, cells)
        for head, name, q in _COLUMNS
        if set(cells := [_cell(found.get((name, one.stage, q or ""))) for one in stages])
        != {UNKNOWN}
    ]
    rows = [
        (one.stage, *(cells[number] for _, cells in shown), _objectives(one))
        for number, one in enumerate(stages)
    ]
    notes = [f"*: the server is over-saturated: {one.saturated}" for one in stages if one.saturated]
    notes = notes[:1]
    for words, name in _WHOLE:
        whole = found.get((name, "", ""))
        if name == "goodput_requests_per_second" and isinstance(whole, Unmeasured):
            continue  # for want of a level, as is said already
        why = f": {whole.reason}" if isinstance(whole, Unmeasured) else ""
        notes.append(f"{words}: {_cell(whole)}{why}")
    notes.append(f"ended: {sweep.ended}")
    trial = f", trial {launch.trial}" if record.trials > 1 else ""
    times = any(head.endswith(" ms") for head, _ in shown)
    latency = "ttft_ms" if any(head == "TTFT ms" for head, _ in shown) else "e2e_ms"
    return SweepTable(
        f"sweep {sweep.name} (variant {launch.variant}{trial}){'; times are p95' if times else ''}",
        (_LEVELS[sweep.over], *(head for head, _ in shown), "objectives"),
        tuple(rows),
        tuple(notes),
        "users" if sweep.over == "concurrency" else "users a second",
        tuple(
            Level(
                one.level,
                _number(found.get(("requests_per_second", one.stage, ""))),
                _number(found.get(("goodput_requests_per_second", one.stage, ""))),
                _number(found.get((latency, one.stage, "0.95"))),
            )
            for one in stages
        ),
        latency,
        _number(found.get(("highest_load", "", ""))),
        _number(found.get(("knee_load", "", ""))),
    )


def _objectives(one: StageSummary) -> str:
    return f"{one.verdict or 'none'}{'*' if one.saturated else ''}"


def _number(one: Measurement | Unmeasured | None) -> float | None:
    if one is None or isinstance(one, Unmeasured) or isinstance(one.value, str):
        return None
    return float(one.value)


def _cell(one: Measurement | Unmeasured | None) -> str:
    if one is None or isinstance(one, Unmeasured) or isinstance(one.value, str):
        return UNKNOWN
    if one.name == "error_share":
        return f"{one.value:.1%}"
    return format_number(one.value, 2 if one.value < 10 else 1 if one.value < 100 else 0)
