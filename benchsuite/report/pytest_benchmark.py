"""Times of runs as the JSON of pytest-benchmark, whose `compare` reads it.

That tool knows seconds only, so metrics in ms are exported and nothing else: memory shown as a
time would be a lie. Fields as its `Stats.as_dict` and `--benchmark-json` write them (5.3).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import msgspec

from benchsuite.report.report_input import ReportInput
from benchsuite.report.series import Series, number_series

_SECONDS = {"ms": 1e-3, "s": 1.0}  # unit -> seconds

FORMAT_VERSION = "5.3.1"
"""Of pytest-benchmark, whose files these are like."""


def render_pytest_benchmark(given: ReportInput) -> str:
    """One benchmark a series of times, each trial a round."""
    times = [one for one in number_series(given) if one.unit in _SECONDS]
    first = given.parts[0].record if given.parts else None
    content = {
        "machine_info": {} if first is None else _machine(first.fingerprint.machine),
        "commit_info": {} if first is None else _commit(first.info.commit),
        "benchmarks": [_benchmark(one) for one in times],
        "datetime": "" if first is None else first.started_at,
        "version": FORMAT_VERSION,
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode() + "\n"


def _machine(name: str | None) -> dict[str, Any]:
    return {"node": name or "unknown", "machine": name or "unknown"}


def _commit(commit: str | None) -> dict[str, Any]:
    return {"id": commit or "unknown", "dirty": False, "project": "benchsuite"}


def _benchmark(one: Series) -> dict[str, Any]:
    record = one.part.record
    return {
        "group": one.place,
        "name": one.name,
        "fullname": f"{one.place}::{one.name}",
        "params": None,
        "param": None,
        "extra_info": {
            "run": one.part.run,
            "scenario": record.scenario,
            "deployment": record.fingerprint.deployment,
            "variant": one.variant,
            "metric": one.metric,
            "labels": one.labels,
            "build": record.info.build,
            "verdict": None if record.verdict is None else record.verdict.outcome,
        },
        "options": {},
        "stats": _stats([value * _SECONDS[one.unit] for value in one.values]),
    }


def _stats(data: Sequence[float]) -> dict[str, Any]:
    """Seconds in the words of pytest-benchmark; a single round has no spread, which it calls 0."""
    ordered = sorted(data)
    mean, middle = statistics.fmean(ordered), statistics.median(ordered)
    deviation = statistics.stdev(ordered) if len(ordered) > 1 else 0
    half = len(ordered) // 2
    q1 = statistics.median(ordered[:half]) if half else middle
    q3 = statistics.median(ordered[-half:]) if half else middle
    low, high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)
    far = sum(1 for value in ordered if not low <= value <= high)
    wide = sum(1 for value in ordered if abs(value - mean) > deviation) if deviation else 0
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "mean": mean,
        "stddev": deviation,
        "rounds": len(ordered),
        "median": middle,
        "iqr": q3 - q1,
        "q1": q1,
        "q3": q3,
        "iqr_outliers": far,
        "stddev_outliers": wide,
        "outliers": f"{wide};{far}",
        "ld15iqr": min((v for v in ordered if v >= low), default=ordered[0]),
        "hd15iqr": max((v for v in ordered if v <= high), default=ordered[-1]),
        "ops": 1 / mean if mean else 0,
        "total": sum(ordered),
        "data": list(data),
        "iterations": 1,
    }
