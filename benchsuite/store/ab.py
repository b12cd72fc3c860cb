"""Folders of `benchsuite ab`: a run folder a side, and the record of both beside them.

    <utc>-<scenario>-<id>/record.json  samples.jsonl
                          baseline/    record.json  samples.jsonl  server.<variant>.<pair>.log
                          candidate/   likewise

Each side is a run like any other, so it can be compared and accepted by its path. A run that was
killed is read from its journals. Knows nothing of how sides are driven or judged.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import msgspec

from benchsuite.errors import ConfigError
from benchsuite.model.ab import (
    AB_KIND,
    AB_SCHEMA,
    BASELINE,
    CANDIDATE,
    SIDES,
    AbRecord,
    Side,
    Turn,
)
from benchsuite.model.record import RunRecord
from benchsuite.regular import read_regular
from benchsuite.store.files import write_atomic
from benchsuite.store.floats import decode_json, decode_record, encode_record
from benchsuite.store.records import (
    JOURNAL_FILE,
    RECORD_FILE,
    RunFolder,
    read_journal,
    read_record,
    write_record,
)

KIND_BEGIN_AB = "begin ab"  # record: an AbRecord whose sides are empty
KIND_TURN = "turn"  # turn: a launch is about to be made


class AbFolder:
    """The folder of one run of two sides."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.sides: dict[Side, RunFolder] = {
            side: RunFolder(folder.path / side, f"{folder.id}-{side}") for side in SIDES
        }

    @property
    def path(self) -> Path:
        """The folder itself."""
        return self.folder.path

    @classmethod
    def create(cls, runs_folder: Path, scenario: str, started_at: dt.datetime) -> AbFolder:
        """Make a new folder with its two sides.

        Raises:
            MachineError: It cannot be made.
        """
        made = cls(RunFolder.create(runs_folder, scenario, started_at))
        for side in made.sides.values():
            side.path.mkdir()
        return made

    def write_record(self, record: AbRecord) -> None:
        """Write the record of both, and of each side, atomically.

        Raises:
            MachineError: The disk refuses.
        """
        for side, folder in self.sides.items():
            write_record(folder.path / RECORD_FILE, record.side(side))
        write_atomic(self.path / RECORD_FILE, encode_record(record) + b"\n")


def read_ab(path: Path) -> AbRecord:
    """Read the record of two sides.

    Args:
        path: The folder, or the `record.json` in it.

    Raises:
        ConfigError: There is none, or none that this version can read.
    """
    folder = path if path.is_dir() else path.parent
    file = folder / RECORD_FILE if path.is_dir() else path
    if not file.exists():
        return _recover(folder)
    try:
        data = read_regular(file)
        version = decode_json(data, _Head).schema_version
        if version != AB_SCHEMA:
            raise ConfigError(
                f"has schema_version {version}, this benchsuite reads {AB_SCHEMA}", where=str(file)
            )
        return decode_record(data, AbRecord)
    except OSError as error:
        raise ConfigError(f"cannot read it: {error.strerror}", where=str(file)) from error
    except msgspec.DecodeError as error:
        words = f"is not the record of `benchsuite ab`: {error}"
        raise ConfigError(words, where=str(file)) from error


class _Head(msgspec.Struct):
    schema_version: int


class _Kind(msgspec.Struct):
    kind: object = None


def read_any(path: Path) -> RunRecord | AbRecord:
    """Read a run, or a run of two sides.

    Args:
        path: As for `read_record`, or a folder of `benchsuite ab`, or the `record.json` in it.

    Raises:
        ConfigError: There is no record, or none that this version can read.
    """
    return read_ab(path) if _is_ab(path) else read_record(path, mend=True)


def _is_ab(path: Path) -> bool:
    if path.is_dir():
        return (path / CANDIDATE).is_dir()
    if path.suffix != ".json" or not (path.parent / CANDIDATE).is_dir():
        return False
    try:
        head: _Kind = decode_json(read_regular(path), _Kind)
    except (OSError, msgspec.DecodeError):
        return False  # the reader of records says what is wrong
    return head.kind == AB_KIND


def _recover(folder: Path) -> AbRecord:
    """What a killed run had seen, from its journals."""
    if not (folder / JOURNAL_FILE).exists():
        raise ConfigError(f"holds neither {RECORD_FILE} nor {JOURNAL_FILE}", where=str(folder))
    record: AbRecord | None = None
    turns: list[Turn] = []
    try:
        for event in read_journal(folder / JOURNAL_FILE):
            if event.get("kind") == KIND_BEGIN_AB:
                record = msgspec.convert(event.get("record"), AbRecord)
            elif event.get("kind") == KIND_TURN:
                turns.append(msgspec.convert(event.get("turn"), Turn))
    except msgspec.ValidationError as error:
        raise ConfigError(f"cannot be read back: {error}", where=str(folder)) from error
    if record is None:
        raise ConfigError("the run was killed before it measured anything", where=str(folder))
    note = f"the run was killed before its record was written; this was read from {JOURNAL_FILE}"
    return msgspec.structs.replace(
        record,
        baseline=read_record(folder / BASELINE),
        candidate=read_record(folder / CANDIDATE),
        turns=tuple(turns),
        interrupted=True,
        warnings=(*record.warnings, note),
    )
