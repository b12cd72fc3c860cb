"""The journal of a run: written event by event while it goes on, read back whatever cut it off."""

from __future__ import annotations

import datetime as dt
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import msgspec

from benchsuite.errors import ConfigError, MachineError
from benchsuite.model.record import (
    RECORD_SCHEMA,
    Launch,
    Measurement,
    NotApplicable,
    RunRecord,
    Unmeasured,
)
from benchsuite.redact import hide_in_file, redact_json
from benchsuite.regular import read_regular
from benchsuite.store.files import disk_error
from benchsuite.store.floats import decode_record, encode_record
from benchsuite.store.liveness import hold
from benchsuite.store.migrations import JOURNAL, check_version

KIND_OPENED = "opened"  # schema_version, utc: written by the journal itself
KIND_BEGIN = "begin"  # record: a RunRecord without launches and measurements
# one event each, under a field of the same name; what a record can be made of after a kill
KIND_LAUNCH = "launch"
KIND_MEASUREMENT = "measurement"
KIND_UNMEASURED = "unmeasured"
KIND_NOT_APPLICABLE = "not_applicable"
KIND_DOING = "doing"  # words, variant, trial: what is begun now


RUN_HINT = "make one with `benchsuite run SCENARIO`"


class Keep(Protocol):
    """What takes an event: `Journal.write`, for those who need not know the file."""

    def __call__(self, kind: str, **fields: Any) -> None: ...


class Journal:
    """An append-only file of events, each one line of JSON handed to the OS as it happens.

    Safe to write from several threads. Every event has `ns` (monotonic nanoseconds) and `kind`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._torn: MachineError | None = None  # why half a line stays at its end
        try:
            self._stream = path.open("ab", buffering=0)
        except OSError as error:
            raise disk_error(path, error) from error
        hold(self._stream)
        now = dt.datetime.now(dt.UTC)
        try:
            self.write(KIND_OPENED, schema_version=RECORD_SCHEMA, utc=now.isoformat())
        except MachineError:
            self._stream.close()
            raise

    def write(self, kind: str, *, ns: int | None = None, **fields: Any) -> None:
        """Append one event.

        Args:
            kind: What happened; one of the `KIND_` names, or any other word.
            ns: When, in monotonic nanoseconds; None is now.
            fields: Anything that msgspec can encode.

        Raises:
            MachineError: The disk refuses; a lost event fails the run. Nothing of it is left in the
                file; where even that cannot be had, every later event is refused too.
        """
        event = {"ns": time.monotonic_ns() if ns is None else ns, "kind": kind, **fields}
        line = redact_json(encode_record(event)) + b"\n"
        with self._lock:
            if self._torn is not None:
                raise self._torn
            rest = line
            try:
                while rest:  # where the disk took only a part, the next try says why
                    rest = rest[self._stream.write(rest) :]
            except OSError as error:
                told = disk_error(self.path, error)
                self._take_back(len(line) - len(rest), told)
                raise told from error

    def _take_back(self, count: int, why: MachineError) -> None:
        """Cut the bytes of an unfinished line off, since a later event behind it could not be read.

        Args:
            count: How many.
            why: What later events are refused with where that cannot be done.
        """
        if count == 0:
            return
        try:
            self._stream.truncate(os.fstat(self._stream.fileno()).st_size - count)
        except OSError:
            self._torn = MachineError(
                f"{why.message}; half an event stays at its end, so no later one is written",
                where=why.where,
                hint=why.hint,
            )

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class JournalEnd(NamedTuple):
    """Where a journal ends, and how."""

    line: int  # number of its last whole event; 0 where there is none
    byte: int  # its length up to the end of that line
    rest: int  # bytes behind, which are no event

    @property
    def words(self) -> str:
        """In words: `in line 120 after byte 48211, in the middle of a line`."""
        where = f"in line {self.line} after byte {self.byte}"
        return f"{where}, in the middle of a line" if self.rest else where


def read_journal(path: Path) -> list[dict[str, Any]]:
    """The events of a journal, in order; what a kill or a power cut left behind them is left out.

    Raises:
        ConfigError: As `read_cut_journal`.
    """
    return read_cut_journal(path)[0]


def read_cut_journal(path: Path) -> tuple[list[dict[str, Any]], JournalEnd]:
    """The events of a journal, in order, and where they end.

    A kill leaves a line without its end, a power cut zeros or old content of the disk.

    Raises:
        ConfigError: The file cannot be read, or a line before a whole event is none.
    """
    try:
        lines = read_regular(path).split(b"\n")
    except OSError as error:
        raise ConfigError(f"cannot read it: {error.strerror}", where=str(path)) from error
    unfinished = lines.pop()  # empty if the file ends with a whole line
    events: list[dict[str, Any]] = []
    size = 0
    for number, line in enumerate(lines, start=1):
        event = _event(line)
        if isinstance(event, str):
            if any(isinstance(_event(later), dict) for later in lines[number:]):
                raise ConfigError(f"is no event: {event}", where=f"{path}:{number}")
            rest = sum(len(one) + 1 for one in lines[number - 1 :]) + len(unfinished)
            return events, JournalEnd(len(events), size, rest)
        events.append(event)
        size += len(line) + 1
    return events, JournalEnd(len(events), size, len(unfinished))


def _event(line: bytes) -> dict[str, Any] | str:
    """The event of a line, or why it is none."""
    try:
        event = decode_record(line, dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return str(error)
    if not isinstance(event.get("kind"), str) or not isinstance(event.get("ns"), int):
        return "it has no 'kind' or no 'ns'"
    return event


def recover_record(path: Path, *, garbled: str | None = None) -> RunRecord:
    """What a killed run had seen, from its journal.

    Keys that its servers printed are hidden in the logs beside it, since the run came not to that.

    Args:
        path: The journal.
        garbled: Why the record beside it cannot be read; None where there is none.

    Raises:
        ConfigError: The journal cannot be read, or says nothing yet.
    """
    for log in path.parent.glob("server.*.log"):
        hide_in_file(log)
    record: RunRecord | None = None
    seen: dict[str, list[Any]] = {}
    doing = ""
    types = {
        KIND_LAUNCH: Launch,
        KIND_MEASUREMENT: Measurement,
        KIND_UNMEASURED: Unmeasured,
        KIND_NOT_APPLICABLE: NotApplicable,
    }
    try:
        events, end = read_cut_journal(path)
        for event in events:
            kind = event.get("kind", "")
            if kind == KIND_OPENED:
                check_version(JOURNAL, event.get("schema_version"), where=f"{path}:1")
            elif kind == KIND_BEGIN:
                record = msgspec.convert(event.get("record"), RunRecord)
            elif kind == KIND_DOING:
                doing = f"{event.get('words')} of variant {event.get('variant')}"
            elif kind in types:
                found = msgspec.convert(event.get(kind), types[kind])
                seen.setdefault(kind, []).append(found)
    except msgspec.ValidationError as error:
        raise ConfigError(f"cannot be read back: {error}", where=str(path)) from error
    if record is None:
        raise ConfigError(
            f"the run was killed before it measured anything: the journal ends {end.words}",
            where=str(path),
            hint=RUN_HINT,
        )
    during = f" during {doing}" if doing else ""
    why = (
        f"the run was killed{during} before its record was written"
        if garbled is None
        else f"its record cannot be read ({garbled}), and with it the verdict is lost"
    )
    seen_words = _end_words(seen.get(KIND_LAUNCH, []), seen.get(KIND_MEASUREMENT, []))
    note = f"{why}; this was read from {path.name}, which ends {end.words}, after {seen_words}"
    return msgspec.structs.replace(
        timed(record, str(path)),
        launches=tuple(seen.get(KIND_LAUNCH, ())),
        measurements=tuple(seen.get(KIND_MEASUREMENT, ())),
        unmeasured=tuple(seen.get(KIND_UNMEASURED, ())),
        not_applicable=tuple(seen.get(KIND_NOT_APPLICABLE, ())),
        interrupted=True,
        warnings=(*record.warnings, note),
    )


def timed(record: RunRecord, where: str) -> RunRecord:
    """The record, if it says when it was begun.

    Raises:
        ConfigError: It does not.
    """
    try:
        dt.datetime.fromisoformat(record.started_at).astimezone(dt.UTC)
    except (ValueError, OverflowError):
        shown = record.started_at[:40]
        raise ConfigError(f"has started_at '{shown}', expected an ISO time", where=where) from None
    return record


def _end_words(launches: Sequence[Launch], measurements: Sequence[Measurement]) -> str:
    """Where a journal ends: after how much, and what was measured last."""
    counts = f"{len(launches)} launches and {len(measurements)} measurements"
    if not measurements:
        return counts
    last = measurements[-1]
    labels = ", ".join(f"{key} {value}" for key, value in sorted(last.labels.items()))
    what = f"{last.name} ({labels})" if labels else last.name
    return f"{counts}, the last one {what} of variant {last.variant}, trial {last.trial}"
