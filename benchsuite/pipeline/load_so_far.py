"""Figures of a load that was cut before its end, in words: they are no measurements."""

from __future__ import annotations

from benchsuite.collect.load import measure_load
from benchsuite.collect.watch import Watch
from benchsuite.drive.served import Load
from benchsuite.metrics.catalogue import LOAD_SPANS
from benchsuite.metrics.select import format_series
from benchsuite.model.record import Measurement, Unmeasured
from benchsuite.pipeline.load_percentiles import measure_percentiles
from benchsuite.pipeline.memory_slope import measure_slopes, measure_speeds
from benchsuite.units import format_number


def figures_so_far(load: Load, watch: Watch) -> tuple[str, ...]:
    """What a load had come to, a figure each: `late_anon_mib_per_request 0.001 MiB (0..0.002)`.

    Args:
        load: Cut by an interruption or a fault.
        watch: Has seen its requests.
    """
    if load.tally.is_empty:
        return ()
    found: list[Measurement | Unmeasured] = []
    if not load.stage:  # first, for they are what a long load is for
        slopes = measure_slopes(watch.growth, "", 1, observed=watch.sees_memory)
        found += [one for one in slopes if one.labels.get("step") == load.name]
        speeds = measure_speeds(watch.speeds, "", 1)
        found += [one for one in speeds if one.labels.get("step") == load.name]
    found += [one for one in measure_load(load, "", 1)[0] if one.name not in LOAD_SPANS]
    found += measure_percentiles(load, "", 1)
    return tuple(_words(one) for one in found if isinstance(one, Measurement))


def _words(one: Measurement) -> str:
    labels = {key: one.labels[key] for key in ("quantile",) if key in one.labels}
    words = f"{format_series(one.name, labels)} {_number(one.value)} {one.unit}".rstrip()
    if one.interval is None:
        return words
    return f"{words} ({' to '.join(map(_number, one.interval))})"


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else format_number(value)
