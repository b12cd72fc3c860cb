"""Whether a quantile meets a limit, by its interval; pure."""

from __future__ import annotations

from collections.abc import Callable

from benchsuite.metrics.percentiles import needed, ranks_of
from benchsuite.model.load import StageVerdict


def quantile_meets(
    quantile: str, limit: float, served: int, failed: int, at_rank: Callable[[int], float]
) -> tuple[StageVerdict, str]:
    """Whether a quantile is at most a limit, and in words what was seen.

    It is where the upper end of its interval (`metrics/percentiles.py`) is, it is not where the
    lower end is above, and uncertain where the limit lies between.

    Args:
        quantile: Such as `0.95`.
        limit: In the unit of values.
        served: Values there are.
        failed: Further ones, later than any of them.
        at_rank: The value of a rank from 1 to `served`.
    """
    count = served + failed
    if not count:
        return "uncertain", "nothing was measured"

    def value(rank: int) -> float:
        return at_rank(rank) if rank <= served else float("inf")

    ranks = ranks_of(float(quantile), count)
    low = 0.0 if ranks.low is None else value(ranks.low)
    seen = _short(value(ranks.value))
    if low > limit:
        return "not met", f"{seen}, at least {_short(low)}"
    if ranks.high is None:
        few = needed(float(quantile))
        return "uncertain", f"{seen}, but {count} values are too few to tell ({few} are needed)"
    high = value(ranks.high)
    interval = f"{seen} ({_short(low)}..{_short(high)})"
    return ("met" if high <= limit else "uncertain"), interval


def _short(value: float) -> str:
    return "without end" if value == float("inf") else f"{value:.3g}"
