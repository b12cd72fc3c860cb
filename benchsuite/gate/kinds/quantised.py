"""Values read from rounded print: equal as far as their print quanta allow to tell.

A healthy server prints K 6.38 and V 6.38 beside 12.75 (llama-server, build 10434): a sum of
k printed terms is off by at most k times half a quantum.
"""

from __future__ import annotations

import math
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

_SLACK = 1e-9  # of the values' size: sums of decimals are not exact in binary


def agree(a: Sample, b: Sample) -> bool:
    """Whether two printed values can stand for the same number: |a-b| <= q/2 (k_a + k_b)."""
    left, right = number_of(a), number_of(b)
    if not (math.isfinite(left) and math.isfinite(right)):
        return False  # no size of anything
    bound = (a.quantum * a.terms + b.quantum * b.terms) / 2
    return abs(left - right) <= bound + _SLACK * max(1.0, abs(left), abs(right))


class QuantisedKind:
    """Sizes from the log: `kv_mib`, `rs_mib`."""

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
        """Every trial must agree with the one value on which the reference's trials agree."""
        return compare_steady(reference, candidate, unit, agree)

    def equals(self, samples: Sequence[Sample], wanted: Value) -> bool:
        """Every trial agrees with it."""
        return all(agree(s, Sample(wanted)) for s in samples)

    def limits(
        self, samples: Sequence[Sample], low: float | None, high: float | None, unit: str = ""
    ) -> Limits:
        """Every trial keeps them, as far as its print can tell."""
        return held(
            all(
                (low is None or number_of(s) >= low or agree(s, Sample(low)))
                and (high is None or number_of(s) <= high or agree(s, Sample(high)))
                for s in samples
            )
        )

    def show(self, samples: Sequence[Sample], unit: str) -> str:
        """One value where the trials agree, else each."""
        return show_each(samples, unit)
