"""Values far from the others: flagged, and kept by everything that computes; pure.

The modified z-score 0.6745 (x - median) / MAD beyond 3.5 (Iglewicz and Hoaglin, "How to Detect and
Handle Outliers", ASQC 1993, section 3.3). Where more than half of the values are equal the MAD is
0, and the mean absolute deviation takes its place: (x - median) / (1.253314 MeanAD).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchsuite.stats.numbers import NEEDED, finite, median

_FAR = 3.5


def outliers(values: Sequence[float]) -> tuple[int, ...]:
    """The indices of outliers, ascending.

    Values that are missing or not finite are no outliers, and not counted. Of fewer than 5 none is
    told from the others; of equal ones none is.
    """
    kept = [v for v in values if finite(v)]
    if len(kept) < NEEDED:
        return ()
    middle = median(kept)
    distances = [abs(v - middle) for v in kept]
    unit = median(distances) / 0.6745
    if unit == 0:
        unit = 1.253314 * math.fsum(d / len(distances) for d in distances)
    if unit == 0 or not math.isfinite(unit):
        return ()
    return tuple(i for i, v in enumerate(values) if finite(v) and abs(v - middle) / unit > _FAR)
