"""Opening the history file, whatever state it is in.

Knows its tables, and nothing of what they hold.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

HISTORY_SCHEMA = 2
"""Version of the tables. 1: first; 2: values that are not a number. A file of any other
version is built anew."""

WAIT_SECONDS = 10.0
"""For another process that writes; a record takes some milliseconds."""

_TABLES = """
CREATE TABLE runs (
    key INTEGER PRIMARY KEY, folder TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL, id TEXT NOT NULL,
    started_at TEXT NOT NULL, deployment TEXT NOT NULL, scenario TEXT NOT NULL,
    seed INTEGER NOT NULL, numerics TEXT, machine TEXT, state TEXT NOT NULL, note TEXT NOT NULL,
    info BLOB NOT NULL, unfit TEXT NOT NULL
);
CREATE TABLE launches (
    run INTEGER NOT NULL, variant TEXT NOT NULL, trial INTEGER NOT NULL, digest TEXT NOT NULL,
    failure TEXT NOT NULL, PRIMARY KEY (run, variant, trial)
) WITHOUT ROWID;
CREATE TABLE series (
    key INTEGER PRIMARY KEY, series TEXT NOT NULL UNIQUE, name TEXT NOT NULL, labels BLOB NOT NULL
);
CREATE TABLE points (
    series INTEGER NOT NULL, run INTEGER NOT NULL, variant TEXT NOT NULL, trial INTEGER NOT NULL,
    value, quantum REAL NOT NULL, terms INTEGER NOT NULL,
    PRIMARY KEY (series, run, variant, trial)
) WITHOUT ROWID;
CREATE INDEX points_by_run ON points (run);
"""


_Answer = TypeVar("_Answer")


def with_file(
    file: Path, job: Callable[[sqlite3.Connection], _Answer], *, check: bool = False
) -> _Answer:
    """Do something with the file; one that is damaged is removed first, and made anew.

    Raises:
        sqlite3.Error: Another process holds it for too long, or the disk refuses.
    """
    judged = _identity(file)
    try:
        return _once(file, job, check=check)
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise
    if _identity(file) == judged:  # else another process has already replaced it
        file.with_name(f"{file.name}-journal").unlink(missing_ok=True)
        file.unlink(missing_ok=True)
    return _once(file, job, check=check)


def _once(file: Path, job: Callable[[sqlite3.Connection], _Answer], *, check: bool) -> _Answer:
    connection = sqlite3.connect(file, timeout=WAIT_SECONDS, isolation_level=None)
    with contextlib.closing(connection):
        connection.execute("PRAGMA synchronous = NORMAL")
        if check and connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise sqlite3.DatabaseError("the history is damaged")
        with transaction(connection):
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version != HISTORY_SCHEMA:
                _drop_tables(connection)
                make_tables(connection)
        return job(connection)


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether the file itself is bad, and not another process, the disk or a permission."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return True
    damage = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
    return (code & 0xFF) in (*damage, sqlite3.SQLITE_SCHEMA, sqlite3.SQLITE_FORMAT)


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing, waiting for other writers first."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _drop_tables(connection: sqlite3.Connection) -> None:
    kinds = connection.execute(
        "SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view') "
        "AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    for kind, name in kinds:
        quoted = name.replace('"', '""')
        connection.execute(f'DROP {kind} IF EXISTS "{quoted}"')


def make_tables(connection: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";"):
        if statement.strip():
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {HISTORY_SCHEMA}")
