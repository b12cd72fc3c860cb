"""Latency and throughput: the ratio of launches against a tolerance (DESIGN section 7).

Launches of a run are not paired with those of a stored baseline, so they are compared unpaired;
interleaved pairs are what `ab` makes, and are judged by `benchsuite.stats.paired.look`.
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
from benchsuite.stats.ratios import Look
from benchsuite.stats.unpaired import compare_unpaired
from benchsuite.store.baselines import Sample
from benchsuite.units import format_number


class LatencyKind(NoisyKind):
    """`ttft_ms`, `decode_tokens_per_second` and their like."""

    def compare(
        self,
        reference: Sequence[Sample],
        candidate: Sequence[Sample],
        *,
        unit: str,
        better: Better,
        tolerance: Regression | None = None,
    ) -> Comparison:
        """Worse beyond the tolerance, within it, or inconclusive.

        Without a tolerance the state is only the direction in which the median moved.
        """
        expected, observed = self.show(reference, unit), self.show(candidate, unit)
        percent = effective_percent(tolerance, numbers(reference))
        quantum = max((s.quantum for s in (*reference, *candidate)), default=0.0)
        look = compare_unpaired(
            numbers(reference),
            numbers(candidate),
            tolerance_percent=percent,
            better=better,
            quantum=quantum,
        )
        estimate = with_outliers(look.estimate, reference, candidate)
        change = change_words(reference, candidate, unit)
        counts = launches(len(reference), len(candidate))
        if tolerance is None:
            before, after = median(reference), median(candidate)
            worse = after < before if better == "higher" else after > before
            state: State = "same" if before == after else "regressed" if worse else "improved"
            sentence = f"{'from' if state == 'same' else f'{state} from'} {change} ({counts})"
        else:
            state = state_of(look, percent)
            span = span_words(estimate)
            words = {
                "regressed": f"regressed from {change}, more than {format_number(percent)}%",
                "improved": f"improved from {change}",
                "same": f"from {change}, within tolerance",
            }.get(state, f"went from {change}, and nothing is certain")
            if span:
                why = f"{span} worse; {counts}"
            else:
                why = counts if len(reference) != len(candidate) else ""
                why = "; ".join([*([why] if why else []), *estimate.warnings[:1]])
            sentence = f"{words} ({why})"
        holds = state in ("same", "improved")
        return Comparison(state, holds, expected, observed, sentence, estimate, advises=True)


def effective_percent(tolerance: Regression | None, baseline: Sequence[float]) -> float:
    """The tolerance in percent; one in the metric's unit too is turned into percent of the
    baseline's median, and the larger counts, since both must be exceeded."""
    if tolerance is None:
        return 0.0
    usable = [Sample(v) for v in baseline if v > 0]
    if not tolerance.and_by or not usable:
        return tolerance.worse_than_percent
    return max(tolerance.worse_than_percent, tolerance.and_by / median(usable) * 100)


def state_of(look: Look, tolerance_percent: float) -> State:
    """A look as a state: `improved` is wholly better by more than the tolerance."""
    if look.decision == "worse":
        return "regressed"
    if look.decision == "undecided":
        return "inconclusive"
    high = look.estimate.high
    return "improved" if high is not None and high < -tolerance_percent else "same"
