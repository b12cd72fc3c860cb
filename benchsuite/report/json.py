"""Runs as the JSON of `--json`: `{"schema_version", "runs": [...]}`, whatever their number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from benchsuite.model.record import Measurement, RunRecord

REPORT_SCHEMA = 1
"""Version of the envelope; each run has its own `schema_version`. 1: first."""


class _Runs(msgspec.Struct, frozen=True):
    schema_version: int
    runs: tuple[RunRecord, ...]


def render_json(records: Sequence[RunRecord]) -> bytes:
    """The records in one JSON document, indented, with a newline at its end."""
    encoded = msgspec.json.encode(_Runs(REPORT_SCHEMA, tuple(records)))
    return msgspec.json.format(encoded, indent=2) + b"\n"


def measured(measurements: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Measurements outside a run, as `inspect --json` lists them."""
    return [
        {"name": m.name, "labels": m.labels, "value": m.value, "unit": m.unit, "source": m.source}
        for m in measurements
    ]


def document(body: dict[str, Any]) -> bytes:
    """A JSON document, indented, with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"
