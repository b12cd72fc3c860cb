"""Percentiles as order statistics, with the interval that holds whatever the distribution; pure.

The value is the inverse of the empirical distribution: of n values in ascending order the one of
rank ceil(q n) (Hyndman and Fan, "Sample quantiles in statistical packages", The American
Statistician 50(4), 1996: type 1), so a value that was seen, and never one between a served request
and one that failed. The interval goes from the value of rank l to that of rank u, where l is the
largest and u the smallest with binomial tails of at most 2.5% each (Conover, "Practical
nonparametric statistics", 3rd ed. 1999, section 3.2): it holds the quantile of what the values were
drawn from with a probability of at least 95%. Where the values are too few, an end does not exist.
"""

from __future__ import annotations

import math

import msgspec

CONFIDENCE = 0.95
METHOD = "order statistic, binomial interval"


class Ranks(msgspec.Struct, frozen=True):
    """Ranks from 1 in ascending order."""

    value: int  # of the quantile itself
    low: int | None  # of the interval's ends; None where the values are too few for one
    high: int | None


def ranks_of(quantile: float, count: int) -> Ranks:
    """The ranks of a quantile and of its interval.

    Args:
        quantile: Above 0 and below 1.
        count: Values, at least 1.

    Raises:
        ValueError: One of them is outside that.
    """
    if not 0 < quantile < 1 or count < 1:
        raise ValueError(f"quantile {quantile} of {count} values")
    # 0.95 * 20 is 19.000000000000004 or so: what is a whole number but for the last digit is one
    value = min(count, max(1, math.ceil(quantile * count - 1e-9 * count)))
    tail = (1 - CONFIDENCE) / 2
    low = _last_at_most(quantile, count, tail)
    high = _last_at_most(1 - quantile, count, tail)
    return Ranks(value, low, None if high is None else count + 1 - high)


def needed(quantile: float) -> int:
    """The fewest values with which the interval of a quantile has an upper end."""
    tail = (1 - CONFIDENCE) / 2
    return math.ceil(math.log(tail) / math.log(quantile) - 1e-9)


def _last_at_most(chance: float, count: int, tail: float) -> int | None:
    """The largest rank r with P(fewer than r of `count` draws, each of `chance`) <= `tail`.

    Summed from the least likely term up in logarithms, so that neither 100,000 values nor a tiny
    chance lose it.
    """
    log_p, log_q = math.log(chance), math.log1p(-chance)
    total = 0.0
    # terms below this lie 12 standard deviations away and add less than the last digit
    far = count * chance - 12 * math.sqrt(count * chance * (1 - chance)) - 12
    first = max(0, int(far))
    for number in range(first, count + 1):
        log_term = (
            math.lgamma(count + 1)
            - math.lgamma(number + 1)
            - math.lgamma(count - number + 1)
            + number * log_p
            + (count - number) * log_q
        )
        total += math.exp(log_term)
        if total > tail:
            return number or None
    return count
