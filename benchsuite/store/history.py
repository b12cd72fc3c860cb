"""The history of all stored runs: one SQLite file beside their folders.

The folders are the truth. The file only spares reading every record again, so whatever is wrong
with it (deleted, damaged, of another version, locked, on a full or read-only disk) is mended here
and never an error: it is brought up to date, built anew, waited for, or done without.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from benchsuite.errors import ConfigError
from benchsuite.metrics.select import Selector, format_series
from benchsuite.model.record import Info, RunRecord
from benchsuite.store.baselines import Sample
from benchsuite.store.history_file import make_tables, transaction, with_file
from benchsuite.store.liveness import JOURNAL_FILE, RECORD_FILE, is_driven
from benchsuite.store.records import list_runs, list_sides, read_record, run_id_of

_MAX_INTEGER = 2**63 - 1  # of SQLite

State = Literal[
    "pass",
    "fail",
    "inconclusive",
    "server failed",
    "machine failed",
    "interrupted",
    "not judged",
    "in progress",  # only a journal, and its writer lives
    "cut",  # only a journal, and nobody writes it
    "unreadable",
]

_AT_ONCE = 50  # runs put in under one lock; each wait for the disk costs as much as ten of them


class StoredRun(msgspec.Struct, frozen=True):
    """One run as the history knows it."""

    folder: str  # of its folder, below that of runs; a side of `ab` is one in another
    id: str
    started_at: str  # UTC, ISO 8601
    deployment: str
    scenario: str
    seed: int
    numerics: str | None
    machine: str | None
    state: State
    note: str  # why it is unreadable; empty for others
    info: Info
    unfit: tuple[str, ...] = ()  # kinds of metrics that the machine's state made doubtful


class Point(msgspec.Struct, frozen=True):
    """The values of one series in one run, of launches that did not fail."""

    run: StoredRun
    variant: str
    digest: str  # of what the variant does; empty in a run that did not keep it
    series: str  # as `parse_selector` reads it
    samples: tuple[Sample, ...]  # one a trial, in their order; texts as the start of their sha256


class FailedVariant(msgspec.Struct, frozen=True):
    """A variant none of whose launches lived, so that it has no values in this run."""

    run: StoredRun
    variant: str
    digest: str
    failure: str  # kind of the first launch's failure


class Read(msgspec.Struct, frozen=True):
    """What the history tells of one selector."""

    points: tuple[Point, ...]
    failed: tuple[FailedVariant, ...]
    unreadable: tuple[StoredRun, ...]
    names: tuple[str, ...]  # every series of any run, with the selector's name first
    runs: int  # in the folders


def history_file(runs_folder: Path) -> Path:
    """Where the history of a folder of runs lies: `.benchsuite/history.sqlite` by default.

    Beside the folder only where that is ours; else inside of it, under a name of our own.
    """
    if runs_folder.name == "runs" and runs_folder.parent.name == ".benchsuite":
        return runs_folder.parent / "history.sqlite"
    return runs_folder / ".benchsuite-history.sqlite"


def remember(folder: Path) -> str | None:
    """Put a run that was just stored into the history beside its folder.

    Returns:
        Why that did not work, as a warning; the next reading makes up for it.
    """
    is_side = (folder.parent / "candidate").is_dir()
    runs_folder = folder.parent.parent if is_side else folder.parent
    name = folder.relative_to(runs_folder).as_posix()
    file = history_file(runs_folder)
    try:
        if not file.exists():
            return None  # made by the first reading, which then takes in all runs
        with_file(file, lambda connection: _put_alone(connection, folder, name))
    except (sqlite3.Error, OSError) as error:
        return f"the run is stored, but the history could not take it up: {error}"
    return None


def read_history(runs_folder: Path, selector: Selector) -> Read:
    """Bring the history up to date with the folders and read what a selector selects.

    Args:
        runs_folder: Where runs live; may not exist.
        selector: Of measurements.
    """
    return _ask(runs_folder, lambda connection: _read(connection, runs_folder, selector))


def stored_runs(runs_folder: Path) -> tuple[StoredRun, ...]:
    """Every run of the folders, oldest first."""
    return _ask(runs_folder, lambda c: tuple(_runs(c, runs_folder).values()))


_Answer = TypeVar("_Answer")


def _ask(runs_folder: Path, question: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
    """The answer of a history that is up to date; kept in memory where the disk has none."""

    def job(connection: sqlite3.Connection) -> _Answer:
        _sync(connection, runs_folder)
        return question(connection)

    if runs_folder.is_dir():
        with contextlib.suppress(sqlite3.Error, OSError):
            return with_file(history_file(runs_folder), job, check=True)
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        make_tables(connection)
        return job(connection)


def _sync(connection: sqlite3.Connection, runs_folder: Path) -> None:
    """Take in what is in the folders and not in the history, and drop what is gone."""
    folders = (*list_runs(runs_folder), *list_sides(runs_folder))
    there = {folder.relative_to(runs_folder).as_posix(): folder for folder in folders}
    known = dict(connection.execute("SELECT folder, stamp FROM runs").fetchall())
    gone = [name for name in known if name not in there]
    if gone:
        with transaction(connection):
            for name in gone:
                # one that another process stored and put in since the folders were listed is there
                if not _stamp(runs_folder / name):
                    _forget(connection, name)
    changed = [
        (name, folder) for name, folder in there.items() if known.get(name) != _stamp(folder)
    ]
    for start in range(0, len(changed), _AT_ONCE):
        with transaction(connection):
            for name, folder in changed[start : start + _AT_ONCE]:
                _put(connection, folder, name)


def _stamp(folder: Path) -> str:
    """What changes when a run's record or journal does."""
    for name in (RECORD_FILE, JOURNAL_FILE):
        with contextlib.suppress(OSError):
            found = (folder / name).stat()
            return f"{name} {found.st_mtime_ns} {found.st_size}"
    return ""


def _forget(connection: sqlite3.Connection, folder: str) -> None:
    found = connection.execute("SELECT key FROM runs WHERE folder = ?", (folder,)).fetchone()
    if found is not None:
        connection.execute("DELETE FROM runs WHERE key = ?", found)
        connection.execute("DELETE FROM launches WHERE run = ?", found)
        connection.execute("DELETE FROM points WHERE run = ?", found)


def _put(connection: sqlite3.Connection, folder: Path, name: str) -> None:
    """Read a run and put it in, in place of what was known of it; inside a transaction."""
    stamp = _stamp(folder)
    same = "SELECT 1 FROM runs WHERE folder = ? AND stamp = ?"
    if not stamp or connection.execute(same, (name, stamp)).fetchone():
        return  # gone meanwhile, or another process was faster
    _forget(connection, name)
    try:
        record = read_record(folder)
    except ConfigError as error:
        row = (name, stamp, _id_of(name), "", "", "", 0, None, None)
        _insert(connection, "runs", [(None, *row, "unreadable", error.message, b"{}", "")])
        return
    _insert(connection, "runs", [(None, *_run_row(name, stamp, record))])
    key = "SELECT key FROM runs WHERE folder = ?"
    (run,) = connection.execute(key, (name,)).fetchone()
    _insert(connection, "launches", _launch_rows(run, record))
    _insert(connection, "points", _point_rows(connection, run, record))


def _put_alone(connection: sqlite3.Connection, folder: Path, name: str) -> None:
    with transaction(connection):
        _put(connection, folder, name)


def _id_of(name: str) -> str:
    """The id of a run by its folder's name: `1a2b3c4d`, of a side `1a2b3c4d-candidate`."""
    folder, _, side = name.partition("/")
    return f"{run_id_of(Path(folder))}-{side}" if side else run_id_of(Path(folder))


def _insert(connection: sqlite3.Connection, table: str, rows: Sequence[tuple[object, ...]]) -> None:
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", rows)


def _run_row(folder: str, stamp: str, record: RunRecord) -> tuple[object, ...]:
    key = record.fingerprint
    if stamp.startswith(JOURNAL_FILE):
        state = "cut"
    else:
        state = "not judged" if record.verdict is None else record.verdict.outcome
    info = msgspec.json.encode(record.info)
    return (
        *(folder, stamp, record.id or _id_of(folder), record.started_at),
        *(key.deployment, record.scenario, key.seed, key.numerics, key.machine, state, "", info),
        " ".join(_unfit(record)),
    )


def _unfit(record: RunRecord) -> list[str]:
    """The kinds of metrics (`latency`, `memory`) that this machine was not fit to measure."""
    state = record.machine_state
    return [] if state is None else sorted({kind for one in state.warnings for kind in one.strikes})


def _launch_rows(run: int, record: RunRecord) -> list[tuple[object, ...]]:
    return [
        (
            *(run, one.variant, one.trial, record.digests.get(one.variant, "")),
            "" if one.failure is None else one.failure.kind,
        )
        for one in record.launches
    ]


def _point_rows(
    connection: sqlite3.Connection, run: int, record: RunRecord
) -> list[tuple[object, ...]]:
    """Measurements of launches that lived; where one failed, its values mean nothing."""
    lived = {(one.variant, one.trial) for one in record.launches if one.failure is None}
    kept = [m for m in record.measurements if (m.variant, m.trial) in lived]
    series = {
        format_series(m.name, m.labels): (m.name, msgspec.json.encode(m.labels)) for m in kept
    }
    connection.executemany(
        "INSERT OR IGNORE INTO series VALUES (NULL, ?, ?, ?)",
        [(text, *parts) for text, parts in series.items()],
    )
    keys = dict(connection.execute("SELECT series, key FROM series").fetchall())
    return [
        (
            *(keys[format_series(m.name, m.labels)], run, m.variant, m.trial),
            *(_stored_value(m.value), m.quantum, m.terms),
        )
        for m in kept
    ]


def _stored_value(value: float | str) -> float | str:
    if isinstance(value, str):
        return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return float(value) if abs(value) > _MAX_INTEGER else value


def _runs(connection: sqlite3.Connection, runs_folder: Path) -> dict[str, StoredRun]:
    """Every run by its folder, oldest first."""
    rows = connection.execute(
        "SELECT folder, id, started_at, deployment, scenario, seed, numerics, machine, state, "
        "note, info, unfit FROM runs ORDER BY started_at, folder"
    ).fetchall()
    found = {}
    names = [field.name for field in msgspec.structs.fields(StoredRun)]
    for row in rows:
        plain = dict(zip(names, row, strict=True))
        plain |= {"info": msgspec.json.decode(plain["info"]), "unfit": plain["unfit"].split()}
        run = msgspec.convert(plain, StoredRun)
        if run.state == "cut" and is_driven(runs_folder / run.folder):
            run = msgspec.structs.replace(run, state="in progress")
        found[run.folder] = run
    return found


def _read(connection: sqlite3.Connection, runs_folder: Path, selector: Selector) -> Read:
    runs = _runs(connection, runs_folder)
    digests: dict[tuple[str, str], str] = {}
    alive: set[tuple[str, str]] = set()
    failures: dict[tuple[str, str], str] = {}
    launches = (
        "SELECT folder, variant, digest, failure FROM launches JOIN runs ON runs.key = run "
        "ORDER BY trial"
    )
    for folder, variant, digest, failure in connection.execute(launches):
        digests[folder, variant] = digest
        if failure:
            failures.setdefault((folder, variant), failure)
        else:
            alive.add((folder, variant))
    values: dict[tuple[str, str, str], list[Sample]] = {}
    named = "SELECT key, series, labels FROM series WHERE name = ? ORDER BY series"
    for key, series, raw_labels in connection.execute(named, (selector.name,)).fetchall():
        labels = msgspec.json.decode(raw_labels, type=dict[str, str])
        if not selector.accepts(selector.name, labels):
            continue
        selected = connection.execute(
            "SELECT folder, variant, value, quantum, terms FROM points "
            "JOIN runs ON runs.key = run WHERE series = ? ORDER BY run, variant, trial",
            (key,),
        )
        for folder, variant, value, quantum, terms in selected:
            sample = Sample(value, quantum, terms)
            values.setdefault((folder, variant, series), []).append(sample)
    order = {folder: i for i, folder in enumerate(runs)}
    points = [
        Point(runs[folder], variant, digests.get((folder, variant), ""), series, tuple(samples))
        for (folder, variant, series), samples in values.items()
        if folder in runs
    ]
    return Read(
        points=tuple(sorted(points, key=lambda p: order[p.run.folder])),
        failed=tuple(
            FailedVariant(runs[folder], variant, digests[folder, variant], kind)
            for (folder, variant), kind in failures.items()
            if (folder, variant) not in alive and folder in runs
        ),
        unreadable=tuple(run for run in runs.values() if run.state == "unreadable"),
        names=tuple(
            series
            for (series,) in connection.execute(
                "SELECT series FROM series WHERE EXISTS "
                "(SELECT 1 FROM points WHERE points.series = series.key) "
                "ORDER BY name != ?, series",
                (selector.name,),
            )
        ),
        runs=len(runs),
    )
