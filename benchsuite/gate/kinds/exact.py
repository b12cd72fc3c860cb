"""Exact values: equal or not, in both directions: a better count often means a broken setup."""

from __future__ import annotations

from collections.abc import Sequence

from benchsuite.gate.kinds.comparison import (
    Comparison,
    Limits,
    compare_steady,
    held,
    number_of,
    show_each,
)
from benchsuite.metrics.metric import Better
from benchsuite.model.record import Value
from benchsuite.model.scenario import Regression
from benchsuite.store.baselines import Sample


class ExactKind:
    """Counts: `cached_tokens`, `slot`, `kv_cells`."""

    advises = False

    def compare(
        self,
        reference: Sequence[Sample],
        candidate: Sequence[Sample],
        *,
        unit: str,
        better: Better,
        tolerance: Regression | None = None,
    ) -> Comparison:
        """Every trial must equal the one value on which the reference's trials agree."""
        return compare_steady(reference, candidate, unit, lambda a, b: a.value == b.value)

    def equals(self, samples: Sequence[Sample], wanted: Value) -> bool:
        """Every trial equals it."""
        return all(s.value == wanted for s in samples)

    def limits(
        self, samples: Sequence[Sample], low: float | None, high: float | None, unit: str = ""
    ) -> Limits:
        """Every trial keeps them."""
        numbers = [number_of(s) for s in samples]
        return held(all((low is None or n >= low) and (high is None or n <= high) for n in numbers))

    def show(self, samples: Sequence[Sample], unit: str) -> str:
        """One value where the trials agree, else each."""
        return show_each(samples, unit)
