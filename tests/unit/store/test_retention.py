"""What `clean` may remove, and what it must leave whatever the limits."""

from __future__ import annotations

import datetime as dt
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.store.history import stored_runs
from benchsuite.store.liveness import RECENT_SECONDS, in_progress
from benchsuite.store.records import RECORD_FILE, RunFolder
from benchsuite.store.retention import (
    Limits,
    RunFolderSize,
    choose,
    cited_runs,
    remove,
    survey,
)
from tests.unit.store.run_example import FIRST_DAY, record, store

NOW = FIRST_DAY + dt.timedelta(days=10)


def look(runs: Path, cited: tuple[str, ...] = ()) -> list[RunFolderSize]:
    """The survey of a folder of runs."""
    return survey(runs, stored_runs(runs), cited)


def doomed(runs: Path, limits: Limits, cited: tuple[str, ...] = ()) -> list[str]:
    """Names of the folders that limits would remove."""
    return [one.run.path.name for one in choose(look(runs, cited), limits, NOW)[0]]


@pytest.fixture
def ten(tmp_path: Path) -> list[Path]:
    """Ten runs, a day apart."""
    return [store(tmp_path, record({"kv_mib": [1]}, day=day)) for day in range(10)]


def test_by_age_by_number_and_by_size(tmp_path: Path, ten: list[Path]) -> None:
    """The oldest go; of several limits each counts."""
    names = [path.name for path in ten]
    size = look(tmp_path)[0].size_bytes
    assert size > 100
    assert doomed(tmp_path, Limits(older_than_seconds=7.5 * 86400)) == names[:3]
    assert doomed(tmp_path, Limits(keep=4)) == names[:6]
    total = sum(run.size_bytes for run in look(tmp_path))
    assert doomed(tmp_path, Limits(max_bytes=total - 1)) == names[:1]
    assert doomed(tmp_path, Limits(max_bytes=0)) == names
    assert doomed(tmp_path, Limits(older_than_seconds=7.5 * 86400, keep=9)) == names[:3]
    assert doomed(tmp_path, Limits()) == []


def test_number_counts_each_deployment_and_scenario(tmp_path: Path, ten: list[Path]) -> None:
    """A scenario that is run once a year keeps its history beside one that is run daily."""
    rare = store(tmp_path, record({"kv_mib": [1]}, day=-300, scenario="rare"))
    names = [path.name for path in ten]
    assert doomed(tmp_path, Limits(keep=2)) == names[:8]
    assert rare.is_dir()


def test_what_a_baseline_cites_stays(tmp_path: Path, ten: list[Path]) -> None:
    """Even alone above the size; also by an older part of a file, and in one with conflicts."""
    ids = [path.name.rsplit("-", 1)[1] for path in ten]
    folder = tmp_path / "baselines" / "tiny" / "s"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(
        f'<<<<<<< ours\n"info": {{"run": "{ids[0]}"}},\n=======\n"info": {{"run" : "{ids[1]}"}},\n'
        f'>>>>>>> theirs\n"earlier": [{{"info": {{"run":"{ids[2]}"}}}}]\n'
    )
    cited = tuple(cited_runs(tmp_path / "baselines"))
    assert sorted(cited) == sorted(ids[:3])
    assert doomed(tmp_path, Limits(max_bytes=0), cited) == [path.name for path in ten[3:]]
    spared = choose(look(tmp_path, cited), Limits(keep=0), NOW)[1]
    assert [run.kept_because for run in spared] == ["a baseline cites it"] * 3


def test_a_run_in_progress_stays(tmp_path: Path, ten: list[Path]) -> None:
    """Its journal is held, or it has no record yet and is young."""
    young = store(tmp_path, record({"kv_mib": [1]}, day=-5), finished=False)
    running = RunFolder.create(tmp_path, "s", FIRST_DAY)
    with running.open_journal():
        os.utime(running.path / "samples.jsonl", (0, 0))
        names = doomed(tmp_path, Limits(keep=0, max_bytes=0))
        assert young.name not in names
        assert running.path.name not in names
        assert sorted(names) == sorted(path.name for path in ten)


def test_a_folder_of_two_sides_is_one_run(tmp_path: Path) -> None:
    """It stays while a side's journal is held or a baseline cites a side, and then goes whole."""
    folder = RunFolder.create(tmp_path, "s", FIRST_DAY)
    folder.open_journal().close()
    (folder.path / RECORD_FILE).write_text("{}")
    side = RunFolder(folder.path / "candidate", f"{folder.id}-candidate")
    side.path.mkdir()
    with side.open_journal():
        assert doomed(tmp_path, Limits(keep=0)) == []
    assert doomed(tmp_path, Limits(keep=0), (side.id,)) == []
    assert doomed(tmp_path, Limits(keep=0), (f"{folder.id}0",)) == [folder.path.name]
    (run,) = look(tmp_path)
    assert remove(run) is None
    assert list(tmp_path.glob("2026*")) == []


def test_a_cut_run_goes_once_it_is_old(tmp_path: Path) -> None:
    """Nobody holds its journal, and nothing was written for an hour."""
    folder = store(tmp_path, record({"kv_mib": [1]}), finished=False)
    now = time.time()
    assert in_progress(folder, now=now)
    assert not in_progress(folder, now=now + RECENT_SECONDS + 60)
    for path in (*folder.iterdir(), folder):
        os.utime(path, (now - 2 * RECENT_SECONDS,) * 2)
    assert doomed(tmp_path, Limits(keep=0)) == [folder.name]


def test_nothing_but_run_folders_is_seen(tmp_path: Path) -> None:
    """Other names, files, folders without a record, and links to real runs."""
    real = store(tmp_path / "elsewhere", record({"kv_mib": [1]}))
    runs = tmp_path / "runs"
    (runs / "notes").mkdir(parents=True)
    (runs / "notes" / RECORD_FILE).write_text("{}")
    (runs / "20261001T120000Z-s-aaaaaaaa").mkdir()
    (runs / "20261001T120000Z-s-bbbbbbbb").write_text("")
    (runs / real.name).symlink_to(real)
    assert look(runs) == []


def test_removing_follows_no_link(tmp_path: Path) -> None:
    """What links point to stays, and does not count as size."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"x" * 100_000)
    folder = store(tmp_path / "runs", record({"kv_mib": [1]}))
    (folder / "link").symlink_to(outside)
    (folder / "file").symlink_to(outside / "precious")
    (folder / "sub").mkdir()
    (folder / "sub" / "deep").symlink_to(outside)
    (run,) = look(tmp_path / "runs")
    assert run.size_bytes < 50_000
    assert remove(run) is None
    assert not folder.exists()
    assert (outside / "precious").stat().st_size == 100_000


def test_a_removal_that_failed_can_be_taken_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record goes last, so the folder is still known as a run."""
    folder = store(tmp_path, record({"kv_mib": [1]}))
    (folder / "server.B.1.log").write_text("log")
    (run,) = look(tmp_path)
    real = Path.unlink

    def unlink(self: Path, missing_ok: bool = False) -> None:
        if self.name == "samples.jsonl":
            raise PermissionError(13, "Permission denied")
        real(self, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    assert remove(run) == "Permission denied"
    monkeypatch.undo()
    assert (folder / RECORD_FILE).exists()
    assert not (folder / "server.B.1.log").exists()
    (run,) = look(tmp_path)
    assert remove(run) is None
    assert remove(run) is None  # gone already


def test_a_run_that_began_since_the_survey_stays(tmp_path: Path) -> None:
    """Removing looks again."""
    folder = RunFolder.create(tmp_path, "s", FIRST_DAY)
    folder.open_journal().close()
    folder.write_record(record({}))
    (run,) = look(tmp_path)
    with folder.open_journal():
        assert remove(run) == "it is in progress"
    assert folder.path.is_dir()


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 1000), st.booleans()), max_size=12),
    st.none() | st.integers(0, 12),
    st.none() | st.integers(0, 6000),
    st.none() | st.integers(0, 40),
)
def test_limits_hold_and_nothing_protected_goes(
    made: list[tuple[int, int, bool]], keep: int | None, size: int | None, days: int | None
) -> None:
    """Whatever the runs and the limits, what is left keeps them as far as protection lets it."""
    runs = [
        RunFolderSize(
            Path(f"r{i}"),
            f"{i}",
            NOW - dt.timedelta(days=age, hours=1),
            weight,
            ("tiny", "s"),
            "a baseline cites it" if cited else "",
        )
        for i, (age, weight, cited) in enumerate(sorted(made, reverse=True))
    ]
    limits = Limits(None if days is None else days * 86400.0, keep, size)
    gone, spared = choose(runs, limits, NOW)
    paths = {one.run.path for one in gone}
    assert all(not one.run.kept_because for one in gone)
    assert all(run.kept_because for run in spared)
    left = [run for run in runs if run.path not in paths]
    free = [run for run in left if not run.kept_because]
    if keep is not None:
        assert len(free) <= keep
    if size is not None and free:
        assert sum(run.size_bytes for run in left) <= size
    if days is not None:
        assert all((NOW - run.started_at).days < days for run in free)
