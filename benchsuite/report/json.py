"""Runs as the JSON of `--json`: `{"schema_version", "runs": [...]}`, whatever their number."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchsuite.model.record import RunRecord

REPORT_SCHEMA = 1
"""Version of the envelope; each run has its own `schema_version`. 1: first."""


class _Runs(msgspec.Struct, frozen=True):
    schema_version: int
    runs: tuple[RunRecord, ...]


def render_json(records: Sequence[RunRecord]) -> bytes:
    """The records in one JSON document, indented, with a newline at its end."""
    encoded = msgspec.json.encode(_Runs(REPORT_SCHEMA, tuple(records)))
    return msgspec.json.format(encoded, indent=2) + b"\n"
