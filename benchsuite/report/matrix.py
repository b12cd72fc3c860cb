"""What the gates look at, side by side: a row for each measurement, a column for each variant.

Noisy values are left out: they are told with their baselines, and differ always.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchsuite.gate.kinds import KINDS
from benchsuite.gate.seen import Seen, Series
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.metrics.select import Selector, parse_selector
from benchsuite.model.record import RunRecord
from benchsuite.report.layout import Style, cells, columns, cut, fitting, safe
from benchsuite.units import format_number

_MOST_ROWS = 24
_MOST_LABEL = 34
_DIFFERS = " *"
_NOTHING = "-"
_WORST = ("error", "fail", "xpass", "inconclusive", "xfail", "pass")
_SHORT = {"inconclusive": "open"}
_SHOUTED = ("error", "fail", "xpass")


def matrix_rows(record: RunRecord) -> tuple[list[str], list[tuple[str, Sequence[str]]]]:
    """The variants and the rows of the matrix, that of the gates first.

    No rows where the run had one variant, or no gate looks at an exact value.
    """
    seen = Seen(record)
    variants = [v for v in record.digests if v in seen.variants()]
    selectors = _selectors(record)
    if len(variants) < 2 or not selectors:
        return variants, []
    made = (row for selector in selectors for row in _rows(seen, selector, variants))
    # what several gates select is one row
    rows = list(dict.fromkeys((label, tuple(row)) for label, row in made))
    if not rows:
        return variants, []
    return variants, [("gates", [_worst(record, seen, v) for v in variants]), *rows]


def matrix_lines(record: RunRecord, look: Style) -> list[str]:
    """The matrix as text; nothing where it has no rows."""
    variants, rows = matrix_rows(record)
    if not rows:
        return []
    left_out = len(rows) - 1 - _MOST_ROWS
    rows = rows[: _MOST_ROWS + 1]
    lines = _table(variants, rows, look)
    if left_out > 0:
        lines.append(f"and {left_out} more rows, in the run's record")
    if any(cell.endswith(_DIFFERS) for _, row in rows for cell in row):
        lines.append(look.paint(f"*: differs from {variants[0]}", "dim"))
    return lines


def _table(
    variants: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]], look: Style
) -> list[str]:
    label_width = min(_MOST_LABEL, max(cells(safe(label)) for label, _ in rows))
    widths = [
        max(cells(safe(name)), *(cells(row[i]) for _, row in rows))
        for i, name in enumerate(variants)
    ]
    lines: list[str] = []
    for part in fitting(widths, look.width - label_width):
        table = [("matrix", *(safe(name) for name in variants[part]))]
        table += [(safe(label), *row[part]) for label, row in rows]
        made = columns(table, (label_width, *widths[part]))
        text = [cut("".join(row).rstrip(), look.width) for row in made]
        lines += [look.paint(text[0], "dim"), *text[1:]]
    return lines


def _selectors(record: RunRecord) -> list[Selector]:
    """What the gates select, each once, in their order; exact, quantised and text only."""
    found = []
    for text in dict.fromkeys(gate.metric for gate in record.gates):
        try:
            selector = parse_selector(text)
        except ValueError:  # a record is read from a file, and must be shown whatever it holds
            continue
        if selector.name in CATALOGUE and not _is_noisy(selector.name):
            found.append(selector)
    return found


def _is_noisy(name: str) -> bool:
    return CATALOGUE[name].assume in ("memory", "latency")


def _rows(
    seen: Seen, selector: Selector, variants: Sequence[str]
) -> list[tuple[str, Sequence[str]]]:
    """The rows of one selector: one for each series, but one for all texts."""
    by_variant = [{s.text: s for s in seen.select(v, selector)} for v in variants]
    texts = dict.fromkeys(text for rows in by_variant for text in rows)
    if not texts:
        return []
    if CATALOGUE[selector.name].assume == "text":
        return [(_all_label(selector, len(texts)), _text_cells(by_variant))]
    rows: list[tuple[str, Sequence[str]]] = []
    for text in texts:
        series = [own.get(text) for own in by_variant]
        first = next(s for s in series if s is not None)
        rows.append((_label(first), _value_cells(series)))
    return rows


def _value_cells(series: Sequence[Series | None]) -> list[str]:
    reference = series[0]
    made = []
    for one in series:
        if one is None:
            made.append(_NOTHING)
            continue
        shown = _shown(one)
        differs = reference is not None and not _same(reference, one)
        made.append(shown + (_DIFFERS if differs else ""))
    return made


def _same(reference: Series, other: Series) -> bool:
    kind = KINDS[CATALOGUE[other.name].assume]
    found = kind.compare(reference.samples, other.samples, unit="", better="equal")
    return found.state == "same"


def _shown(series: Series) -> str:
    """The value on which all trials agree, else the first and how many others there are."""
    values = list(dict.fromkeys(s.value for s in series.samples))
    first = values[0]
    text = first if isinstance(first, str) else format_number(first)
    return text if len(values) == 1 else f"{text} +{len(values) - 1}"


def _text_cells(by_variant: Sequence[dict[str, Series]]) -> list[str]:
    reference = by_variant[0]
    made = []
    for i, own in enumerate(by_variant):
        if not own:
            made.append(_NOTHING)
            continue
        alike = [
            text for text, one in own.items() if text in reference and _same(reference[text], one)
        ]
        if i == 0 or not reference:
            made.append(str(len(own)))
        elif len(alike) == max(len(own), len(reference)):
            made.append("same")
        else:
            made.append(f"{len(alike)} same{_DIFFERS}")
    return made


def _label(series: Series) -> str:
    """A series in few characters: `cached_tokens B turn 2`."""
    labels = dict(series.labels)
    words = [series.name]
    if "session" in labels:
        words.append(labels.pop("session"))
    if "turn" in labels:
        words.append(f"turn {labels.pop('turn')}")
    return " ".join([*words, *labels.values()])


def _all_label(selector: Selector, count: int) -> str:
    return f"{selector.name}, {count} of them" if count > 1 else selector.name


def _worst(record: RunRecord, seen: Seen, variant: str) -> str:
    """The worst outcome of the gates that block in a variant."""
    if seen.not_applicable(variant) is not None:
        return "n/a"
    found = [g.outcome for g in record.gates if g.variant == variant and g.level == "block"]
    for outcome in _WORST:
        if outcome in found:
            return outcome.upper() if outcome in _SHOUTED else _SHORT.get(outcome, outcome)
    return _NOTHING
