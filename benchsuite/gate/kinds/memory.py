"""Memory: the difference of medians over fresh launches (DESIGN section 7).

Worse only if both tolerances are exceeded and, with 5 or more launches a side, the interval's
lower end is above zero. It blocks with 3 or more launches on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchsuite.gate.kinds.comparison import Comparison
from benchsuite.gate.kinds.noisy import (
    NoisyKind,
    change_words,
    launches,
    median,
    numbers,
    span_words,
    with_outliers,
)
from benchsuite.metrics.metric import Better
from benchsuite.model.scenario import Regression
from benchsuite.model.verdict import State
from benchsuite.stats.medians import difference_of_medians
from benchsuite.store.baselines import Sample
from benchsuite.units import MIB, format_value

BLOCKING_LAUNCHES = 3
"""On each side, from which a comparison blocks."""

ADVICE_ONLY = ": advice only"
"""Behind the counts of launches where they are too few to block."""

_PAGE_MIB = 4096 / MIB
"""The kernel counts memory in pages, of 4 KiB or more (proc(5), getpagesize(2))."""


class MemoryKind(NoisyKind):
    """`anon_mib`, `rss_mib` and their like."""

    blocks_from = BLOCKING_LAUNCHES
    certain = False  # whether a difference needs no interval to be believed

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
            quantum=max(
                (s.quantum for s in (*reference, *candidate)),
                default=0.0,
            )
            or (_PAGE_MIB if unit == "MiB" else 0.0),
        )
        estimate = with_outliers(estimate, reference, candidate)
        few = min(estimate.baseline_n, estimate.candidate_n) < self.blocks_from
        counts = launches(len(reference), len(candidate)) + (ADVICE_ONLY if few else "")
        if estimate.value is None:
            lacking = "neither side has" if expected == observed else "one side has not"
            sentence = f"{expected} against {observed}: {lacking} a value to compare ({counts})"
            return Comparison("inconclusive", False, expected, observed, sentence, estimate, few)
        lost = len(reference) + len(candidate) - estimate.baseline_n - estimate.candidate_n
        bound = bound_of(tolerance, median(reference))
        change = change_words(reference, candidate, unit)
        state: State = "same"
        if abs(estimate.value) > bound:
            state = "regressed" if estimate.value > 0 else "improved"
            if better == "equal":  # neither direction is better
                state = "changed"
        touches_zero = (
            not self.certain
            and estimate.low is not None
            and estimate.high is not None
            and estimate.low <= 0 <= estimate.high
        )
        worse = state in ("regressed", "changed")
        if worse and touches_zero:
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
        if lost and state not in ("regressed", "changed"):  # what could not be read is no pass
            state = "inconclusive"
            sentence = (
                f"went from {change}; {lost} of {len(reference) + len(candidate)} values cannot be "
                f"used (missing, not finite or not above 0), so nothing is certain ({counts})"
            )
        holds = state in ("same", "improved")
        return Comparison(state, holds, expected, observed, sentence, estimate, few)


class TolerantKind(MemoryKind):
    """Exact and quantised values within a scenario's tolerance: one launch is enough."""

    blocks_from = 1
    certain = True


def bound_of(tolerance: Regression | None, before: float) -> float:
    """What must be exceeded, in the metric's unit: the larger of both tolerances."""
    if tolerance is None:
        return 0.0
    relative = abs(before) * tolerance.worse_than_percent / 100
    return max(relative, tolerance.and_by or 0.0)
