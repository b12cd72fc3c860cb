"""`benchsuite trend` from its options to its text."""

from __future__ import annotations

import difflib
import os
import sys
from pathlib import Path
from typing import Literal

import msgspec

from benchsuite.errors import UsageError
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.metrics.select import Selector, parse_selector
from benchsuite.report.layout import safe_json, style_for
from benchsuite.report.trend import make_series, render_trend_csv, render_trend_json
from benchsuite.report.trend_text import render_trend
from benchsuite.store.files import write_atomic
from benchsuite.store.history import Read, StoredRun, read_history


class TrendOptions(msgspec.Struct, frozen=True):
    """What of the history is asked for; None is everything."""

    scenario: str | None = None
    deployment: str | None = None
    variant: str | None = None
    machine: str | None = None
    last: int | None = None  # the newest runs of each series
    since: str | None = None  # UTC, the beginning of an ISO 8601 date

    def takes(self, run: StoredRun, variant: str) -> bool:
        """Whether a variant of a run is asked for."""
        wanted = (
            (self.scenario, run.scenario),
            (self.deployment, run.deployment),
            (self.variant, variant),
            (self.machine, run.machine),
        )
        return all(w is None or w == found for w, found in wanted) and (
            self.since is None or run.started_at >= self.since
        )


class Trend(msgspec.Struct, frozen=True):
    """What to print."""

    text: str
    warnings: tuple[str, ...]


def trend(
    words: str,
    options: TrendOptions,
    runs_folder: Path,
    form: Literal["text", "json", "csv"] = "text",
    html: str | None = None,
) -> Trend:
    """The history of a metric.

    Args:
        words: A selector, as typed.
        options: What of the history.
        runs_folder: Where runs live.
        form: Of the text.
        html: Where a page is to be written as well; None writes none.

    Raises:
        UsageError: It is no selector, or nothing stored is selected.
    """
    try:
        selector = parse_selector(words)
    except ValueError as error:
        raise UsageError(str(error)) from error
    read = read_history(runs_folder, selector)
    points = [p for p in read.points if options.takes(p.run, p.variant)]
    failed = [f for f in read.failed if options.takes(f.run, f.variant)]
    series = make_series(points, failed, last=options.last)
    if not series:
        raise _nothing(words, selector, read, options, runs_folder)
    if html is not None:
        from benchsuite.report.html.trend_page import render_trend_html  # 1 s of imports

        write_atomic(Path(html), render_trend_html(words, series).encode())
    if form == "json":
        text = safe_json(render_trend_json(series))
    elif form == "csv":
        text = render_trend_csv(series)
    else:
        text = render_trend(series, style_for(sys.stdout, os.environ))
    return Trend(text, _unreadable(read))


def _unreadable(read: Read) -> tuple[str, ...]:
    return tuple(f"run {run.id} is left out: {run.note}" for run in read.unreadable)


def _nothing(
    words: str, selector: Selector, read: Read, options: TrendOptions, runs_folder: Path
) -> UsageError:
    """Why nothing was found, and what would find something."""
    if not read.runs:
        return UsageError(
            "there is no run yet",
            where=str(runs_folder),
            hint="make one with `benchsuite run SCENARIO`",
        )
    if read.points:
        asked = ", ".join(
            f"{name} {value}"
            for name, value in msgspec.structs.asdict(options).items()
            if value is not None
        )
        keys = dict.fromkeys(
            f"{p.run.scenario} on {p.run.deployment}, variant {p.variant}" for p in read.points
        )
        return UsageError(
            f"no run with '{words}' fits {asked}", hint=f"it is in: {_some(list(keys), '; ')}"
        )
    if selector.name not in CATALOGUE:
        near = difflib.get_close_matches(selector.name, CATALOGUE, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"there is: {_some(list(CATALOGUE))}"
        return UsageError(f"unknown metric '{selector.name}'", hint=hint)
    own = [name for name in read.names if name.split("{")[0] == selector.name]
    return UsageError(
        f"none of {read.runs} runs has '{words}'; a selector names exactly the labels",
        hint=f"there is: {_some(own or list(read.names))}" if read.names else None,
    )


def _some(words: list[str], between: str = ", ") -> str:
    shown = between.join(words[:6])
    return shown + (f" and {len(words) - 6} more" if len(words) > 6 else "")
