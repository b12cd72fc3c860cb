"""Run folders, journals and records."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import tarfile
import threading
import zipfile
from pathlib import Path

import msgspec
import pytest

from benchsuite.errors import ConfigError, MachineError, UsageError
from benchsuite.model.record import Measurement, RunRecord
from benchsuite.store.records import (
    Journal,
    RunFolder,
    find_run,
    list_runs,
    read_journal,
    read_record,
    run_id_of,
    write_record,
)
from tests.unit.store.record_example import RECORD

WHEN = dt.datetime(2026, 11, 3, 10, 0, 0, tzinfo=dt.UTC)


@pytest.fixture
def record() -> RunRecord:
    """A small record."""
    kv = Measurement("kv_mib", 16.0, "MiB", "B", quantum=0.01)
    return msgspec.structs.replace(RECORD, measurements=(kv,))


def test_two_runs_of_one_second_get_two_folders(tmp_path: Path) -> None:
    """Names sort by time and end with the id."""
    runs = [RunFolder.create(tmp_path / "runs", "scenarioB", WHEN) for _ in range(20)]
    assert len({run.path for run in runs}) == 20
    assert all(run.path.name.startswith("20261103T100000Z-scenarioB-") for run in runs)
    assert all(run_id_of(run.path) == run.id for run in runs)


def test_a_runs_folder_that_is_a_file_is_the_machines_failure(tmp_path: Path) -> None:
    """It names the place."""
    (tmp_path / "runs").write_text("")
    with pytest.raises(MachineError, match="runs: cannot write here"):
        RunFolder.create(tmp_path / "runs", "scenarioB", WHEN)


def test_log_paths_are_safe(tmp_path: Path) -> None:
    """Whatever a variant is called."""
    run = RunFolder.create(tmp_path, "s", WHEN)
    assert run.log_path("b", 2).name == "server.b.2.log"
    assert run.log_path("../x", 1).parent == run.path


def test_a_journal_is_readable_while_it_is_written(tmp_path: Path) -> None:
    """Each event is with the OS as soon as it is written."""
    path = tmp_path / "samples.jsonl"
    with Journal(path) as journal:
        journal.write("turn", ns=5, session="A")
        events = read_journal(path)
    assert [e["kind"] for e in events] == ["opened", "turn"]
    assert events[1] == {"ns": 5, "kind": "turn", "session": "A"}
    assert isinstance(events[0]["ns"], int)


def test_a_journal_that_is_opened_again_goes_on(tmp_path: Path) -> None:
    """Nothing is overwritten."""
    path = tmp_path / "samples.jsonl"
    for _ in range(2):
        with Journal(path) as journal:
            journal.write("x")
    assert [e["kind"] for e in read_journal(path)] == ["opened", "x", "opened", "x"]


def test_threads_do_not_mix_their_events(tmp_path: Path) -> None:
    """Every line stays whole."""
    path = tmp_path / "samples.jsonl"
    with Journal(path) as journal:

        def write() -> None:
            for i in range(50):
                journal.write("event", text="x" * 500, i=i)

        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(read_journal(path)) == 201


@pytest.mark.parametrize("tail", [b'{"ns":1,"ki', b'{"ns":1,"kind":"x"}', b"\0\0\0\n", b"\0\0"])
def test_a_cut_last_line_ends_reading(tmp_path: Path, tail: bytes) -> None:
    """As a killed process or a crashed machine leaves it."""
    path = tmp_path / "samples.jsonl"
    Journal(path).close()
    path.write_bytes(path.read_bytes() + tail)
    assert [e["kind"] for e in read_journal(path)] == ["opened"]


def test_a_broken_line_inside_is_an_error_at_its_line(tmp_path: Path) -> None:
    """Only the last may be broken."""
    path = tmp_path / "samples.jsonl"
    path.write_bytes(b'{"ns":1,"kind":"a"}\n[]\n{"ns":1,"kind":"b"}\n')
    with pytest.raises(ConfigError, match=r"samples.jsonl:2: is no event"):
        read_journal(path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_fails_the_run() -> None:
    """A lost event is never only logged."""
    with pytest.raises(MachineError, match="No space left"):
        Journal(Path("/dev/full"))


def test_a_killed_run_keeps_what_it_measured(tmp_path: Path, record: RunRecord) -> None:
    """Killed without warning between two events, the record is made of the journal."""
    run = RunFolder.create(tmp_path, "scenarioB", WHEN)
    begin = msgspec.structs.replace(record, measurements=())
    (tmp_path / "begin.json").write_bytes(msgspec.json.encode(begin))
    script = (
        "import os, sys, msgspec\n"
        "from pathlib import Path\n"
        "from benchsuite.model.record import Measurement, RunRecord\n"
        "from benchsuite.store.records import Journal\n"
        "journal = Journal(Path(sys.argv[1]) / 'samples.jsonl')\n"
        "begin = Path(sys.argv[2]).read_bytes()\n"
        "journal.write('begin', record=msgspec.json.decode(begin, type=RunRecord))\n"
        "journal.write('measurement', measurement=Measurement('kv_mib', 16.0, 'MiB', 'B'))\n"
        "os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(run.path), str(tmp_path / "begin.json")])
    found = read_record(run.path)
    assert found.interrupted
    assert [m.name for m in found.measurements] == ["kv_mib"]
    assert "killed" in found.warnings[-1]


def test_a_run_killed_at_once_says_so(tmp_path: Path) -> None:
    """There is nothing to report."""
    RunFolder.create(tmp_path, "s", WHEN).open_journal().close()
    with pytest.raises(ConfigError, match="killed before it measured anything"):
        read_record(list_runs(tmp_path)[0])


def test_a_record_comes_back_as_it_was(tmp_path: Path, record: RunRecord) -> None:
    """From its folder and from its file."""
    run = RunFolder.create(tmp_path, "scenarioB", WHEN)
    path = run.write_record(record)
    assert read_record(run.path) == record
    assert read_record(path) == record


def test_a_record_from_before_sources_were_kept_is_read(tmp_path: Path, record: RunRecord) -> None:
    """Its measurements say nothing of where they came from; one that says so keeps it."""
    body = msgspec.to_builtins(record)
    del body["measurements"][0]["source"]
    path = tmp_path / "record.json"
    path.write_bytes(msgspec.json.encode(body))
    assert read_record(path).measurements[0].source == ""
    body["measurements"][0]["source"] = "log"
    path.write_bytes(msgspec.json.encode(body))
    assert read_record(path).measurements[0].source == "log"


@pytest.mark.parametrize("suffix", [".zip", ".tar", ".tar.gz"])
def test_an_archive_of_a_run_is_read(tmp_path: Path, record: RunRecord, suffix: str) -> None:
    """As CI keeps it, the folder inside or not."""
    source = tmp_path / "record.json"
    write_record(source, record)
    archive = tmp_path / f"run{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(archive, "w") as made:
            made.write(source, "20261103T100000Z-scenarioB-5eed0001/record.json")
    else:
        with tarfile.open(archive, "w:gz" if suffix.endswith("gz") else "w") as tar:
            tar.add(source, "record.json")
    assert read_record(archive) == record


def test_an_archive_must_hold_one_record(tmp_path: Path) -> None:
    """None or two are errors."""
    for count in (0, 2):
        archive = tmp_path / f"{count}.zip"
        with zipfile.ZipFile(archive, "w") as made:
            made.writestr("notes.txt", "")
            for i in range(count):
                made.writestr(f"{i}/record.json", "{}")
        with pytest.raises(ConfigError, match="expected one") as caught:
            read_record(archive)
        assert ("one side" in str(caught.value.hint)) == (count == 2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a run record"),
        (b"PK\x03\x04 broken", "is not a run record"),
        (b"[]", "is not a run record"),
        (b"{}", "no schema_version"),
        (b'{"schema_version": 99}', "newer benchsuite: a run record with schema_version 99"),
        (b'{"schema_version": "1"}', "has schema_version '1', expected 1"),
        (b'{"schema_version": 1}', "missing required field"),
        (b"\xff\xfe", "is not a run record"),
    ],
)
def test_what_is_no_record_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    """With the file's name and what was wrong."""
    path = tmp_path / "record.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        read_record(path)
    assert caught.value.where == str(path)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    """And so is what does not exist."""
    with pytest.raises(ConfigError, match="holds neither"):
        read_record(tmp_path)
    with pytest.raises(ConfigError, match="no such run"):
        read_record(tmp_path / "nothing")


def make_runs(folder: Path, record: RunRecord, names: list[str]) -> None:
    """Run folders of these names."""
    for name in names:
        (folder / name).mkdir(parents=True)
        write_record(folder / name / "record.json", record)


def test_runs_are_found_by_id_name_and_last(tmp_path: Path, record: RunRecord) -> None:
    """An empty folder is no run."""
    names = ["20261103T100000Z-s-aabb0001", "20261103T100001Z-a-x-aacc0002"]
    make_runs(tmp_path, record, names)
    (tmp_path / "20261103T100009Z-s-ffff0003").mkdir()
    assert find_run("last", tmp_path).name == names[1]
    assert find_run("aab", tmp_path).name == names[0]
    assert find_run("aacc0002", tmp_path).name == names[1]
    assert find_run(names[0], tmp_path).name == names[0]
    assert find_run(str(tmp_path / names[0]), tmp_path / "elsewhere") == tmp_path / names[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("aa", "begins the id of 2 runs: aabb0001, aacc0002"),
        ("zz", "no run 'zz'"),
        ("", "no run"),
        ("x" * 5000, "no run"),
    ],
)
def test_an_unclear_run_is_refused(
    tmp_path: Path, record: RunRecord, text: str, message: str
) -> None:
    """The message lists what could be meant."""
    make_runs(tmp_path, record, ["20261103T100000Z-s-aabb0001", "20261103T100001Z-s-aacc0002"])
    with pytest.raises(UsageError, match=message):
        find_run(text, tmp_path)


def test_last_without_runs_is_refused(tmp_path: Path) -> None:
    """It says how to make one."""
    with pytest.raises(UsageError, match="no run yet") as caught:
        find_run("last", tmp_path / "none")
    assert "benchsuite run" in (caught.value.hint or "")
