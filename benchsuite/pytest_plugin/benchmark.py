"""What a run measured in time, handed to pytest-benchmark where a session has it.

pytest-benchmark has no call for values that others took, so its own record type is filled, and
added to its session: they are then shown, saved and compared as those of any benchmark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.record import RunRecord

_SECONDS = {"ms": 1e-3, "s": 1.0}
_LAUNCH_LABELS = frozenset({"step"})


class Series(NamedTuple):
    """All values of one metric with one set of labels in one variant."""

    name: str  # the metric
    labels: dict[str, str]
    variant: str
    seconds: list[float]


def report_latencies(config: pytest.Config, nodeid: str, record: RunRecord) -> None:
    """Add every time that the run measured to the session of pytest-benchmark, if there is one.

    Args:
        config: Of the session.
        nodeid: Of the scenario file.
        record: Of the run.
    """
    session = getattr(config, "_benchmarksession", None)
    if session is None or session.disabled or session.skip:
        return
    from pytest_benchmark.stats import Metadata

    for series in latencies(record):
        labels = ",".join(f'{key}="{value}"' for key, value in sorted(series.labels.items()))
        name = f"{series.name}{{{labels}}}" if labels else series.name
        made = Metadata(  # type: ignore[no-untyped-call]
            _Source(
                name, f"{nodeid}::{series.variant}::{name}", f"{record.scenario} {series.variant}"
            ),
            iterations=1,
            options={"timer": "benchsuite", "disable_gc": False, "warmup": False},
        )
        made.extra_info.update(
            variant=series.variant, deployment=record.fingerprint.deployment, run=record.id
        )
        for value in series.seconds:
            made.update(value)  # type: ignore[no-untyped-call]
        session.benchmarks.append(made)


def latencies(record: RunRecord) -> Iterator[Series]:
    """The record's times of whole launches in seconds: a value a launch, or a load step of it.

    Those of single requests are left out: they are no replicates of each other.
    """
    found: dict[tuple[Any, ...], Series] = {}
    for one in record.measurements:
        metric = CATALOGUE.get(one.name)
        factor = _SECONDS.get(one.unit)
        if metric is None or metric.assume != "latency" or factor is None:
            continue
        if isinstance(one.value, str) or not _LAUNCH_LABELS.issuperset(one.labels):
            continue
        key = (one.variant, one.name, tuple(sorted(one.labels.items())))
        series = found.setdefault(key, Series(one.name, dict(one.labels), one.variant, []))
        series.seconds.append(one.value * factor)
    yield from found.values()


class _Source:
    """What pytest-benchmark's record asks of the fixture that took it."""

    def __init__(self, name: str, fullname: str, group: str) -> None:
        self.name = name
        self.fullname = fullname
        self.group = group
        self.param = None
        self.params = None
        self.extra_info: dict[str, Any] = {}
        self.cprofile_stats = None
        self.has_error = False
