"""Distributions of latencies, the baseline's beside the candidate's."""

from __future__ import annotations

from collections.abc import Iterator

from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.report.html import plots
from benchsuite.report.html.blocks import Block, Cell, Chart, Table
from benchsuite.report.html.limits import Limits
from benchsuite.report.html.series import Dots, quantile


def latency_blocks(dots: dict[str, list[Dots]], prefix: str, limits: Limits) -> Iterator[Block]:
    """A plot for each latency.

    Args:
        dots: Latency -> its values by variant and side.
        prefix: Of the plots' names.
        limits: How much is shown.
    """
    for name, rows in dots.items():
        if not rows:
            continue
        plot = f"{prefix}latency-{name.replace('_', '-')}"
        unit = CATALOGUE[name].unit
        note = ""
        drawn = []
        for row in rows:
            values = row.values
            if len(values) > limits.dots:
                step = len(values) / limits.dots
                ordered = sorted(values)
                values = tuple(ordered[int(i * step)] for i in range(limits.dots))
                note = f"Of more than {limits.dots} values every n-th by size is drawn."
            drawn.append((plots.label(f"{row.variant} {row.side}"), row.side, values))
        table = tuple(
            (
                Cell(row.variant),
                Cell(row.side),
                Cell(f"{len(row.values):,}", sort=len(row.values)),
                *(
                    Cell(f"{value:,.2f}", sort=value)
                    for share in (0.0, 0.25, 0.5, 0.75, 1.0)
                    for value in (quantile(row.values, share),)
                ),
            )
            for row in rows
        )
        says = "; ".join(
            f"{row.variant} {row.side}: median {quantile(row.values, 0.5):,.2f} {unit}"
            for row in rows[:12]
        )
        if not any(row.side == "baseline" for row in rows):
            note = f"{note} No baseline of this machine to compare with.".strip()
        heads = ("variant", "side", "requests", "lowest", "25%", "median", "75%", "highest")
        yield Chart(
            plot,
            f"{name} of requests, {unit}",
            says,
            plots.dots(plot, drawn, unit),
            Table(f"{name} by variant, {unit}", heads, table),
            note,
        )
