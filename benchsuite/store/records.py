"""Run folders: the journal written while a run goes, the record written at its end, reading both.

A run folder is `<utc>-<scenario>-<id>/` with `record.json`, `samples.jsonl` and one server log a
launch. Knows nothing of how a run is driven or judged.
"""

from __future__ import annotations

import datetime as dt
import secrets
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self

import msgspec

from benchsuite.errors import BenchsuiteError, ConfigError, MachineError, UsageError
from benchsuite.model.record import (
    RECORD_SCHEMA,
    Launch,
    Measurement,
    NotApplicable,
    RunRecord,
    Unmeasured,
)
from benchsuite.store.files import safe_name, write_atomic
from benchsuite.store.floats import decode_plain, decode_record, encode_record
from benchsuite.store.liveness import JOURNAL_FILE as JOURNAL_FILE
from benchsuite.store.liveness import RECORD_FILE as RECORD_FILE
from benchsuite.store.liveness import hold
from benchsuite.store.migrations import JOURNAL, RECORD, check_version, migrate

_MAX_RECORD_BYTES = 512 * 1024 * 1024
_ID_BYTES = 4

KIND_OPENED = "opened"  # schema_version, utc: written by the journal itself
KIND_BEGIN = "begin"  # record: a RunRecord without launches and measurements
# one event each, under a field of the same name; what a record can be made of after a kill
KIND_LAUNCH = "launch"
KIND_MEASUREMENT = "measurement"
KIND_UNMEASURED = "unmeasured"
KIND_NOT_APPLICABLE = "not_applicable"


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
        try:
            self._stream = path.open("ab", buffering=0)
        except OSError as error:
            raise _disk_error(path, error) from error
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
            MachineError: The disk refuses; a lost event fails the run.
        """
        event = {"ns": time.monotonic_ns() if ns is None else ns, "kind": kind, **fields}
        line = encode_record(event) + b"\n"
        with self._lock:
            try:
                written = self._stream.write(line)
            except OSError as error:
                raise _disk_error(self.path, error) from error
        if written != len(line):
            raise MachineError("the disk took only part of an event", where=str(self.path))

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


def read_journal(path: Path) -> list[dict[str, Any]]:
    """The events of a journal, in order; a last line that was cut off is left out.

    Raises:
        ConfigError: The file cannot be read, or a line other than the last is no event.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigError(f"cannot read it: {error.strerror}", where=str(path)) from error
    unfinished = lines.pop()  # empty if the file ends with a whole line
    events: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        try:
            events.append(decode_record(line, dict[str, Any]))
        except msgspec.DecodeError as error:
            if number == len(lines) and not unfinished:
                break  # a crash of the machine can leave a line of zeros, newline included
            raise ConfigError(f"is no event: {error}", where=f"{path}:{number}") from error
    return events


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: Path, run_id: str) -> None:
        self.path = path
        self.id = run_id

    @classmethod
    def create(
        cls, runs_folder: Path, scenario: str, started_at: dt.datetime | None = None
    ) -> RunFolder:
        """Make a new folder; two runs of the same second get two folders.

        Args:
            runs_folder: Where runs live; made if it is not there.
            scenario: The scenario's name.
            started_at: With a time zone; None is now.

        Raises:
            MachineError: The folder cannot be made.
        """
        when = started_at or dt.datetime.now(dt.UTC)
        stamp = when.astimezone(dt.UTC).strftime("%Y%m%dT%H%M%SZ")
        for _ in range(100):
            run_id = secrets.token_hex(_ID_BYTES)
            path = runs_folder / f"{stamp}-{safe_name(scenario)}-{run_id}"
            try:
                runs_folder.mkdir(parents=True, exist_ok=True)
                path.mkdir()
            except FileExistsError as error:
                if path.is_dir():
                    continue  # this very id was drawn before
                raise _disk_error(runs_folder, error) from error
            except OSError as error:
                raise _disk_error(runs_folder, error) from error
            return cls(path, run_id)
        raise MachineError("no free name for a run folder", where=str(runs_folder))

    def open_journal(self) -> Journal:
        """The run's journal, ready for events."""
        return Journal(self.path / JOURNAL_FILE)

    def log_path(self, variant: str, trial: int) -> Path:
        """Where the server log of one launch goes."""
        path = self.path / f"server.{safe_name(variant)}.{trial}.log"
        if not path.exists():
            return path
        # variants `b` and `B` where file names know no case
        return self.path / f"server.{safe_name(variant, fold_case=True)}.{trial}.log"

    def write_record(self, record: RunRecord) -> Path:
        """Write `record.json` atomically and return its path."""
        path = self.path / RECORD_FILE
        write_record(path, record)
        return path


def write_record(path: Path, record: RunRecord) -> None:
    """Write a record atomically.

    Raises:
        MachineError: The disk refuses.
    """
    write_atomic(path, encode_record(record) + b"\n")


def read_record(path: Path) -> RunRecord:
    """Read a run record.

    Args:
        path: A run folder, a `record.json`, or a .zip or .tar archive that holds one run. In a
            folder whose run was killed before its record was written, the record is made of the
            journal and marked as interrupted.

    Raises:
        ConfigError: There is no record, or none that this version can read.
    """
    if path.is_dir():
        if (path / RECORD_FILE).exists():
            return _decode_record(_read_bytes(path / RECORD_FILE), str(path / RECORD_FILE))
        if (path / JOURNAL_FILE).exists():
            return _recover_record(path / JOURNAL_FILE)
        raise ConfigError(f"holds neither {RECORD_FILE} nor {JOURNAL_FILE}", where=str(path))
    if not path.exists():
        raise ConfigError("no such run", where=str(path))
    archived = _read_archive(path, RECORD_FILE)
    if archived is not None:
        return _decode_record(*archived)
    return _decode_record(_read_bytes(path), str(path))


def find_run(text: str, runs_folder: Path, *, with_ab: bool = False) -> Path:
    """The run that a user means.

    Args:
        text: A path (folder, `record.json`, archive), `last`, a run's folder name, or the first
            characters of its id; of a side of `ab` with `-baseline` or `-candidate` after them.
        runs_folder: Where runs live.
        with_ab: Whether a run of two sides (`benchsuite ab`) may be meant.

    Raises:
        UsageError: No run, or more than one, is meant.
    """
    if text not in ("", "last") and _exists(Path(text)):
        return Path(text)
    runs = list_runs(runs_folder, with_ab=with_ab)
    if text == "last":
        if not runs:
            raise UsageError("there is no run yet", where=str(runs_folder), hint=_RUN_HINT)
        return runs[-1]
    named = [r for r in runs if r.name == text]
    found = named or [r for r in runs if text and run_id_of(r).startswith(text)]
    beginning, _, side = text.rpartition("-")
    if beginning and not found:
        found = [
            path
            for path in list_sides(runs_folder)
            if path.name == side and run_id_of(path.parent).startswith(beginning)
        ]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(map(_known_as, found[:5]))
        raise UsageError(f"'{text}' begins the id of {len(found)} runs: {ids}")
    both = [p for p in list_sides(runs_folder) if text and run_id_of(p.parent).startswith(text)]
    if both:
        raise UsageError(
            f"'{text}' is a run of two servers (`benchsuite ab`); name one side of it",
            hint=" or ".join(map(_known_as, both[:4])),
        )
    known = ", ".join(run_id_of(r) for r in reversed(runs[-5:]))
    raise UsageError(
        f"no run '{text}': neither a path nor the beginning of an id in {runs_folder}",
        hint=f"the latest runs: {known}" if known else _RUN_HINT,
    )


def _known_as(run: Path) -> str:
    """A run's id; of a side of `ab` with the side."""
    is_side = (run.parent / "candidate").is_dir()
    return f"{run_id_of(run.parent)}-{run.name}" if is_side else run_id_of(run)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # too long for a name
        return False


_RUN_HINT = "make one with `benchsuite run SCENARIO`"


def list_runs(runs_folder: Path, *, with_ab: bool = False) -> list[Path]:
    """The run folders that hold something to read, oldest first; of `benchsuite ab` on demand."""
    if not runs_folder.is_dir():
        return []
    runs = [
        path
        for path in runs_folder.iterdir()
        if ((path / RECORD_FILE).exists() or (path / JOURNAL_FILE).exists())
        and (
            with_ab or not (path / "candidate").is_dir()
        )  # two sides of `benchsuite ab`, see `store/ab.py`
    ]
    # names begin with the second; within one, the file system's clock decides
    return sorted(runs, key=lambda p: (p.name.split("-", 1)[0], p.stat().st_mtime_ns, p.name))


def list_sides(runs_folder: Path) -> list[Path]:
    """The sides of `benchsuite ab` that hold something to read: each is a run folder in another."""
    if not runs_folder.is_dir():
        return []
    return sorted(
        side
        for path in runs_folder.iterdir()
        if (path / "candidate").is_dir()
        for side in (path / "baseline", path / "candidate")
        if (side / RECORD_FILE).exists() or (side / JOURNAL_FILE).exists()
    )


def run_id_of(folder: Path) -> str:
    """The id at the end of a run folder's name."""
    return folder.name.rsplit("-", 1)[-1]


class _Head(msgspec.Struct):
    schema_version: Any = None
    kind: Any = None


def _decode_record(data: bytes, where: str) -> RunRecord:
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.kind is not None:
            raise ConfigError(
                "is the record of two servers (`benchsuite ab`), not of a run",
                where=where,
                hint="name one side of it: the folder `baseline` or `candidate` beside that file",
            )
        if check_version(RECORD, head.schema_version, where=where) == RECORD_SCHEMA:
            return decode_record(data, RunRecord)
        return msgspec.convert(migrate(RECORD, decode_plain(data), where=where), RunRecord)
    except msgspec.DecodeError as error:
        raise ConfigError(f"is not a run record: {error}", where=where) from error


def _recover_record(path: Path) -> RunRecord:
    """What a killed run had seen, from its journal."""
    record: RunRecord | None = None
    seen: dict[str, list[Any]] = {}
    types = {
        KIND_LAUNCH: Launch,
        KIND_MEASUREMENT: Measurement,
        KIND_UNMEASURED: Unmeasured,
        KIND_NOT_APPLICABLE: NotApplicable,
    }
    try:
        for event in read_journal(path):
            kind = event.get("kind", "")
            if kind == KIND_OPENED:
                check_version(JOURNAL, event.get("schema_version"), where=f"{path}:1")
            elif kind == KIND_BEGIN:
                record = msgspec.convert(event.get("record"), RunRecord)
            elif kind in types:
                found = msgspec.convert(event.get(kind), types[kind])
                seen.setdefault(kind, []).append(found)
    except msgspec.ValidationError as error:
        raise ConfigError(f"cannot be read back: {error}", where=str(path)) from error
    if record is None:
        raise ConfigError(
            "the run was killed before it measured anything", where=str(path), hint=_RUN_HINT
        )
    note = (
        f"the run was killed before its record was written; this was read from {path.name}, "
        f"which ends after {_end_words(seen.get(KIND_LAUNCH, []), seen.get(KIND_MEASUREMENT, []))}"
    )
    return msgspec.structs.replace(
        record,
        launches=tuple(seen.get(KIND_LAUNCH, ())),
        measurements=tuple(seen.get(KIND_MEASUREMENT, ())),
        unmeasured=tuple(seen.get(KIND_UNMEASURED, ())),
        not_applicable=tuple(seen.get(KIND_NOT_APPLICABLE, ())),
        interrupted=True,
        warnings=(*record.warnings, note),
    )


def _end_words(launches: Sequence[Launch], measurements: Sequence[Measurement]) -> str:
    """Where a journal ends: after how much, and what was measured last."""
    counts = f"{len(launches)} launches and {len(measurements)} measurements"
    if not measurements:
        return counts
    last = measurements[-1]
    labels = ", ".join(f"{key} {value}" for key, value in sorted(last.labels.items()))
    what = f"{last.name} ({labels})" if labels else last.name
    return f"{counts}, the last one {what} of variant {last.variant}, trial {last.trial}"


def read_beside(run: Path, name: str) -> tuple[bytes, str] | None:
    """A file that lies beside a run's record, and its place; None where the run has none such.

    Args:
        run: As for `read_record`.
        name: The file's name.

    Raises:
        ConfigError: It cannot be read.
    """
    folder = run if run.is_dir() else run.parent
    if run.is_dir() or run.suffix == ".json":
        path = folder / name
        return (_read_bytes(path), str(path)) if path.is_file() else None
    return _read_archive(run, name)


def _read_archive(path: Path, name: str) -> tuple[bytes, str] | None:
    """A file beside the record inside a .zip or .tar archive, and its place.

    None for a file that is no archive, and where the archive has none such beside its record.
    """
    import tarfile  # 10 ms that only archives need
    import zipfile

    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                inner = _member([i.filename for i in archive.infolist()], path, name)
                if inner is None:
                    return None
                with archive.open(inner) as stream:
                    return read_member(stream, path), f"{path}:{inner}"
        if path.suffix != ".json" and tarfile.is_tarfile(path):
            with tarfile.open(path) as tar:
                inner = _member([m.name for m in tar.getmembers() if m.isfile()], path, name)
                if inner is None:
                    return None
                member = tar.extractfile(inner)
                if member is None:
                    raise ConfigError(f"'{inner}' is not a file", where=str(path))
                return read_member(member, path), f"{path}:{inner}"
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, tarfile.TarError) as error:
        raise ConfigError(f"cannot read the archive: {error}", where=str(path)) from error
    return None


def _member(names: list[str], path: Path, wanted: str) -> str | None:
    record = _record_member(names, path)
    inner = record[: len(record) - len(RECORD_FILE)] + wanted
    return inner if inner in names else None


def _record_member(names: list[str], path: Path) -> str:
    found = [n for n in names if n.replace("\\", "/").rsplit("/", 1)[-1] == RECORD_FILE]
    if len(found) != 1:
        what = "no" if not found else f"{len(found)} files named"
        raise ConfigError(
            f"the archive holds {what} {RECORD_FILE}, expected one",
            where=str(path),
            hint="pack one run folder; of a run of `benchsuite ab` the folder of one side, "
            "`baseline` or `candidate`"
            if found
            else None,
        )
    return found[0]


def read_member(stream: IO[bytes], path: Path) -> bytes:
    """The content of a file in an archive.

    Raises:
        ConfigError: It is longer than any record can be.
    """
    data = stream.read(_MAX_RECORD_BYTES + 1)
    if len(data) > _MAX_RECORD_BYTES:
        raise ConfigError("a file in this archive is over 512 MiB", where=str(path))
    return data


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read it: {error.strerror}", where=str(path)) from error


def _disk_error(path: Path, error: OSError) -> BenchsuiteError:
    return MachineError(
        f"cannot write here: {error.strerror or error}",
        where=str(path),
        hint="free space there, make it writable, or choose another folder with --out",
    )
