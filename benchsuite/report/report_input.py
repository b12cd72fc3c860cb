"""What a report is made of, and what a format is; no format is known here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from benchsuite.model.ab import SIDES, AbRecord
from benchsuite.model.record import RunRecord
from benchsuite.model.suite import SuiteRun
from benchsuite.report.diff import Diff
from benchsuite.store.baselines import Baselines

DEFAULT_KEY = "report"
"""Names the pull-request comment where nobody gives it another name."""


class Entry(msgspec.Struct, frozen=True):
    """One run, or one run of two sides, and where it lies."""

    record: RunRecord | AbRecord
    # the run's folder, with `samples.jsonl` and server logs; of two sides with a folder each;
    # None where the record came alone or in an archive
    folder: Path | None = None
    # what is stored to compare it with, now; None of two sides
    baselines: Baselines | None = None


class Part(msgspec.Struct, frozen=True):
    """One run record of a report."""

    record: RunRecord
    side: str = ""  # `baseline` or `candidate` of a run of two sides; else empty
    run: str = ""  # id of the run, of two sides that of both together


class ReportInput(msgspec.Struct, frozen=True):
    """Everything that a format may show."""

    entries: tuple[Entry, ...]  # as named on the command line
    root: Path  # of the repository or project; paths are shown below it
    key: str = DEFAULT_KEY  # tells one pull-request comment from another
    # what happened to the stored baselines since a revision; None where nobody asked
    changes: Diff | None = None
    unmade: tuple[SuiteRun, ...] = ()  # runs of a suite that have no record

    @property
    def parts(self) -> tuple[Part, ...]:
        """Every run record, both sides of a run of two one after the other."""
        found: list[Part] = []
        for entry in self.entries:
            record = entry.record
            if isinstance(record, AbRecord):
                found += [Part(record.side(side), side, record.id) for side in SIDES]
            else:
                found.append(Part(record, "", record.id))
        return tuple(found)


class Format(msgspec.Struct, frozen=True):
    """One way to write a report to a file."""

    name: str  # as `--format` takes it
    suffix: str  # by which `--to` tells it: `.csv`
    summary: str  # one line of help
    render: Callable[[ReportInput], str]
