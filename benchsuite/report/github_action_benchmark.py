"""Runs as the JSON of github-action-benchmark, which draws a chart a name and alerts on a growth.

Its tools `customSmallerIsBetter` and `customBiggerIsBetter` take one direction a file: a list of
`{"name", "unit", "value", "range", "extra"}` (its `src/extract.ts`). Metrics that are to stay
equal go where their costly direction is; those without one are in neither file.
"""

from __future__ import annotations

from statistics import median
from typing import Literal

import msgspec

from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.report.report_input import ReportInput
from benchsuite.report.series import Series, number_series
from benchsuite.units import format_number

Direction = Literal["lower", "higher"]

LEANINGS: dict[str, Direction] = {
    "kv_mib": "lower",
    "rs_mib": "lower",
    "weights_mib": "lower",
    "prompt_cache_mib": "lower",
    "kv_cells": "lower",
    "evaluated_tokens": "lower",
    "leaks": "lower",
    "excess_cached_tokens": "lower",
    "cached_tokens": "higher",
}
"""The better direction of metrics that are declared to stay equal."""


class _Result(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    unit: str
    value: float
    range: str = ""
    extra: str = ""


def render_smaller_is_better(given: ReportInput) -> str:
    """What should be small, for the tool `customSmallerIsBetter`."""
    return _render(given, "lower")


def render_bigger_is_better(given: ReportInput) -> str:
    """What should be big, for the tool `customBiggerIsBetter`."""
    return _render(given, "higher")


def _render(given: ReportInput, wanted: Direction) -> str:
    results = [_result(one) for one in number_series(given) if _direction(one.metric) == wanted]
    return msgspec.json.format(msgspec.json.encode(results), indent=2).decode() + "\n"


def _direction(name: str) -> str:
    metric = CATALOGUE.get(name)
    better = metric.better if metric is not None else "equal"
    return LEANINGS.get(name, "") if better == "equal" else better


def _result(one: Series) -> _Result:
    spread = (max(one.values) - min(one.values)) / 2
    build = one.part.record.info.build
    about = [f"{len(one.values)} trials" if len(one.values) > 1 else "1 trial"]
    about += [f"build {build}"] if build else []
    return _Result(
        name=f"{one.place}: {one.name}",
        unit=one.unit,
        value=median(one.values),
        range=f"± {format_number(spread)}" if len(one.values) > 1 else "",
        extra="\n".join([*about, f"run {one.part.run}"]),
    )
