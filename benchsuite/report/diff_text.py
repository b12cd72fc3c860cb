"""A diff as text for people, as Markdown for pull requests, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchsuite.report.diff import NOISE_PERCENT, Diff, Row, summary
from benchsuite.report.layout import Style, cells, columns, cut, name_above, safe, wrap
from benchsuite.report.markdown import escape

_SENTENCES = 12  # of each origin; the table has them all


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
    for heading, sentences in explained(exact):
        lines.append("")
        lines += [line for text in sentences for line in wrap(safe(text), look.width)]
        lines += [line for text in heading for line in wrap(safe(text), look.width, "  ")]
    told, differs = _untold(found)
    if differs:
        lines += ["", "what else differs:" if told else "what differs:"]
        lines += [line for d in differs for line in wrap(safe(d), look.width, "  ")]
    lines += [line for note in found.notes for line in wrap(f"note: {safe(note)}", look.width)]
    lines += [line for words in found.failed for line in wrap(safe(words), look.width)]
    colour = "green" if found.is_same else "red"
    lines += ["", look.paint(summary(found), colour)]
    return "\n".join(lines) + "\n"


def render_diff_markdown(found: Diff) -> str:
    """A diff as a Markdown table with a newline at its end."""
    lines = [f"**{escape(found.baseline)} -> {escape(found.candidate)}**: {summary(found)}"]
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
            lines.append("| " + " | ".join(escape(part) for part in parts) + " |")
    for heading, sentences in explained([row for row in found.rows if not row.noisy]):
        lines.append("")
        lines += [f"- {escape(text)}" for text in sentences]
        lines += [f"  - {escape(text)}" for text in heading]
    _, differs = _untold(found)
    last = (*differs, *found.notes, *found.failed)
    lines += [""] if last else []
    lines += [f"- {escape(words)}" for words in last]
    return "\n".join(lines) + "\n"


def render_diff_json(found: Diff) -> bytes:
    """A diff as indented JSON with a newline at its end."""
    content = {**msgspec.to_builtins(found), "is_same": found.is_same}
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def _untold(found: Diff) -> tuple[set[str], list[str]]:
    """What differs as the sentences on what moved tell it, and what they do not tell."""
    told = {words for row in found.rows if not row.noisy for words in row.differs}
    return told, [words for words in found.differs if words not in told]


def explained(rows: Sequence[Row]) -> list[tuple[list[str], list[str]]]:
    """What moved in sentences, those of one origin together.

    Returns:
        For each origin: where the two values come from and what differs, then the sentences.
    """
    groups: dict[tuple[str, str, tuple[str, ...]], dict[tuple[str, str, str], list[str]]] = {}
    for row in rows:
        alike = groups.setdefault((row.baseline_from, row.candidate_from, row.differs), {})
        place = f"{row.deployment}/{row.scenario}" if row.deployment else row.scenario
        alike.setdefault((place, row.series, row.sentence), []).append(row.variant)
    found = []
    for (before, after, differs), alike in groups.items():
        sentences = [
            f"{place}, variant {', '.join(dict.fromkeys(variants))}: {series} {sentence}"
            for (place, series, sentence), variants in alike.items()
        ]
        if len(sentences) > _SENTENCES:
            more = len(sentences) - _SENTENCES
            sentences = [*sentences[:_SENTENCES], f"and {more} more, in the table"]
        heading = [f"baseline: {before}"] if before else []
        heading += [f"candidate: {after}"] if after else []
        heading += [f"with {', '.join(differs)}"] if differs else []
        found.append((heading, sentences))
    return found


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
