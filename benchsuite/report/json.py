"""Runs as the JSON of `--json`: `{"schema_version", "runs": [...]}`, whatever their number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from benchsuite.model.ab import AbRecord
from benchsuite.model.record import Measurement, RunRecord
from benchsuite.report.report_input import ReportInput

REPORT_SCHEMA = 1
"""Version of the envelope; each run has its own `schema_version`. 1: first."""


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `benchsuite run --json` prints and `benchsuite report --format json` writes."""

    schema_version: int  # of this envelope
    runs: tuple[RunRecord, ...]  # as named on the command line, or in the order in which they ran
    ab: tuple[AbRecord, ...] = ()  # of `benchsuite ab`; left out where there is none


def render_json(records: Sequence[RunRecord]) -> bytes:
    """The records in one JSON document, indented, with a newline at its end."""
    return _render(Report(REPORT_SCHEMA, tuple(records)))


def render_report_json(given: ReportInput) -> str:
    """Runs, and runs of two sides, in one JSON document."""
    records = [entry.record for entry in given.entries]
    runs = tuple(one for one in records if isinstance(one, RunRecord))
    return _render(
        Report(REPORT_SCHEMA, runs, tuple(one for one in records if isinstance(one, AbRecord)))
    ).decode()


def _render(report: Report) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


def measured(measurements: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Measurements outside a run, as `inspect --json` lists them."""
    return [
        {"name": m.name, "labels": m.labels, "value": m.value, "unit": m.unit, "source": m.source}
        for m in measurements
    ]


def document(body: dict[str, Any]) -> bytes:
    """A JSON document, indented, with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"
