"""How much memory grows with each request of a launch: slopes of what was read beside them."""

from __future__ import annotations

from typing import Literal

from benchsuite.collect.memory_growth import Growth
from benchsuite.collect.process_memory import STATUS
from benchsuite.metrics.catalogue import CATALOGUE, SLOPE, SLOPE_REQUESTS
from benchsuite.model.record import Measurement, Unmeasured
from benchsuite.stats.slopes import slope
from benchsuite.units import MIB


def measure_slopes(
    growth: Growth, variant: str, trial: int, *, observed: bool
) -> list[Measurement | Unmeasured]:
    """The slope of each load step, and without labels that of the launch.

    Args:
        growth: What was read.
        variant: Name of the variant.
        trial: From 1.
        observed: Whether the server's processes can be seen at all.
    """
    found = []
    for step in (None, *(name for name in growth.counted if name)):
        labels = {} if step is None else {"step": step}
        requests = sum(growth.counted.values()) if step is None else growth.counted[step]
        found.append(_measure(growth, step, requests, labels, variant, trial, observed))
    return found


def _measure(
    growth: Growth,
    step: str | None,
    requests: int,
    labels: dict[str, str],
    variant: str,
    trial: int,
    observed: bool,
) -> Measurement | Unmeasured:
    why = ""
    outcome: Literal["not_applicable", "inconclusive"] = "inconclusive"
    if not observed:
        why = "the memory of an attached server cannot be seen over HTTP"
        outcome = "not_applicable"
    elif growth.readable is False:
        why, outcome = "this system does not tell anonymous memory", "not_applicable"
    elif requests < SLOPE_REQUESTS:
        why = f"{requests} requests after warm-up: a slope needs {SLOPE_REQUESTS}"
    if not why:
        points = [p for p in growth.points if step is None or p.step == step]
        fit = slope([p.finished for p in points], [p.anon_bytes / MIB for p in points])
        if fit.value is not None and fit.low is not None and fit.high is not None:
            return Measurement(
                SLOPE,
                fit.value,
                CATALOGUE[SLOPE].unit,
                variant,
                trial,
                labels,
                source=f"{STATUS}, slope of {fit.n} readings over {requests} requests",
                interval=(fit.low, fit.high),
            )
        why = f"no slope can be told: {'; '.join(fit.warnings)}"
    return Unmeasured(SLOPE, variant, why, outcome, trial=trial, labels=labels)
