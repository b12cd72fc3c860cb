"""Run folders: the journal written while a run goes, the record written at its end, reading both.

A run folder is `<utc>-<scenario>-<id>/` with `record.json`, `samples.jsonl` and one server log a
launch. Knows nothing of how a run is driven or judged.
"""

from __future__ import annotations

import datetime as dt
import secrets
from pathlib import Path
from typing import IO, Any

import msgspec

from benchsuite.errors import ConfigError, MachineError, UsageError
from benchsuite.model.record import (
    RECORD_SCHEMA,
    RunRecord,
)
from benchsuite.redact import redact_json
from benchsuite.regular import NotRegularError, open_regular, read_regular
from benchsuite.store.files import disk_error, safe_name, write_atomic
from benchsuite.store.floats import decode_json, decode_plain, decode_record, encode_record
from benchsuite.store.journal import RUN_HINT, recover_record, timed
from benchsuite.store.journal import Journal as Journal
from benchsuite.store.journal import Keep as Keep
from benchsuite.store.journal import read_journal as read_journal
from benchsuite.store.liveness import JOURNAL_FILE as JOURNAL_FILE
from benchsuite.store.liveness import RECORD_FILE as RECORD_FILE
from benchsuite.store.migrations import RECORD, check_version, migrate

_MAX_RECORD_BYTES = 512 * 1024 * 1024
_ID_BYTES = 4


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
                raise disk_error(runs_folder, error) from error
            except OSError as error:
                raise disk_error(runs_folder, error) from error
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
    write_atomic(path, redact_json(encode_record(record)) + b"\n")


def read_record(path: Path, *, mend: bool = False) -> RunRecord:
    """Read a run record.

    Args:
        path: A run folder, a `record.json`, or a .zip or .tar archive that holds one run. In a
            folder whose run was killed before its record was written, the record is made of the
            journal and marked as interrupted.
        mend: Do the same where the record was cut or garbled; without its verdict, so only for
            showing what there is.

    Raises:
        ConfigError: There is no record, or none that this version can read.
    """
    if path.is_dir():
        found, journal = path / RECORD_FILE, path / JOURNAL_FILE
        if found.exists():
            try:
                return _decode_record(_read_bytes(found), str(found))
            except GarbledError as error:
                if not mend or not journal.exists():
                    raise
                return recover_record(journal, garbled=str(error))
        if journal.exists():
            return recover_record(journal)
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
            raise UsageError("there is no run yet", where=str(runs_folder), hint=RUN_HINT)
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
        hint=f"the latest runs: {known}" if known else RUN_HINT,
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


class GarbledError(ConfigError):
    """A file that is no record at all, as after a power cut; not one of another version."""


class _Head(msgspec.Struct):
    schema_version: Any = None
    kind: Any = None


def _decode_record(data: bytes, where: str) -> RunRecord:
    try:
        head = decode_json(data, _Head)
        if head.kind is not None:
            raise ConfigError(
                "is the record of two servers (`benchsuite ab`), not of a run",
                where=where,
                hint="name one side of it: the folder `baseline` or `candidate` beside that file",
            )
        if check_version(RECORD, head.schema_version, where=where) == RECORD_SCHEMA:
            return timed(decode_record(data, RunRecord), where)
        plain = migrate(RECORD, decode_plain(data), where=where)
        return timed(msgspec.convert(plain, RunRecord), where)
    except (msgspec.DecodeError, RecursionError) as error:
        raise GarbledError(f"is not a run record: {error}", where=where) from error


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
        open_regular(path).close()
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
    except NotRegularError as error:
        raise ConfigError(str(error.strerror), where=str(path)) from error
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
        return read_regular(path)
    except OSError as error:
        raise ConfigError(f"cannot read it: {error.strerror}", where=str(path)) from error
