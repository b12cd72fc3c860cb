"""Two sides as text: who they are, what differs, each comparison, the verdict; and as JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.ab import SIDES, AbRecord, Side
from benchsuite.model.record import RunRecord
from benchsuite.model.verdict import Estimate, GateResult
from benchsuite.report.failures import failure_lines
from benchsuite.report.layout import Style, cells, columns, cut, name_above, safe, wrap
from benchsuite.report.terminal import outcome_line
from benchsuite.stats.paired import LOOKS
from benchsuite.store.baselines import unit_of
from benchsuite.units import format_number

_COLOURS = {
    "pass": "green",
    "fail": "red",
    "error": "red",
    "inconclusive": "yellow",
    "not applicable": "dim",
    "xfail": "dim",
    "xpass": "red",
}
_MIN_TABLE = 76  # columns; with less, each comparison is told in lines of its own
_EVERY = re.compile(r'=~"\.\*"')
_SAME = "="


def render_ab_json(record: AbRecord) -> bytes:
    """The record as JSON, indented, with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"


def render_ab(record: AbRecord, *, stored: str | None = None, style: Style | None = None) -> str:
    """A judged record as text that ends in its verdict line and a newline.

    Args:
        record: With its gates and verdict.
        stored: Where it is stored; None leaves the line out.
        style: None is plain text of 80 columns.
    """
    look = style or Style()
    compared = [g for g in record.gates if g.against == "other side"]
    own = [g for g in record.gates if g.against != "other side"]
    blocks = [
        _head(record, look),
        _table("compared", [_compared_row(g) for g in compared if _applies(g)], look),
        _table("limits", [_limit_row(g, record) for g in own if _applies(g)], look),
        _not_applicable(record.gates, look),
        *(_failures(side, record.side(side), look) for side in SIDES),
        _foot(record, stored, look),
    ]
    text = "\n\n".join("\n".join(block) for block in blocks if block)
    place = safe(f"{record.scenario}, candidate against baseline{_not_judged(record)}")
    if record.verdict is None:
        return f"{text}\nUNJUDGED  {place}\n"
    return f"{text}\n{outcome_line(record.verdict, place, look)}\n"


def _not_judged(record: AbRecord) -> str:
    """What too few pairs, or --exact, leave without a judgement, for the verdict's line."""
    rules = record.rules
    if not rules.exact and (rules.pairs is None or rules.pairs >= LOOKS[0]):
        return ""
    kinds = [
        CATALOGUE[gate.metric.partition("{")[0]].assume
        for gate in record.gates
        if gate.against == "other side" and gate.outcome == "inconclusive"
    ]
    open_kinds = [kind for kind in ("memory", "latency") if kind in kinds]
    if not open_kinds:
        return ""
    verb = "was" if len(open_kinds) == 1 else "were"
    left = "--exact" if rules.exact else "--pairs"
    words = f"{' and '.join(open_kinds)} {verb} not judged"
    return f" ({words}: `benchsuite ab {record.scenario} ...` without {left} does)"


def _head(record: AbRecord, look: Style) -> list[str]:
    title = record.candidate.title
    title = f"{record.scenario}: {title}" if title else record.scenario
    lines = [look.paint(cut(safe(title), look.width), "bold")]
    for side in SIDES:
        lines += wrap(safe(f"{side}: {_server_words(record.side(side))}"), look.width)
    if record.differs:
        lines += wrap(safe(f"differs: {'; '.join(record.differs)}"), look.width)
    else:
        lines.append("nothing differs between the sides: an A/A run")
    rules = record.rules
    pairs = f"{record.pairs} pair{'' if record.pairs == 1 else 's'} of launches"
    told = f"{pairs}, seed {record.candidate.fingerprint.seed}; {record.ended}".removesuffix("; ")
    lines += wrap(safe(told), look.width)
    told = (
        f"unless a gate says otherwise: latency at most {format_number(rules.latency_percent)}% "
        f"worse, memory {format_number(rules.memory_percent)}% and "
        f"{format_number(rules.memory_mib)} MiB, cosines at least "
        f"{format_number(rules.cosine, 3)}, everything else equal"
    )
    lines += wrap(told, look.width)
    return lines


def _server_words(side: RunRecord) -> str:
    info = side.info
    words = [info.server or "never started", info.build or "an unknown build", info.model]
    return f"{', '.join(w for w in words if w)}; deployment {side.fingerprint.deployment}"


class _Row(msgspec.Struct, frozen=True):
    """One line of a table; rows that differ in their variants only become one."""

    name: str
    before: str
    after: str
    change: str
    gate: GateResult
    reason: str  # empty of a pass


def _compared_row(gate: GateResult) -> _Row:
    same = gate.outcome == "pass" and gate.estimate is None and gate.expected == gate.observed
    name = _EVERY.sub("", gate.metric)
    if 'against="' in gate.metric:  # a limit on what is a comparison itself
        return _Row(f"{name} {gate.rule}", "", gate.observed, "", gate, _reason(gate))
    return _Row(
        name,
        # the other column has the unit
        gate.expected if same else gate.expected.removesuffix(f" {unit_of(gate.metric)}"),
        _SAME if same and gate.expected else gate.observed,
        _change(gate.estimate),
        gate,
        _reason(gate),
    )


def _limit_row(gate: GateResult, record: AbRecord) -> _Row:
    key = (gate.line, gate.metric, gate.rule, gate.variant)
    other = [g for g in record.baseline.gates if (g.line, g.metric, g.rule, g.variant) == key]
    before = other[0].observed if other else ""
    after = _SAME if before and before == gate.observed else gate.observed
    name = f"{_EVERY.sub('', gate.metric)} {gate.rule}"
    return _Row(name, before, after, "", gate, _reason(gate))


def _reason(gate: GateResult) -> str:
    if gate.outcome == "pass":
        _, _, other = gate.reason.partition("; the baseline side fails it")
        told = [f"the baseline side fails it{other}"] if other else []
        return "; ".join([*told, *(() if gate.estimate is None else gate.estimate.warnings)])
    words = gate.reason
    if gate.why and gate.outcome in ("fail", "inconclusive"):
        words += f"; why it matters: {gate.why}"
    return words


def _change(estimate: Estimate | None) -> str:
    """An estimate in few characters: `+4.1% (1.2, 7)`; above 0 is worse."""
    if estimate is None or estimate.value is None:
        return ""
    words = f"{estimate.value:+.1f}{_unit(estimate)}"
    if estimate.low is None or estimate.high is None:
        return words
    return f"{words} ({format_number(estimate.low, 1)}, {format_number(estimate.high, 1)})"


def _unit(estimate: Estimate) -> str:
    return estimate.unit if estimate.unit == "%" else f" {estimate.unit}".rstrip()


_Merged = dict[tuple[str, ...], tuple[_Row, list[str]]]
"""Rows that came out alike as one, with the variants that they are of."""


def _stacked(merged: _Merged, look: Style) -> list[str]:
    """The rows where there is no room for a table."""
    lines = []
    for row, names in merged.values():
        lines += wrap(safe(f"{','.join(names)} {row.name}"), look.width)
        shown = f"{_outcome(row.gate)}: {row.before or 'nothing'} -> {row.after} {row.change}"
        made = wrap(safe(shown.rstrip()), look.width, "  ")
        lines += [look.paint(part, _colour(row.gate)) for part in made]
        if row.reason:
            lines += wrap(safe(row.reason), look.width, "    ")
    return lines


def _table(title: str, rows: Sequence[_Row], look: Style) -> list[str]:
    merged: _Merged = {}
    for row in rows:
        key = (row.name, row.before, row.after, row.change, row.gate.outcome, row.reason)
        merged.setdefault(key, (row, []))[1].append(row.gate.variant)
    if not merged:
        return []
    if look.width < _MIN_TABLE:
        return _stacked(merged, look)
    variants = list(dict.fromkeys(row.gate.variant for row in rows))
    change = "worse by" if any(row.change for row in rows) else ""
    table = [("", title, "baseline", "candidate", change, "outcome")]
    for row, names in merged.values():
        shown = "all" if len(names) == len(variants) > 1 else ",".join(names)
        texts = (shown, row.name, row.before, row.after, row.change, _outcome(row.gate))
        table.append(tuple(safe(text) for text in texts))  # type: ignore[arg-type]  # six of them
    widths = [max(cells(line[i]) for line in table) for i in range(6)]
    widths[0] = min(widths[0], 12)
    widths[2] = min(widths[2], max(12, look.width // 6))
    widths[3] = min(widths[3], max(12, look.width // 6))
    widths[4] = min(widths[4], 24)
    widths[1] = max(12, min(widths[1], look.width - sum(widths[i] for i in (0, 2, 3, 4, 5)) - 10))
    made = columns(table, widths)
    lines = [look.paint("".join(made[0]).rstrip(), "dim")]
    told: set[str] = set()
    for (row, _), wanted, line in zip(merged.values(), table[1:], made[1:], strict=True):
        above, shown_cells = name_above(wanted, line, widths, look.width)
        text = "".join(shown_cells[:5]) + look.paint(shown_cells[5], _colour(row.gate))
        lines += [*above, text.rstrip()]
        if row.reason and row.reason not in told:
            lines += wrap(safe(row.reason), look.width, "    ")
        told.add(row.reason)
    return lines


def _colour(gate: GateResult) -> str:
    return "yellow" if _advises(gate) else _COLOURS.get(gate.outcome, "red")


def _advises(gate: GateResult) -> bool:
    return gate.level == "advise" and gate.outcome in ("fail", "inconclusive")


def _outcome(gate: GateResult) -> str:
    if _advises(gate):
        return "advises"
    return gate.outcome.upper() if gate.outcome in ("fail", "error", "xpass") else gate.outcome


def _applies(gate: GateResult) -> bool:
    return gate.outcome != "not applicable"


def _not_applicable(gates: Sequence[GateResult], look: Style) -> list[str]:
    found: dict[str, list[str]] = {}
    for gate in gates:
        if not _applies(gate):
            name = f"{gate.variant} {_EVERY.sub('', gate.metric)}"
            found.setdefault(gate.reason, []).append(name)
    lines = ["not applicable:"] if found else []
    for reason, names in found.items():
        shown = "; ".join(names) if len(names) < 4 else f"{len(names)} of them"
        lines += wrap(safe(f"{shown}: {reason}"), look.width, "  ")
    return lines


def _failures(side: Side, record: RunRecord, look: Style) -> list[str]:
    lines = failure_lines(record, look, trial="pair")
    return [f"{side} side:", *lines] if lines else []


def _foot(record: AbRecord, stored: str | None, look: Style) -> list[str]:
    lines = []
    for warning in record.warnings:
        lines += wrap(safe(f"warning: {warning}"), look.width)
    told: dict[str, str] = {}
    for side in SIDES:
        for launch in record.side(side).launches:
            for warning in launch.warnings:
                place = f"{side}, variant {launch.variant}, pair {launch.trial}"
                told.setdefault(warning, place)
    for warning, place in told.items():
        lines += wrap(safe(f"warning: {place}: {warning}"), look.width)
    if stored:
        lines.append(safe(f"run: {stored}"))
    return lines
