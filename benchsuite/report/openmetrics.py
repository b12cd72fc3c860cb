"""Runs as OpenMetrics 1.0 text, each sample at the time at which its run began.

Names are those of the catalogue below `benchsuite_`, in base units: bytes for MiB, seconds for ms.
Texts have no place in it. What could not be measured is a `benchsuite_unmeasured`, never a 0.
Source: the OpenMetrics specification (prometheus.io/docs/specs/om/open_metrics_spec).
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import get_args, get_type_hints

import msgspec

from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.metrics.select import format_series
from benchsuite.model.record import Measurement
from benchsuite.model.verdict import Verdict
from benchsuite.report.layout import safe
from benchsuite.report.report_input import Part, ReportInput

PREFIX = "benchsuite_"

# unit of the catalogue -> unit of the exposition, and what a value is multiplied by
_UNITS = {
    "MiB": ("bytes", 2**20),
    "ms": ("seconds", 1e-3),
    "tokens": ("tokens", 1),
    "cells": ("cells", 1),
    "positions": ("positions", 1),
    "tokens/s": ("tokens_per_second", 1),
    "1/s": ("per_second", 1),
}
_MOST_CHARACTERS = 200  # of a label's value
_OWN = frozenset(("deployment", "scenario", "variant", "trial", "side"))
_UNSAFE = re.compile(r"[^a-zA-Z0-9_]")

_Labels = tuple[tuple[str, str], ...]


class _Family(msgspec.Struct):
    """One metric: its samples by name and labels, and by time."""

    kind: str
    unit: str
    help: str
    samples: dict[tuple[str, _Labels], dict[float, float]] = {}

    def add(self, name: str, labels: Mapping[str, str], time: float, value: float) -> None:
        """Take a sample; of two at one place and time the later one stays."""
        key = (name, tuple((label, _label_value(text)) for label, text in labels.items()))
        self.samples.setdefault(key, {})[time] = value


def render_openmetrics(given: ReportInput) -> str:
    """The exposition, which ends in `# EOF` and a newline."""
    families: dict[str, _Family] = {}
    for part in given.parts:
        _add_run(part, families)
        for one in part.record.measurements:
            if not isinstance(one.value, str):
                _add(part, one, families)
    return "\n".join([*_lines(families), "# EOF"]) + "\n"


def openmetrics_name(name: str, unit: str) -> tuple[str, str, float]:
    """A metric's name in base units, its unit, and what values are multiplied by.

    Args:
        name: In the catalogue.
        unit: In which it was measured.
    """
    word, factor = _UNITS.get(unit, (_UNSAFE.sub("_", unit), 1))
    stem = _UNSAFE.sub("_", name)
    if unit in ("MiB", "ms"):
        stem = re.sub(rf"_{unit.lower()}(?=_|$)", "", stem)
    if word and not stem.endswith(f"_{word}"):
        stem = f"{stem}_{word}"
    return PREFIX + stem, word, factor


def _add(part: Part, one: Measurement, families: dict[str, _Family]) -> None:
    assert not isinstance(one.value, str)
    name, unit, factor = openmetrics_name(one.name, one.unit)
    metric = CATALOGUE.get(one.name)
    text = f"{one.name} of `benchsuite list`" if metric is None else metric.doc
    family = families.setdefault(name, _Family("gauge", unit, text))
    labels = {**_place(part), "variant": one.variant, "trial": str(one.trial)}
    for key, value in sorted(one.labels.items()):
        labels[_label_name(key)] = value
    family.add(name, labels, _time(part), one.value * factor)


def _add_run(part: Part, families: dict[str, _Family]) -> None:
    """What is known of the run itself."""
    record, time, place = part.record, _time(part), _place(part)
    info = families.setdefault(f"{PREFIX}run", _Family("info", "", "Which run this was."))
    about = {
        "run": part.run,
        "build": record.info.build or "",
        "commit": record.info.commit or "",
        "model": record.info.model,
        "machine": record.fingerprint.machine or "",
    }
    named = {key: value for key, value in about.items() if value}
    info.add(f"{PREFIX}run_info", {**place, **named}, time, 1)
    name = f"{PREFIX}run_duration_seconds"
    wall = families.setdefault(name, _Family("gauge", "seconds", "How long the run took."))
    wall.add(name, place, time, record.wall_seconds)
    _add_verdict(part, record.verdict, interrupted=record.interrupted, families=families)
    name = f"{PREFIX}unmeasured"
    for one in record.unmeasured:
        family = families.setdefault(
            name, _Family("gauge", "", "1 for each metric that could not be measured.")
        )
        labels = {
            **place,
            "variant": one.variant,
            "trial": str(one.trial),
            "series": format_series(one.name, one.labels),
            "outcome": one.outcome,
        }
        family.add(name, labels, time, 1)


def _add_verdict(
    part: Part, verdict: Verdict | None, *, interrupted: bool, families: dict[str, _Family]
) -> None:
    """Without a verdict no word but `interrupted` is 1, else the one before would seem to stand."""
    unjudged = "interrupted" if interrupted else ""
    outcome = unjudged if verdict is None else verdict.outcome
    place, time = _place(part), _time(part)
    name = f"{PREFIX}verdict"
    states = families.setdefault(name, _Family("stateset", "", "The verdict of the run."))
    for word in _OUTCOMES:
        states.add(name, {**place, name: word}, time, int(word == outcome))
    if verdict is None:
        return
    name = f"{PREFIX}gates"
    counts = families.setdefault(name, _Family("gauge", "", "Gate results by outcome."))
    for outcome, count in verdict.counts.items():
        counts.add(name, {**place, "outcome": outcome}, time, count)


_OUTCOMES = get_args(get_type_hints(Verdict)["outcome"])


def _place(part: Part) -> dict[str, str]:
    record = part.record
    place = {"deployment": record.fingerprint.deployment, "scenario": record.scenario}
    return {**place, "side": part.side} if part.side else place


def _time(part: Part) -> float:
    """When the run began, in seconds since 1970."""
    return dt.datetime.fromisoformat(part.record.started_at).timestamp()


def _label_name(key: str) -> str:
    name = _UNSAFE.sub("_", key)
    if not name or name[0].isdigit() or name in _OWN or name.startswith("__"):
        name = f"label_{name}"
    return name


def _label_value(text: str) -> str:
    cleaned = safe(text)
    if len(cleaned) > _MOST_CHARACTERS:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        cleaned = f"{cleaned[:_MOST_CHARACTERS]}... {digest}"
    return _quoted(cleaned)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _lines(families: Mapping[str, _Family]) -> Iterator[str]:
    for name, family in sorted(families.items()):
        yield f"# TYPE {name} {family.kind}"
        if family.unit:
            yield f"# UNIT {name} {family.unit}"
        yield f"# HELP {name} {_quoted(safe(family.help))}"
        points = [
            (sample, _group(name, labels), time, labels, value)
            for (sample, labels), values in family.samples.items()
            for time, value in values.items()
        ]
        # the samples of one label set stand together in the order of time, as the spec asks;
        # all states of a state set are one
        for sample, _, time, labels, value in sorted(points):
            pairs = ",".join(f'{key}="{text}"' for key, text in labels)
            yield f"{sample}{{{pairs}}} {_number(value)} {time!r}"


def _group(family: str, labels: _Labels) -> _Labels:
    return tuple(pair for pair in labels if pair[0] != family)


def _number(value: float) -> str:
    text = repr(value)
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(text, text)
