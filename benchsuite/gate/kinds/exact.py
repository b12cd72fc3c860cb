"""Exact values: equal or not, in both directions: a better count often means a broken setup."""

from __future__ import annotations

from collections.abc import Sequence

from benchsuite.gate.kinds.comparison import (
    Comparison,
    number_of,
    percent,
    show_each,
    trials_apart,
)
from benchsuite.metrics.catalogue import Better
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
        expected, observed = self.show(reference, unit), self.show(candidate, unit)
        wanted = reference[0].value
        if any(s.value != wanted for s in reference):
            sentence = f"the reference's own trials disagree ({expected}), so nothing can be said"
            return Comparison("inconclusive", False, expected, observed, sentence)
        off = [s for s in candidate if s.value != wanted]
        if not off:
            return Comparison("same", True, expected, observed, "equal")
        apart = trials_apart(len(off), len(candidate))
        change = percent(number_of(reference[0]), number_of(off[0]))
        sentence = f"changed{apart} from {expected} to {self.show(off, unit)}{change}"
        return Comparison("changed", False, expected, observed, sentence)

    def equals(self, samples: Sequence[Sample], wanted: Value) -> bool:
        """Every trial equals it."""
        return all(s.value == wanted for s in samples)

    def holds_limits(
        self, samples: Sequence[Sample], low: float | None, high: float | None
    ) -> bool:
        """Every trial keeps them."""
        numbers = [number_of(s) for s in samples]
        return all((low is None or n >= low) and (high is None or n <= high) for n in numbers)

    def show(self, samples: Sequence[Sample], unit: str) -> str:
        """One value where the trials agree, else each."""
        return show_each(samples, unit)
