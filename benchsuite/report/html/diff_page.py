"""A diff of two sides as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from benchsuite.report.diff import NOISE_PERCENT, Diff, Row, summary
from benchsuite.report.html.blocks import Block, Cell, Listing, Page, Section, Table, Tone, Words
from benchsuite.report.html.limits import Limits
from benchsuite.report.html.page import fitting

_TONES: dict[str, Tone] = {
    "regressed": "bad",
    "changed": "doubt",
    "missing": "doubt",
    "new": "doubt",
    "improved": "good",
}


def render_diff_html(found: Diff) -> str:
    """A diff as an HTML file."""
    return fitting(partial(diff_page, found))


def diff_page(found: Diff, limits: Limits) -> Page:
    """A diff as a page."""
    exact = [row for row in found.rows if not row.noisy]
    noisy = [row for row in found.rows if row.noisy]
    noise = f"Memory and latency, {NOISE_PERCENT:g}% and more apart: advice only"
    sections = [
        Section("changed", "What changed", tuple(_changed(exact, "Changed series", limits))),
        Section("noisy", "Noisy values", tuple(_changed(noisy, noise, limits))),
        Section("differs", "What differs", tuple(_differs(found))),
    ]
    return Page(
        title=f"{found.baseline} -> {found.candidate}",
        kicker="benchsuite diff",
        verdict=Cell(
            "same" if found.is_same else "differs",
            tone="good" if found.is_same else "bad" if found.failed else "doubt",
            aside=summary(found),
        ),
        facts=(("baseline", found.baseline), ("candidate", found.candidate)),
        sections=tuple(section for section in sections if section.blocks),
    )


def _changed(rows: Sequence[Row], caption: str, limits: Limits) -> Iterator[Block]:
    if not rows:
        return
    heads = ("series", "variant", "state", "baseline", "candidate", "what and since when")
    left_out = len(rows) - limits.rows
    yield Table(
        caption,
        heads,
        tuple(_row(row) for row in rows[: limits.rows]),
        f"{left_out:,} more rows: benchsuite diff --json has them all." if left_out > 0 else "",
        cards=True,
    )


def _row(row: Row) -> tuple[Cell, ...]:
    froms = [
        f"{side}: {words}"
        for side, words in (("baseline", row.baseline_from), ("candidate", row.candidate_from))
        if words
    ]
    place = f"{row.deployment}/{row.scenario}" if row.deployment else row.scenario
    state = f"{row.state} {row.change}".strip()
    return (
        Cell(row.series, code=True, aside=place),
        Cell(row.variant),
        Cell(state, sort=row.state, tone=_TONES.get(row.state, "")),
        Cell(row.baseline or "-"),
        Cell(row.candidate or "-"),
        Cell(row.sentence, aside="; ".join([*froms, *row.differs])),
    )


def _differs(found: Diff) -> Iterator[Block]:
    if found.failed:
        yield Words("Launches that failed:", "bad")
        yield Listing(found.failed, "bad")
    if found.differs:
        yield Words("Between the two:")
        yield Listing(found.differs)
    if found.notes:
        yield Words("Notes:")
        yield Listing(found.notes)
