"""Memory: the difference of medians over fresh launches (DESIGN section 7).

Worse only if both tolerances are exceeded and, with 5 or more launches a side, the interval's
lower end is above zero. It blocks with 3 or more launches on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchsuite.gate.kinds.comparison import Comparison, number_of
from benchsuite.gate.kinds.noisy import (
    NoisyKind,
    change_words,
    launches,
    median,
    numbers,
    span_words,
    with_outliers,
)
from benchsuite.metrics.catalogue import Better
from benchsuite.model.scenario import Regression
from benchsuite.model.verdict import State
from benchsuite.stats.medians import difference_of_medians
from benchsuite.stats.numbers import finite
from benchsuite.store.baselines import Sample
from benchsuite.units import format_value

BLOCKING_LAUNCHES = 3
"""On each side, from which a comparison blocks."""


class MemoryKind(NoisyKind):
    """`anon_mib`, `rss_mib` and their like."""

    def compare(
        self,
        reference: Sequence[Sample],
        candidate: Sequence[Sample],
        *,
        unit: str,
        better: Better,
        tolerance: Regression | None = None,
    ) -> Comparison:
        """Worse, better or the same, by medians; inconclusive where the noise is too great."""
        expected, observed = self.show(reference, unit), self.show(candidate, unit)
        estimate = difference_of_medians(
            numbers(reference),
            numbers(candidate),
            better=better,
            unit=unit,
        )
        estimate = with_outliers(estimate, reference, candidate)
        few = min(estimate.baseline_n, estimate.candidate_n) < BLOCKING_LAUNCHES
        counts = launches(len(reference), len(candidate)) + (": advice only" if few else "")
        if estimate.value is None:
            sentence = f"{expected} against {observed}: one side has no value to compare ({counts})"
            return Comparison("inconclusive", False, expected, observed, sentence, estimate, few)
        lost = len(reference) + len(candidate) - estimate.baseline_n - estimate.candidate_n
        bound = bound_of(tolerance, median([s for s in reference if finite(number_of(s))]))
        change = change_words(reference, candidate, unit)
        state: State = "same"
        if abs(estimate.value) > bound:
            state = "regressed" if estimate.value > 0 else "improved"
        touches_zero = (
            estimate.low is not None
            and estimate.high is not None
            and estimate.low <= 0 <= estimate.high
        )
        if state == "regressed" and touches_zero:
            state = "inconclusive"
            sentence = (
                f"went from {change}, more than {format_value(bound, unit)}, but the launches vary "
                f"so much that it may be nothing ({span_words(estimate)}; {counts})"
            )
        elif state == "same" or touches_zero:
            state = "same"
            words = f"from {change}" if estimate.value else f"stayed at {observed}"
            sentence = f"{words}, within tolerance ({counts})"
        else:
            sentence = f"{state} from {change}, more than {format_value(bound, unit)} ({counts})"
        if lost and state != "regressed":  # what could not be read is no pass
            state = "inconclusive"
            sentence = f"{sentence}; {lost} of the values cannot be used, so nothing is certain"
        holds = state in ("same", "improved")
        return Comparison(state, holds, expected, observed, sentence, estimate, few)


def bound_of(tolerance: Regression | None, before: float) -> float:
    """What must be exceeded, in the metric's unit: the larger of both tolerances."""
    if tolerance is None:
        return 0.0
    relative = abs(before) * tolerance.worse_than_percent / 100
    return max(relative, tolerance.and_by or 0.0)
