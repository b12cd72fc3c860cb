"""What a number of pairs can find on a machine as noisy as some A/A pairs show; pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchsuite.stats.numbers import TINY_SPREAD, finite
from benchsuite.stats.paired import confidence_at
from benchsuite.stats.ratios import percent_worse, t_quantile


def smallest_found(
    log_ratios: Sequence[float],
    pairs: int,
    *,
    power: float = 0.8,
    tolerance_percent: float = 0.0,
) -> float:
    """The smallest slow-down that one look at so many pairs calls worse with this power.

    The power of the t test with the spread of the ratios at hand: the noncentrality at which the
    lower end of the interval at that look lies above the tolerance with that probability (Cohen,
    "Statistical Power Analysis for the Behavioral Sciences", 1988, chapter 2).

    Args:
        log_ratios: Of A/A pairs, at least 2 finite ones that differ; others are left out.
        pairs: Pairs of the comparison to come, at least 2.
        power: Between 0.025 and 1.
        tolerance_percent: Of the gate; 0 asks what is told from no change at all.

    Returns:
        Percent slower, more than `tolerance_percent`; infinite where it cannot be told.
    """
    ratios = [r for r in log_ratios if finite(r)]
    if len(ratios) < 2 or pairs < 2 or not 0.025 < power < 1:
        return math.inf
    mean = math.fsum(ratios) / len(ratios)
    spread = math.sqrt(math.fsum((r - mean) ** 2 for r in ratios) / (len(ratios) - 1))
    if not TINY_SPREAD < spread < math.inf:
        return math.inf
    from scipy.special import nctdtrinc  # numpy and scipy take half a second

    critical = t_quantile(confidence_at(pairs), pairs - 1)
    shift = float(nctdtrinc(pairs - 1, 1 - power, critical))
    bound = math.log1p(max(0.0, tolerance_percent) / 100)
    found = bound + shift * spread / math.sqrt(pairs)
    return percent_worse(found, "lower") if math.isfinite(found) else math.inf
