"""The history file: rebuilt, waited for or done without, and always what the folders say."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from benchsuite.metrics.select import parse_selector
from benchsuite.model.ab import SIDES
from benchsuite.model.record import Info
from benchsuite.store import history
from benchsuite.store import history_file as history_file_module
from benchsuite.store.ab import AbFolder
from benchsuite.store.history import history_file, read_history, remember, stored_runs
from benchsuite.store.liveness import RECENT_SECONDS
from benchsuite.store.records import RECORD_FILE, Journal, RunFolder, list_runs
from tests.unit.gate import ab_example
from tests.unit.store.run_example import record, store

ROOT = Path(__file__).parents[3]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Where runs live by default, with three runs."""
    folder = tmp_path / ".benchsuite" / "runs"
    for day in range(3):
        store(folder, record({"kv_mib": [10 + day], "ttft_ms": [5.0, 6.0]}, day=day))
    return folder


def values(runs: Path, metric: str = "kv_mib") -> list[float | str]:
    """Every value of a metric without labels, by runs."""
    read = read_history(runs, parse_selector(metric))
    return [sample.value for point in read.points for sample in point.samples]


def test_every_stored_run_is_a_point(runs: Path) -> None:
    """Oldest first, trials together, beside the folder of runs."""
    assert values(runs) == [10, 11, 12]
    assert values(runs, "ttft_ms") == [5.0, 6.0] * 3
    assert history_file(runs) == runs.parent / "history.sqlite"
    assert history_file(runs).is_file()


def test_a_folder_of_runs_elsewhere_keeps_its_history_inside(tmp_path: Path) -> None:
    """Under a name of our own, so that no file of the user's is taken for it."""
    assert history_file(tmp_path).parent == tmp_path
    assert "benchsuite" in history_file(tmp_path).name


def test_new_changed_and_deleted_runs_are_noticed(runs: Path) -> None:
    """By folder and the record's time and size."""
    assert values(runs) == [10, 11, 12]
    new = store(runs, record({"kv_mib": [13]}, day=3))
    assert values(runs) == [10, 11, 12, 13]
    raw = (new / RECORD_FILE).read_bytes()
    (new / RECORD_FILE).write_bytes(raw.replace(b'"value":13', b'"value":1313'))
    assert values(runs) == [10, 11, 12, 1313]
    shutil.rmtree(new)
    assert values(runs) == [10, 11, 12]


def test_records_are_read_once(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A history that is up to date opens no record."""
    assert values(runs) == [10, 11, 12]
    monkeypatch.setattr(history, "read_record", lambda path: pytest.fail(f"read {path}"))
    assert values(runs) == [10, 11, 12]


def _garbage(file: Path) -> None:
    file.write_bytes(b"no database at all" * 1000)


def _cut_off(file: Path) -> None:
    raw = file.read_bytes()
    file.write_bytes(raw[: len(raw) // 2])


def _overwritten(file: Path) -> None:
    raw = bytearray(file.read_bytes())
    raw[4096:] = os.urandom(len(raw) - 4096)
    file.write_bytes(raw)


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _gone(file: Path) -> None:
    file.unlink()


def _older(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.executescript(
        "DROP TABLE runs; CREATE TABLE runs (other TEXT); CREATE VIEW v AS SELECT 1;"
        "PRAGMA user_version = 0;"
    )
    connection.close()


def _newer(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.executescript("ALTER TABLE runs ADD more TEXT; PRAGMA user_version = 99;")
    connection.close()


def _table_lost(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("DROP TABLE points")
    connection.close()


SPOILERS = [_garbage, _cut_off, _overwritten, _empty, _gone, _older, _newer, _table_lost]


@pytest.mark.parametrize("spoil", SPOILERS)
def test_whatever_happens_to_the_file_is_mended(runs: Path, spoil: Callable[[Path], None]) -> None:
    """Damaged, of another version or gone: the folders are read anew; the file is good again."""
    assert values(runs) == [10, 11, 12]
    spoil(history_file(runs))
    assert values(runs) == [10, 11, 12]
    connection = sqlite3.connect(history_file(runs))
    assert connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
    assert connection.execute("SELECT count(*) FROM runs").fetchone() == (3,)
    connection.close()


@pytest.mark.parametrize("spoil", SPOILERS)
def test_storing_a_run_survives_a_bad_file(runs: Path, spoil: Callable[[Path], None]) -> None:
    """It warns or mends, and the next reading is whole."""
    assert values(runs) == [10, 11, 12]
    spoil(history_file(runs))
    remember(store(runs, record({"kv_mib": [13]}, day=3)))
    assert values(runs) == [10, 11, 12, 13]


def test_a_stored_run_is_taken_up_at_once(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that reading need not."""
    values(runs)
    assert remember(store(runs, record({"kv_mib": [13]}, day=3))) is None
    monkeypatch.setattr(history, "read_record", lambda path: pytest.fail(f"read {path}"))
    assert values(runs) == [10, 11, 12, 13]


def test_without_a_history_storing_makes_none(runs: Path) -> None:
    """Who never asks for a trend gets no file."""
    assert remember(store(runs, record({"kv_mib": [13]}, day=3))) is None
    assert not history_file(runs).exists()


def test_a_lock_is_waited_for(runs: Path) -> None:
    """Another process that writes for a while delays a reading."""
    values(runs)
    store(runs, record({"kv_mib": [13]}, day=3))
    other = sqlite3.connect(history_file(runs), isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    release = threading.Timer(0.5, lambda: other.execute("COMMIT"))
    release.start()
    assert values(runs) == [10, 11, 12, 13]
    release.join()
    other.close()


def test_a_lock_that_stays_is_done_without(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes from the folders, and storing a run only warns."""
    values(runs)
    monkeypatch.setattr(history_file_module, "WAIT_SECONDS", 0.05)
    folder = store(runs, record({"kv_mib": [13]}, day=3))
    other = sqlite3.connect(history_file(runs), isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert "locked" in (remember(folder) or "")
    assert values(runs) == [10, 11, 12, 13]
    other.execute("ROLLBACK")
    other.close()
    assert values(runs) == [10, 11, 12, 13]


def test_a_file_that_cannot_be_written_is_done_without(runs: Path) -> None:
    """A folder stands in its place."""
    history_file(runs).mkdir()
    assert values(runs) == [10, 11, 12]
    assert remember(store(runs, record({"kv_mib": [13]}, day=3))) is not None
    assert values(runs) == [10, 11, 12, 13]


def test_a_run_stored_while_folders_are_listed_stays(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that listed the folders before does not take it for one that is gone."""
    values(runs)
    listed = list_runs(runs)
    assert remember(store(runs, record({"kv_mib": [13]}, day=3))) is None
    monkeypatch.setattr(history, "list_runs", lambda folder: listed)
    values(runs)
    with sqlite3.connect(history_file(runs)) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (4,)
    connection.close()


def test_many_writers_at_once_lose_nothing(runs: Path) -> None:
    """Six processes put five runs each into a history that several of them make."""
    script = (
        "import sys; from pathlib import Path\n"
        "from benchsuite.store.history import read_history, remember\n"
        "from benchsuite.metrics.select import parse_selector\n"
        "from tests.unit.store.run_example import record, store\n"
        "runs = Path(sys.argv[1])\n"
        "read_history(runs, parse_selector('kv_mib'))\n"
        "for day in range(5):\n"
        "    warning = remember(store(runs, record({'kv_mib': [100]}, day=10 + day)))\n"
        "    assert warning is None, warning\n"
    )
    command = [sys.executable, "-c", script, str(runs)]
    processes = [subprocess.Popen(command, cwd=ROOT) for _ in range(6)]
    assert [process.wait(timeout=120) for process in processes] == [0] * 6
    connection = sqlite3.connect(history_file(runs))
    assert connection.execute("SELECT count(*) FROM points WHERE value = 100").fetchone() == (30,)
    connection.close()
    assert values(runs).count(100) == 30


def test_each_side_of_an_ab_is_a_point(runs: Path) -> None:
    """With its own build, until its folder goes; the whole is none, nor is it read twice."""
    values(runs)
    two = ab_example.ab(2)
    folder = AbFolder.create(runs, "scenarioB", dt.datetime(2026, 11, 3, tzinfo=dt.UTC))
    sides = {
        side: msgspec.structs.replace(
            two.side(side), id=f"{folder.folder.id}-{side}", info=Info(build=side)
        )
        for side in SIDES
    }
    folder.write_record(msgspec.structs.replace(two, **sides))
    read = read_history(runs, parse_selector("kv_mib"))
    found = [point for point in read.points if "/" in point.run.folder]
    assert [point.run.info.build for point in found] == ["baseline", "candidate"]
    assert [point.run.id for point in found] == [sides[side].id for side in SIDES]
    assert [len(point.samples) for point in found] == [2, 2]
    assert (read.runs, read.unreadable) == (5, ())
    shutil.rmtree(folder.path)
    assert read_history(runs, parse_selector("kv_mib")).runs == 3


def test_a_side_is_taken_up_at_once(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like any run, under the history of the folder of runs."""
    values(runs)
    folder = AbFolder.create(runs, "scenarioB", dt.datetime(2026, 11, 3, tzinfo=dt.UTC))
    folder.write_record(ab_example.ab(1))
    assert [remember(folder.sides[side].path) for side in SIDES] == [None, None]
    assert not list(folder.path.rglob("*.sqlite"))
    monkeypatch.setattr(history, "read_record", lambda path: pytest.fail(f"read {path}"))
    assert len(stored_runs(runs)) == 5


def test_values_of_launches_that_failed_are_no_points(runs: Path) -> None:
    """A trial that crashed is left out; a variant without any that lived is a failed one."""
    store(runs, record({"kv_mib": [20, 99]}, day=4, failures={2: "crash"}))
    store(runs, record({"kv_mib": [99]}, day=5, failures={1: "hang"}, outcome="server failed"))
    assert values(runs) == [10, 11, 12, 20]
    (failed,) = read_history(runs, parse_selector("kv_mib")).failed
    assert (failed.variant, failed.failure, failed.run.state) == ("B", "hang", "server failed")


def test_a_cut_run_is_read_from_its_journal(runs: Path) -> None:
    """And marked as cut, since nobody writes it any more."""
    folder = store(runs, record({"kv_mib": [13]}, day=3), finished=False)
    long_ago = time.time() - RECENT_SECONDS - 60
    for path in (*folder.iterdir(), folder):
        os.utime(path, (long_ago, long_ago))
    assert values(runs) == [10, 11, 12, 13]
    assert stored_runs(runs)[-1].state == "cut"


@pytest.mark.skipif(sys.platform == "win32", reason="told by age there")
def test_a_run_whose_journal_is_held_is_in_progress(runs: Path) -> None:
    """However old its files look; and finished a moment later, it is read again."""
    made = record({"kv_mib": [13]}, day=3)
    folder = RunFolder.create(runs, "s")
    with folder.open_journal() as journal:
        journal.write("begin", record=made)
        os.utime(journal.path, (0, 0))
        assert "in progress" in {run.state for run in stored_runs(runs)}
    folder.write_record(made)
    assert "in progress" not in {run.state for run in stored_runs(runs)}
    assert 13 in values(runs)


def test_a_record_that_cannot_be_read_is_named_and_harms_no_other(runs: Path) -> None:
    """Damaged, or of a newer version."""
    damaged = store(runs, record({"kv_mib": [13]}, day=3))
    (damaged / RECORD_FILE).write_text('{"schema_version": 999}')
    read = read_history(runs, parse_selector("kv_mib"))
    assert [point.samples[0].value for point in read.points] == [10, 11, 12]
    assert [run.folder for run in read.unreadable] == [damaged.name]
    assert "999" in read.unreadable[0].note


def test_a_run_killed_before_it_measured_is_unreadable(runs: Path) -> None:
    """Its journal holds only its opening."""
    folder = RunFolder.create(runs, "s")
    Journal(folder.path / "samples.jsonl").close()
    assert values(runs) == [10, 11, 12]
    assert [run.state for run in stored_runs(runs)].count("unreadable") == 1


def test_texts_are_kept_as_the_start_of_their_hash(runs: Path) -> None:
    """Long texts do not belong into the history; equal ones stay equal."""
    store(runs, record({"text": ["abc", "abc", "abd"]}, day=3))
    first, second, third = values(runs, "text")
    assert first == second != third
    assert first == "ba7816bf8f01"  # FIPS 180-2, example B.1


def test_huge_counts_are_kept(runs: Path) -> None:
    """Beyond 64 bits as a float."""
    store(runs, record({"kv_cells": [2**70]}, day=3))
    assert values(runs, "kv_cells") == [float(2**70)]


def test_no_folder_is_no_run(tmp_path: Path) -> None:
    """And nothing is made."""
    assert values(tmp_path / "nowhere") == []
    assert list(tmp_path.iterdir()) == []
