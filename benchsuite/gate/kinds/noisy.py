"""Memory and latency: medians over launches against a tolerance.

The replicate is the server launch. Until intervals over several launches decide, a comparison
with a baseline only advises, and each says on how many launches it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from benchsuite.gate.kinds.comparison import Comparison, number_of, percent, plural
from benchsuite.metrics.catalogue import Better
from benchsuite.model.record import Value
from benchsuite.model.scenario import Regression
from benchsuite.model.verdict import State
from benchsuite.store.baselines import Sample
from benchsuite.units import format_number, format_value


def median(samples: Sequence[Sample]) -> float:
    """The median of the trials."""
    ordered = sorted(number_of(s) for s in samples)  # `statistics` takes 10 ms to import
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


class NoisyKind:
    """`anon_mib`, `ttft_ms` and their like.

    Memory is judged by the difference of medians, latency by their ratio; both come to a
    relative tolerance and, where the scenario gives one, an absolute one that must be exceeded
    too.
    """

    advises = True

    def __init__(self, assume: Literal["memory", "latency"]) -> None:
        self.assume = assume

    def compare(
        self,
        reference: Sequence[Sample],
        candidate: Sequence[Sample],
        *,
        unit: str,
        better: Better,
        tolerance: Regression | None = None,
    ) -> Comparison:
        """Worse, better or the same, by medians."""
        expected, observed = self.show(reference, unit), self.show(candidate, unit)
        before, after = median(reference), median(candidate)
        worse = before - after if better == "higher" else after - before
        relative = 0.0 if tolerance is None else abs(before) * tolerance.worse_than_percent / 100
        absolute = (tolerance.and_by or 0.0) if tolerance is not None else 0.0
        bound = max(relative, absolute)  # both must be exceeded
        state: State = "regressed" if worse > bound else "improved" if -worse > bound else "same"
        counts = launches(len(reference), len(candidate))
        change = f"{format_number(before)} to {format_value(after, unit)}{percent(before, after)}"
        if state == "same":
            words = f"from {change}" if worse else f"stayed at {format_value(after, unit)}"
            sentence = f"{words}, within tolerance ({counts})"
        else:
            sentence = f"{state} from {change}, more than {format_value(bound, unit)} ({counts})"
        return Comparison(state, state != "regressed", expected, observed, sentence)

    def equals(self, samples: Sequence[Sample], wanted: Value) -> bool:
        """The median equals it."""
        return median(samples) == wanted

    def holds_limits(
        self, samples: Sequence[Sample], low: float | None, high: float | None
    ) -> bool:
        """The median keeps them."""
        middle = median(samples)
        return (low is None or middle >= low) and (high is None or middle <= high)

    def show(self, samples: Sequence[Sample], unit: str) -> str:
        """The median."""
        return format_value(median(samples), unit)


def launches(reference: int, candidate: int) -> str:
    """On how many launches a comparison stands, with the warning that goes with it."""
    if reference == candidate:
        return f"{plural(reference, 'launch')} a side: advice only"
    return f"{plural(candidate, 'launch')} against {reference}: advice only"
