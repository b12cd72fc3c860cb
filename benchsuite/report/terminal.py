"""A run as text: gates, key measurements, what differs from the baseline, the verdict.

The same plain layout for terminals and pipes; colours are all that a terminal gets more. Model
output and log text is escaped before it is printed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchsuite.gate.verdict import ADVICE
from benchsuite.model.record import RunRecord
from benchsuite.model.verdict import GateResult, Verdict
from benchsuite.report.estimates import estimate_lines
from benchsuite.report.failures import failure_lines, known_issue_lines
from benchsuite.report.layout import (
    Style,
    cells,
    columns,
    cut,
    fitting,
    name_above,
    pad,
    safe,
    wrap,
)
from benchsuite.report.load_table import load_lines
from benchsuite.report.matrix import matrix_lines
from benchsuite.report.measured import key_rows, variants_of
from benchsuite.report.reevaluations import reevaluation_lines
from benchsuite.report.sweep_table import sweep_lines
from benchsuite.store.baselines import Baselines, unit_of

_COLOURS = {
    "pass": "green",
    "fail": "red",
    "error": "red",
    "xpass": "red",
    "inconclusive": "yellow",
    "advise": "yellow",
    "not applicable": "dim",
    "xfail": "dim",
}
_VERDICT_COLOURS = {"pass": "green", "inconclusive": "yellow", "interrupted": "yellow"}
_MIN_TABLE = 76  # columns; with less, each gate is told in lines of its own
_MOST_VARIANTS = 12  # columns for their names
_MIN_REASON = 36  # columns; with less, the reason goes below its gate


def render_run(
    record: RunRecord,
    baselines: Baselines | None = None,
    *,
    stored: str | None = None,
    style: Style | None = None,
    verbose: bool = False,
) -> str:
    """A judged run as text that ends in its verdict line and a newline.

    Args:
        record: With its gates and verdict.
        baselines: Shown beside the measurements; None shows none.
        stored: Where the run is stored; None leaves the line out.
        style: None is plain text of 80 columns.
        verbose: Tell of every prompt that was evaluated again, with the evidence.
    """
    look = style or Style()
    blocks = [
        _head(record, look),
        _gate_lines(record, look),
        estimate_lines(record.gates, look),
        _not_applicable_lines(record, look),
        known_issue_lines(record, look),
        failure_lines(record, look),
        reevaluation_lines(record, look, verbose=verbose),
        matrix_lines(record, look),
        _measured_lines(record, baselines, look),
        load_lines(record, look),
        sweep_lines(record, look),
        _differs_lines(record, look),
        _foot(record, baselines, stored, look),
    ]
    text = "\n\n".join("\n".join(block) for block in blocks if block)
    return f"{text}\n{verdict_line(record, look)}\n"


def verdict_line(record: RunRecord, style: Style | None = None) -> str:
    """The one line that says it: `PASS  scenarioB on tiny: 17 gates passed, 3 advise`."""
    place = safe(f"{record.scenario} on {record.fingerprint.deployment}")
    if record.verdict is None:
        return f"UNJUDGED  {place}"
    return outcome_line(record.verdict, place, style or Style())


def outcome_line(verdict: Verdict, place: str, look: Style) -> str:
    """A verdict in one line, with the counts of its gates."""
    words = {
        "pass": ("gates passed", "gate passed"),
        "fail": ("gates failed", "gate failed"),
        "error": ("gates unknown", "gate unknown"),
        "xpass": ("unexpected passes", "unexpected pass"),
        "inconclusive": ("inconclusive", "inconclusive"),
        "xfail": ("known issues", "known issue"),
        "not applicable": ("not applicable", "not applicable"),
        ADVICE: ("advise", "advises"),
    }
    bad_first = ("error", "fail", "xpass", "inconclusive", "pass", "xfail", "not applicable")
    parts = [
        f"{verdict.counts[key]} {words[key][verdict.counts[key] == 1]}"
        for key in (*bad_first, ADVICE)
        if verdict.counts.get(key)
    ]
    label = verdict.outcome.upper()
    found = ", ".join(parts) or "no gates"
    code = f" (exit {verdict.exit_code})" if verdict.exit_code else ""
    line = "\n      ".join(wrap(f"{label}  {place}: {found}{code}", look.width - 6))
    colour = _VERDICT_COLOURS.get(verdict.outcome, "red")
    return look.paint(label, colour) + line.removeprefix(label)


def _head(record: RunRecord, look: Style) -> list[str]:
    title = f"{record.scenario}: {record.title}" if record.title else record.scenario
    trials = "" if record.trials == 1 else f", {record.trials} trials"
    build = record.info.build or "an unknown build"
    if record.launches and record.launches[0].server.kind == "none":
        build = "no server"
    line = f"{record.fingerprint.deployment}, {build}, seed {record.fingerprint.seed}{trials}"
    head = [look.paint(cut(safe(title), look.width), "bold"), *wrap(safe(line), look.width)]
    if record.launches and record.launches[0].server.kind != "none":
        server = record.launches[0].server
        why = f" ({server.why})" if server.why else ""
        head += wrap(safe(f"server: {server.path}{why}"), look.width)
    return head


class _GateRow(msgspec.Struct):
    """One line of the gate table: a gate in all variants in which it came out alike."""

    variants: list[str]
    gate: GateResult
    expected: str
    observed: str


def _gate_rows(gates: Sequence[GateResult]) -> list[_GateRow]:
    rows: dict[tuple[object, ...], _GateRow] = {}
    for gate in gates:
        if gate.outcome == "not applicable":
            continue
        unit = unit_of(gate.metric)
        expected = gate.expected.removesuffix(f" {unit}")  # what is observed has it
        compared = gate.state in _COMPARED or gate.estimate is not None
        if gate.against == "baseline" and gate.expected and compared:
            expected = f"baseline {expected}"
        elif gate.against == "analytic" and gate.expected:
            expected = f"analytic {expected}"
        elif gate.against == "run":
            place = gate.rule.removeprefix("same as ").removeprefix("variant ")
            expected = f"as {place}: {expected}".removesuffix(": ")
        observed = gate.observed.removesuffix(" tokens")  # as the metric's name says
        reason = _reason(gate)
        key = (gate.line, gate.metric, gate.rule, gate.outcome, gate.level, expected, observed)
        row = rows.setdefault((*key, reason), _GateRow([], gate, safe(expected), safe(observed)))
        row.variants.append(gate.variant)
    return list(rows.values())


_COMPARED = ("same", "improved", "regressed", "changed", "missing")


def _gate_lines(record: RunRecord, look: Style) -> list[str]:
    """Gate, expected, observed, outcome, reason; what holds is short, the rest says why."""
    rows = _gate_rows(record.gates)
    if not rows:
        return []
    ran = list(dict.fromkeys(g.variant for g in record.gates if g.outcome != "not applicable"))
    table = [("", "gate", "expected", "observed", "outcome")] + [
        (
            safe(_variant_words(row.variants, ran)),
            safe(row.gate.metric),
            row.expected,
            row.observed,
            _outcome(row.gate),
        )
        for row in rows
    ]
    if look.width < _MIN_TABLE:
        return _stacked_lines(rows, look)
    widths = [max(cells(line[i]) for line in table) for i in range(5)]
    widths[0] = min(widths[0], _MOST_VARIANTS)
    widths[2] = min(widths[2], max(14, look.width // 5))
    widths[3] = min(widths[3], max(12, look.width // 5))
    rest = look.width - widths[0] - widths[2] - widths[3] - widths[4] - 8
    widths[1] = max(12, min(widths[1], rest))
    beside = look.width - sum(widths) - 8 - 2 >= _MIN_REASON
    made = columns(table, widths)
    head = "".join(made[0])
    lines = [
        look.paint((pad(head, sum(widths) + 10) + "reason" if beside else head).rstrip(), "dim")
    ]
    told: set[str] = set()
    for row, wanted, line in zip(rows, table[1:], made[1:], strict=True):
        reason = _reason(row.gate)
        if row.gate.outcome == "pass" and row.gate.state != "new" and not beside:
            reason = ""
        if reason in told and row.gate.outcome != "pass":
            reason = ""  # said above, of another gate
        told.add(reason)
        lines += _gate_row_lines(row, wanted, line, widths, safe(reason), beside, look)
    return lines


def _variant_words(variants: Sequence[str], ran: Sequence[str]) -> str:
    """Names of variants, shortened where they are too many for their column."""
    names = ",".join(variants)
    if cells(names) <= _MOST_VARIANTS:
        return names
    others = [name for name in ran if name not in variants]
    if not others:
        return "all"
    return f"not {others[0]}" if len(others) == 1 else names


def _stacked_lines(rows: Sequence[_GateRow], look: Style) -> list[str]:
    """The gates where there is no room for a table."""
    lines = []
    for row in rows:
        name = f"{','.join(row.variants)} {row.gate.metric}"
        found = f"{_outcome(row.gate)}: expected {row.expected}, observed {row.observed}"
        colour = _COLOURS["advise" if _advises(row.gate) else row.gate.outcome]
        lines += wrap(safe(name), look.width)
        lines += [look.paint(part, colour) for part in wrap(safe(found), look.width, "  ")]
        if row.gate.outcome != "pass":
            lines += wrap(safe(_reason(row.gate)), look.width, "    ")
    return lines


def _gate_row_lines(
    row: _GateRow,
    wanted: Sequence[str],
    made: Sequence[str],
    widths: Sequence[int],
    reason: str,
    beside: bool,
    look: Style,
) -> list[str]:
    """One gate: its cells, and its reason beside or below them."""
    lines, made = name_above(wanted, made, widths, look.width)
    colour = _COLOURS["advise" if _advises(row.gate) else row.gate.outcome]
    line = "".join(made[:4]) + look.paint(made[4], colour)
    indent = " " * (sum(widths) + 10) if beside else "    "
    wrapped = wrap(reason, look.width, indent) if reason else []
    if beside and wrapped:
        line += " " * (widths[4] - cells(made[4]) + 2) + wrapped.pop(0).strip()
    return [*lines, line.rstrip(), *wrapped]


def _reason(gate: GateResult) -> str:
    reason = gate.reason
    if gate.outcome == "error":  # its launch's failure is told once, whatever it makes unknown
        reason = reason.removeprefix(f"{gate.metric} is ")
    if gate.why and gate.outcome in ("fail", "inconclusive"):
        reason += f"; why it matters: {gate.why}"
    return reason


def _not_applicable_lines(record: RunRecord, look: Style) -> list[str]:
    """What did not apply, by reason."""
    found: dict[str, dict[str, list[str]]] = {}
    for gate in record.gates:
        if gate.outcome == "not applicable":
            variants = found.setdefault(gate.reason, {})
            variants.setdefault(gate.metric, []).append(gate.variant)
    if not found:
        return []
    lines = ["not applicable:"]
    for reason, metrics in found.items():
        if reason.startswith("variant "):
            count = sum(len(variants) for variants in metrics.values())
            words = f"{count} gate{'' if count == 1 else 's'}: {reason}"
        else:
            names = [f"{','.join(v)} {metric}" for metric, v in metrics.items()]
            words = f"{'; '.join(names)}: {reason}"
        lines += wrap(safe(words), look.width, "  ")
    return lines


def _outcome(gate: GateResult) -> str:
    if _advises(gate):
        return "advises"
    return gate.outcome.upper() if gate.outcome in ("fail", "error", "xpass") else gate.outcome


def _advises(gate: GateResult) -> bool:
    return gate.level == "advise" and gate.outcome in ("fail", "inconclusive", "xpass")


def _measured_lines(record: RunRecord, baselines: Baselines | None, look: Style) -> list[str]:
    rows, left_out = key_rows(record, baselines)
    if not rows:
        return []
    variants = variants_of(record)
    label_width = min(34, max(cells(row.label) for row in rows))
    widths = [
        max(cells(name), *(cells(row.cells[i]) for row in rows)) for i, name in enumerate(variants)
    ]
    lines: list[str] = []
    for part in fitting(widths, look.width - label_width):
        table = [("measured", *variants[part])]
        table += [(row.label, *row.cells[part]) for row in rows if any(row.cells[part])]
        made = columns([[safe(c) for c in row] for row in table], (label_width, *widths[part]))
        text = [cut("".join(row).rstrip(), look.width) for row in made]
        lines += [look.paint(text[0], "dim"), *text[1:]]
    if left_out:
        lines.append(f"and {left_out} more requests, in the run's record")
    if any(c.endswith((" =", ")")) for row in rows for c in row.cells):
        lines.append(look.paint("=: as the baseline; (n): the baseline has n", "dim"))
    return lines


def _differs_lines(record: RunRecord, look: Style) -> list[str]:
    found = dict.fromkeys(d for gate in record.gates for d in gate.differs)
    lines = [line for d in found for line in wrap(safe(d), look.width, "  ")]
    return ["differs from the baseline:", *lines] if lines else []


def _foot(
    record: RunRecord, baselines: Baselines | None, stored: str | None, look: Style
) -> list[str]:
    lines = []
    expiries = [issue.expiry for issue in record.known_issues if issue.expiry]
    for warning in (*record.warnings, *expiries):
        lines += wrap(safe(f"warning: {warning}"), look.width)
    for launch in record.launches:
        for warning in launch.warnings:
            words = f"warning: variant {launch.variant}, trial {launch.trial}: {warning}"
            lines += wrap(safe(words), look.width)
    source = record.baseline or (baselines.source if baselines is not None else "")
    if source:
        lines.append(safe(f"baseline: {source}"))
    if stored:
        lines.append(safe(f"run: {stored}"))
    if reason := _untold_reason(record):
        lines += wrap(safe(f"why: {reason}"), look.width)
    return lines


def _untold_reason(record: RunRecord) -> str:
    """The verdict's reason where no gate and no launch shows it: nothing was decided."""
    verdict = record.verdict
    if verdict is None or verdict.outcome != "inconclusive":
        return ""
    shown = any(gate.outcome == "inconclusive" and gate.level == "block" for gate in record.gates)
    failed = any(
        launch.failure is not None and launch.variant not in record.excused
        for launch in record.launches
    )
    return "" if shown or failed or not verdict.reasons else verdict.reasons[0]
