"""How much of a run a page shows, so that a large one stays readable and below the size limit."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """The most of each kind; what is left out is said where it would stand."""

    launches: int = 8  # with plots
    bars: int = 80  # requests in a plot of bars
    spans: int = 400  # requests in a plot of slots
    samples: int = 400  # of memory, in a plot
    rows: int = 400  # of a table
    dots: int = 300  # values of one row of a distribution
    lines: int = 60  # of an excerpt from a log
    series: int = 24  # of a history, with a plot

    def halved(self) -> Limits:
        """Half of everything, though never nothing."""
        return Limits(*(max(2, value // 2) for value in msgspec.structs.astuple(self)))


STEPS = 6
"""So often a page that is too large is made anew with half of everything."""
