"""The medians of one launch over its requests, without labels; pure.

The launch is the replicate that verdicts on latency stand on (DESIGN section 7): requests of one
launch share its luck, so that more of them make no more evidence.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchsuite.metrics.catalogue import CATALOGUE, LAUNCH_MEDIANS
from benchsuite.model.record import Measurement

_REQUESTS = (("session", "turn"), ("request",))


def launch_medians(
    measurements: Sequence[Measurement], warm_ups: int, variant: str, trial: int
) -> list[Measurement]:
    """A median for each latency that some turn or complete step was measured with.

    Args:
        measurements: Of one launch; those of load steps are passed over.
        warm_ups: Requests whose latency was left out, for the source.
        variant: Name of the variant.
        trial: From 1.
    """
    found: dict[str, list[float]] = {}
    for m in measurements:
        is_request = tuple(sorted(m.labels)) in _REQUESTS
        if is_request and m.name in LAUNCH_MEDIANS and not isinstance(m.value, str):
            found.setdefault(m.name, []).append(m.value)
    left_out = f", {warm_ups} of warm-up left out" if warm_ups else ""
    return [
        Measurement(
            name,
            _median(values),
            CATALOGUE[name].unit,
            variant,
            trial,
            source=f"median of {len(values)} request{'' if len(values) == 1 else 's'}{left_out}",
        )
        for name, values in found.items()
    ]


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
