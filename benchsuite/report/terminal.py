"""A run as text: gates, key measurements, what differs from the baseline, the verdict.

The same plain layout for terminals and pipes; colours are all that a terminal gets more. Model
output and log text is escaped before it is printed.
"""

from __future__ import annotations

from benchsuite.gate.verdict import ADVICE
from benchsuite.model.record import RunRecord
from benchsuite.model.verdict import GateResult
from benchsuite.report.layout import Style, cells, columns, cut, pad, safe, wrap
from benchsuite.report.measured import key_rows, variants_of
from benchsuite.store.baselines import Baselines

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
_LAST_LINES = 8
_MIN_REASON = 36  # columns; with less, the reason goes below its gate


def render_run(
    record: RunRecord,
    baselines: Baselines | None = None,
    *,
    stored: str | None = None,
    style: Style | None = None,
) -> str:
    """A judged run as text that ends in its verdict line and a newline.

    Args:
        record: With its gates and verdict.
        baselines: Shown beside the measurements; None shows none.
        stored: Where the run is stored; None leaves the line out.
        style: None is plain text of 80 columns.
    """
    look = style or Style()
    blocks = [
        _head(record, look),
        _gate_lines(record, look),
        _failure_lines(record, look),
        _measured_lines(record, baselines, look),
        _differs_lines(record, look),
        _foot(record, baselines, stored, look),
    ]
    text = "\n\n".join("\n".join(block) for block in blocks if block)
    return f"{text}\n{verdict_line(record, look)}\n"


def verdict_line(record: RunRecord, style: Style | None = None) -> str:
    """The one line that says it: `PASS  scenarioB on tiny: 17 gates passed, 3 advise`."""
    look = style or Style()
    verdict = record.verdict
    place = safe(f"{record.scenario} on {record.fingerprint.deployment}")
    if verdict is None:
        return f"UNJUDGED  {place}"
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
    label = look.paint(verdict.outcome.upper(), _VERDICT_COLOURS.get(verdict.outcome, "red"))
    found = ", ".join(parts) or "no gates"
    code = f" (exit {verdict.exit_code})" if verdict.exit_code else ""
    return f"{label}  {place}: {found}{code}"


def _head(record: RunRecord, look: Style) -> list[str]:
    title = f"{record.scenario}: {record.title}" if record.title else record.scenario
    trials = "" if record.trials == 1 else f", {record.trials} trials"
    build = record.info.build or "an unknown build"
    line = f"{record.fingerprint.deployment}, {build}, seed {record.fingerprint.seed}{trials}"
    return [look.paint(cut(safe(title), look.width), "bold"), *wrap(safe(line), look.width)]


def _gate_lines(record: RunRecord, look: Style) -> list[str]:
    """Gate, expected, observed, outcome, reason; what holds is short, the rest says why."""
    gates = record.gates
    if not gates:
        return []
    names = [safe(f"{g.variant} {g.metric}") for g in gates]
    outcomes = [_outcome(g) for g in gates]
    rows = [("gate", "expected", "observed", "outcome")] + [
        (name, safe(g.expected), safe(g.observed), outcome)
        for name, g, outcome in zip(names, gates, outcomes, strict=True)
    ]
    value_limit = max(12, (look.width - 58) // 2 + 8)
    widest = max(cells(row[3]) for row in rows)
    taken = sum(min(value_limit, max(cells(r[i]) for r in rows)) + 2 for i in (1, 2)) + widest
    name_limit = max(20, min(max(cells(n) for n in names), look.width - taken - 2))
    table = columns(rows, (name_limit, value_limit, value_limit, widest))
    width = sum(cells(c) for c in table[0][:3]) + widest
    beside = look.width - width - 2 >= _MIN_REASON
    head = "".join(table[0])
    lines = [look.paint((pad(head, width + 2) + "reason").rstrip() if beside else head, "dim")]
    shown_reasons: set[tuple[str, str]] = set()
    for gate, name, row in zip(gates, names, table[1:], strict=True):
        colour = _COLOURS["advise" if _advises(gate) else gate.outcome]
        plain = pad(row[3], widest)
        line = "".join(row[:3]) + look.paint(plain, colour)
        reason = _reason(gate, name if cells(name) > name_limit else "")
        key = (gate.variant, reason)
        if gate.outcome in ("error", "not applicable") and key in shown_reasons:
            reason = ""  # one launch's failure is told once
        shown_reasons.add(key)
        if beside:
            indent = " " * (width + 2)
            wrapped = wrap(safe(reason), look.width, indent) if reason else []
            lines.append((line + "  " + wrapped[0].strip()).rstrip() if wrapped else line.rstrip())
            lines += wrapped[1:]
        else:
            lines.append(line.rstrip())
            if reason and not _is_plain_pass(gate):
                lines += wrap(safe(reason), look.width, "    ")
    return lines


def _reason(gate: GateResult, full_name: str) -> str:
    parts = [gate.reason]
    if gate.why and gate.outcome in ("fail", "inconclusive"):
        parts.append(f"why it matters: {gate.why}")
    if full_name:
        parts.insert(0, full_name)
    return "; ".join(part for part in parts if part)


def _outcome(gate: GateResult) -> str:
    if _advises(gate):
        return f"advises: {gate.state or gate.outcome}"
    if gate.outcome == "fail" and gate.state is not None:
        return f"FAIL {gate.state}"
    return gate.outcome.upper() if gate.outcome in ("fail", "error", "xpass") else gate.outcome


def _advises(gate: GateResult) -> bool:
    return gate.level == "advise" and gate.outcome in ("fail", "inconclusive", "xpass")


def _is_plain_pass(gate: GateResult) -> bool:
    return gate.outcome == "pass" and gate.state != "new"


def _failure_lines(record: RunRecord, look: Style) -> list[str]:
    """How launches failed, with the last lines of their logs."""
    lines: list[str] = []
    for launch in record.launches:
        failure = launch.failure
        if failure is None:
            continue
        head = f"variant {launch.variant}, trial {launch.trial}: {failure.message}"
        lines += [look.paint(part, "red") for part in wrap(safe(head), look.width)]
        if failure.hint:
            lines += wrap(safe(failure.hint), look.width, "  ")
        if failure.unknowable:
            words = f"unknown because of it: {', '.join(failure.unknowable)}"
            lines += wrap(safe(words), look.width, "  ")
        if failure.last_lines:
            log = f" ({launch.log})" if launch.log else ""
            lines.append(safe(f"  last lines of the server's log{log}:"))
            last = failure.last_lines[-_LAST_LINES:]
            lines += [f"  | {cut(safe(line), look.width - 4)}" for line in last]
    return lines


def _measured_lines(record: RunRecord, baselines: Baselines | None, look: Style) -> list[str]:
    rows, left_out = key_rows(record, baselines)
    if not rows:
        return []
    variants = variants_of(record)
    label_width = min(34, max(cells(row.label) for row in rows))
    cell_width = max(cells(c) for row in rows for c in row.cells)
    cell_width = max(cell_width, *(cells(v) for v in variants))
    fitting = max(1, (look.width - label_width) // (cell_width + 2))
    lines: list[str] = []
    for start in range(0, len(variants), fitting):
        part = slice(start, start + fitting)
        table = [("measured", *variants[part])]
        table += [(row.label, *row.cells[part]) for row in rows if any(row.cells[part])]
        limits = (label_width, *[cell_width] * (len(table[0]) - 1))
        made = columns([[safe(c) for c in row] for row in table], limits)
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
    for warning in record.warnings:
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
    return lines
