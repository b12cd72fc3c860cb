"""Runs as CSV: one row a measurement, and one for each that could not be made.

RFC 4180 with a header line, UTF-8. A cell of text that a spreadsheet would take for a formula
begins with an apostrophe.
"""

from __future__ import annotations

import csv
import io
import re

from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.metrics.select import format_series
from benchsuite.model.record import Measurement, Unmeasured
from benchsuite.report.layout import safe
from benchsuite.report.report_input import Part, ReportInput

COLUMNS = {
    "run": "id of the run; of `benchsuite ab` that of both sides",
    "side": "`baseline` or `candidate` of `benchsuite ab`; else empty",
    "started_at": "when the run began, UTC, ISO 8601",
    "deployment": "its name",
    "scenario": "its name",
    "variant": "of the scenario",
    "trial": "from 1; of `benchsuite ab` the pair",
    "metric": "name in the catalogue",
    "labels": 'which part is meant: `session="A",turn="2"`; empty for the whole',
    "state": "`measured`, `missing`, `inconclusive` or `not_applicable`",
    "value": "a number in `unit`, or text; empty where nothing was measured",
    "unit": "`MiB`, `ms`, `tokens`, ...; empty for a plain number or text",
    "interval_low": "end of the 95% interval of a value that is an estimate; else empty",
    "interval_high": "its other end",
    "better": "`lower`, `higher` or `equal`",
    "source": "where it was read",
    "reason": "why it was not measured; else empty",
    "build": "of the server; empty where nothing tells",
    "commit": "of the repository in which benchsuite ran; empty outside of one",
}
"""Column -> what is in it, in order. New ones go to the end."""

MOST_CHARACTERS = 32_000
"""Of a cell; spreadsheets take 32767, and Python's reader 131072. The JSON has the whole text."""

_FORMULA = re.compile(r"[\s'\"]*[=+\-@\t\r|%\uff1d\uff0b\uff0d\uff20]")


def render_csv(given: ReportInput) -> str:
    """The measurements of all runs, one a row below a header, lines ending in CR LF."""
    stream = io.StringIO()
    rows = csv.writer(stream)
    rows.writerow(COLUMNS)
    for part in given.parts:
        seen: list[Measurement | Unmeasured] = [*part.record.measurements, *part.record.unmeasured]
        for one in seen:
            row = _row(part, one)
            rows.writerow(
                [v if isinstance(v, int | float) else cell(v) for v in (row[c] for c in COLUMNS)]
            )
    return stream.getvalue()


def cell(text: str) -> str:
    """Text that no spreadsheet takes for a formula, and no terminal for a command."""
    cleaned = safe(text)
    if len(cleaned) > MOST_CHARACTERS:
        cleaned = f"{cleaned[:MOST_CHARACTERS]}... ({len(cleaned)} characters in all)"
    return f"'{cleaned}" if _FORMULA.match(cleaned) else cleaned


def _row(part: Part, one: Measurement | Unmeasured) -> dict[str, str | int | float]:
    record = part.record
    metric = CATALOGUE.get(one.name)
    row: dict[str, str | int | float] = {
        "run": part.run,
        "side": part.side,
        "started_at": record.started_at,
        "deployment": record.fingerprint.deployment,
        "scenario": record.scenario,
        "variant": one.variant,
        "trial": one.trial,
        "metric": one.name,
        "labels": format_series("", one.labels)[1:-1],
        "unit": metric.unit if metric is not None else "",
        "better": metric.better if metric is not None else "",
        "build": record.info.build or "",
        "commit": record.info.commit or "",
        "value": "",
        "interval_low": "",
        "interval_high": "",
        "source": "",
        "reason": "",
    }
    if isinstance(one, Unmeasured):
        return {**row, "state": one.outcome, "reason": one.reason}
    low, high = one.interval or ("", "")
    return {
        **row,
        "state": "measured",
        "value": one.value,
        "unit": one.unit,
        "interval_low": low,
        "interval_high": high,
        "source": one.source,
    }
