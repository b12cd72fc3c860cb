"""The tables of a run: its gates, its variants side by side, what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from benchsuite.model.record import RunRecord
from benchsuite.model.verdict import GateResult
from benchsuite.report.estimates import estimate_words
from benchsuite.report.html.blocks import TONES, Block, Cell, Fold, Table
from benchsuite.report.html.limits import Limits
from benchsuite.report.html.sweep_chart import sweep_chart
from benchsuite.report.load_table import HEAD, load_tables
from benchsuite.report.matrix import matrix_rows
from benchsuite.report.measured import key_rows, variants_of
from benchsuite.report.reevaluations import reevaluation_rows
from benchsuite.report.sweep_table import sweep_tables
from benchsuite.store.baselines import Baselines

_WORST = ("error", "fail", "xpass", "inconclusive", "xfail", "pass", "not applicable")


def gate_blocks(record: RunRecord, limits: Limits) -> Iterator[Block]:
    """The gates, worst first; those that do not apply folded away."""
    gates = sorted(record.gates, key=gate_rank)
    if not gates:
        return
    own = [gate for gate in gates if gate.outcome != "not applicable"]
    rest = [gate for gate in gates if gate.outcome == "not applicable"]
    if own:
        yield _gate_table("Gates, worst first; a heading sorts", own, limits)
    if rest:
        count = f"{len(rest)} not applicable"
        yield Fold(count, (_gate_table("Gates that do not apply here", rest, limits),))


def gate_rank(gate: GateResult) -> tuple[bool, int]:
    """Worst first: errors and failures are below 3, advice above 9, not applicable last."""
    order = _WORST.index(gate.outcome) if gate.outcome in _WORST else 0
    return gate.outcome == "not applicable", order + (10 if gate.level == "advise" else 0)


def _gate_table(caption: str, gates: Sequence[GateResult], limits: Limits) -> Table:
    """A row for each gate in all variants in which it came out alike."""
    rows: dict[GateResult, tuple[GateResult, list[str]]] = {}
    for gate in gates:
        key = msgspec.structs.replace(gate, variant="")
        rows.setdefault(key, (gate, []))[1].append(gate.variant)
    made = [_gate_row(gate, variants) for gate, variants in rows.values()]
    left_out = len(made) - limits.rows
    return Table(
        caption,
        ("gate", "variants", "outcome", "expected", "observed", "reason"),
        tuple(made[: limits.rows]),
        f"{left_out:,} more rows are in the run's record." if left_out > 0 else "",
        cards=True,
    )


def _gate_row(gate: GateResult, variants: Sequence[str]) -> tuple[Cell, ...]:
    advises = gate.level == "advise" and gate.outcome in ("fail", "inconclusive", "xpass")
    told = f"advises: {gate.outcome}" if advises else gate.outcome
    if gate.state is not None and gate.state not in ("same", gate.outcome):
        told += f" ({gate.state})"
    reason = gate.reason
    if gate.why and gate.outcome in ("fail", "inconclusive", "error"):
        reason += f"; why it matters: {gate.why}"
    estimate = ""
    if gate.estimate is not None:
        estimate = estimate_words(gate.estimate, limit=gate.against == "number")
    return (
        Cell(gate.metric, code=True, aside=gate.rule),
        Cell(", ".join(variants)),
        Cell(told, sort=gate_rank(gate)[1], tone="doubt" if advises else TONES[gate.outcome]),
        Cell(gate.expected or "-"),
        Cell(gate.observed or "-"),
        Cell(reason, aside=estimate),
    )


def matrix_blocks(record: RunRecord, limits: Limits) -> Iterator[Block]:
    """Exact values that gates look at, a column for each variant; equal ones folded away."""
    variants, rows = matrix_rows(record)
    if not rows:
        return
    gates, *values = rows
    equal = [row for row in values if not _differs(row[1])]
    unlike = [row for row in values if _differs(row[1])]
    worst = (Cell(gates[0]), *(Cell(text, tone=TONES.get(text.lower(), "")) for text in gates[1]))
    head = ("value", *variants)
    note = f"“differs” is seen from variant {variants[0]}."
    yield _matrix(
        "Exact values that gates look at, by variant", head, [worst], unlike, note, limits
    )
    if equal:
        words = "1 value" if len(equal) == 1 else f"{len(equal)} values"
        table = _matrix("Equal in all variants", head, [], equal, "", limits)
        yield Fold(f"{words} in which the variants do not differ", (table,))


def _differs(values: Sequence[str]) -> bool:
    return any(value.endswith((" *", "-")) for value in values)


def _matrix(
    caption: str,
    head: tuple[str, ...],
    first: list[tuple[Cell, ...]],
    rows: Sequence[tuple[str, Sequence[str]]],
    note: str,
    limits: Limits,
) -> Table:
    made = list(first)
    for label, values in rows[: limits.rows]:
        row = [Cell(label)]
        for value in values:
            differs = value.endswith(" *")
            text = f"{value.removesuffix(' *')} differs" if differs else value
            row.append(Cell(text, tone="doubt" if differs else ""))
        made.append(tuple(row))
    left_out = len(rows) - limits.rows
    if left_out > 0:
        note = f"{note} {left_out:,} more rows are in the run's record.".strip()
    return Table(caption, head, tuple(made), note)


def measured_blocks(
    record: RunRecord, baselines: Baselines | None, limits: Limits
) -> Iterator[Block]:
    """What was measured, beside its baselines."""
    rows, left_out = key_rows(record, baselines)
    if not rows:
        return
    note = "“=”: as the baseline; a number in brackets is the baseline's."
    if left_out:
        note += f" {left_out:,} more requests are in the run's record."
    yield Table(
        "What was measured, by variant",
        ("measured", *variants_of(record)),
        tuple(
            (Cell(row.label), *(Cell(text or "-") for text in row.cells))
            for row in rows[: limits.rows]
        ),
        note,
    )


def load_blocks(record: RunRecord, prefix: str, limits: Limits) -> Iterator[Block]:
    """Sweeps by stage, then percentiles of load steps with their intervals, launch by launch.

    Args:
        record: The run.
        prefix: Of the plots' names.
        limits: How much is shown.
    """
    for number, sweep in enumerate(sweep_tables(record)[: limits.rows]):
        chart = sweep_chart(sweep, f"{prefix}sweep-{number}") if number < limits.launches else None
        if chart is not None:
            yield chart
            continue
        yield Table(
            sweep.title,
            sweep.head,
            tuple(tuple(Cell(text) for text in row) for row in sweep.rows),
            " ".join(f"{note}." for note in sweep.notes),
        )
    for table in load_tables(record)[: limits.rows]:
        yield Table(
            f"{table.title}: {table.counts}",
            HEAD,
            tuple(tuple(Cell(text or "-") for text in row) for row in table.rows),
            "In brackets the 95% interval. " + " ".join(f"{note}." for note in table.notes),
        )


def again_blocks(record: RunRecord, limits: Limits) -> Iterator[Block]:
    """Why prompt tokens were evaluated again."""
    rows = list(reevaluation_rows(record))
    if not rows:
        return
    made = []
    for launch, request, told in rows[: limits.rows]:
        common = "not known" if told.common_prefix is None else f"{told.common_prefix:,}"
        made.append(
            (
                Cell(request),
                Cell(launch.variant if record.trials == 1 else f"{launch.variant} {launch.trial}"),
                Cell(told.cause, tone="doubt" if told.short else ""),
                Cell(f"{told.cached:,}", sort=told.cached),
                Cell(common, sort=told.common_prefix),
                Cell(told.sentence, aside="; ".join(told.evidence[:3])),
            )
        )
    heads = ("request", "variant", "cause", "cached", "common", "why")
    left_out = len(rows) - len(made)
    note = f"{left_out:,} more are in the run's record." if left_out else ""
    short = sum(told.short for _, _, told in rows)
    yield Fold(
        f"{len(rows)} requests, {short} of them reused less than an earlier one had left",
        (Table("Why prompt tokens were evaluated again", heads, tuple(made), note, cards=True),),
    )
