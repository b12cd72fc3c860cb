"""Several files change as one, also where the writer is killed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchsuite.errors import ConfigError, MachineError
from benchsuite.regular import read_regular
from benchsuite.store import commits, trees
from benchsuite.store.commits import COMMIT_FILE, carried_out, commit, finish, pending
from benchsuite.store.files import write_atomic
from benchsuite.store.trees import FolderTree

CHANGES: dict[str, bytes | None] = {"s/a.json": b"new", "s/b.txt": None, "s/c.txt": b"come"}
NEW = {"s/a.json": b"new", "s/c.txt": b"come"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files, before."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a.json").write_bytes(b"old")
    (tmp_path / "s" / "b.txt").write_bytes(b"go")
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    """What is on disk."""
    found = sorted(p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in found}


def every(path: str) -> bool:
    """What a snapshot is to hold."""
    return path.endswith((".json", ".txt"))


def stop(*_: object) -> None:
    """What stands for a kill right after the journal was written."""
    raise KeyboardInterrupt


def test_all_of_it_is_carried_out(folder: Path) -> None:
    """And nothing else is left."""
    commit(folder, CHANGES)
    assert files(folder) == NEW
    assert pending(folder) is None


def test_no_change_writes_nothing(tmp_path: Path) -> None:
    """Not even a folder."""
    commit(tmp_path / "x", {})
    assert list(tmp_path.iterdir()) == []


def test_readers_see_what_counts_before_it_is_carried_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File by file, in listings, and in a snapshot; the next writer carries it out."""
    monkeypatch.setattr(commits, "_carry_out", stop)
    with pytest.raises(KeyboardInterrupt):
        commit(folder, CHANGES)
    monkeypatch.undo()
    assert files(folder)["s/a.json"] == b"old"
    on_disk = FolderTree(folder)
    for tree in (on_disk, on_disk.snapshot(every, "s"), on_disk.snapshot(every)):
        assert tree.read("s/a.json") == b"new"
        assert tree.read("s/b.txt") is None
        assert tree.names("s") == ["a.json", "c.txt"]
        assert [p for p in tree.paths() if every(p)] == ["s/a.json", "s/c.txt"]
        assert tree.where("s/c.txt") == str(folder / "s" / "c.txt")
    (folder / "s" / ".a.json.0123abcd.tmp").touch()
    assert finish(folder)
    assert files(folder) == NEW
    assert not finish(folder)


def left_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Commit, and be killed right after the change counts; returns the journal."""
    with monkeypatch.context() as patch:
        patch.setattr(commits, "_carry_out", stop)
        with pytest.raises(KeyboardInterrupt):
            commit(folder, CHANGES)
    return (folder / COMMIT_FILE).read_bytes()


def test_carrying_out_twice_is_carrying_out_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer may be killed while it carries out what another one left."""
    journal = left_behind(folder, monkeypatch)
    for _ in range(2):
        (folder / COMMIT_FILE).write_bytes(journal)
        assert finish(folder)
        assert files(folder) == NEW


def test_a_journal_does_not_count_for_the_files_of_another_branch(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version control may change the files under it; then a person has to look."""
    journal = left_behind(folder, monkeypatch)
    (folder / "s" / "a.json").write_bytes(b"of another branch")
    for look in (lambda: pending(folder), lambda: finish(folder)):
        with pytest.raises(ConfigError, match=r"s/a\.json was changed by somebody else") as caught:
            look()
        assert "remove that file" in (caught.value.hint or "")
    assert files(folder)["s/a.json"] == b"of another branch"
    with pytest.raises(ConfigError, match="changed by somebody else"):
        carried_out({COMMIT_FILE: journal, "s/a.json": b"other"}, str)


def test_a_journal_that_was_committed_counts_at_its_revision(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever adds everything after a kill adds the journal too."""
    journal = left_behind(folder, monkeypatch)
    before = {"s/a.json": b"old", "s/b.txt": b"go", "s/d.txt": b"stays"}
    after = {**NEW, "s/d.txt": b"stays"}
    assert carried_out({**before, COMMIT_FILE: journal}, str) == after
    assert carried_out(before, str) == before


def test_a_reader_that_is_overtaken_by_writers_looks_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its look at the journal and that at the files, two accepts may have ended."""
    left_behind(folder, monkeypatch)
    real = read_regular
    once = [True]

    def read_and_write(path: Path) -> bytes:
        data = real(path)
        if path.name == COMMIT_FILE and once:
            once.clear()
            finish(folder)
            commit(folder, {"s/a.json": b"newest"})
        return data

    monkeypatch.setattr(commits, "read_regular", read_and_write)
    assert pending(folder) is None
    assert FolderTree(folder).read("s/a.json") == b"newest"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no journal of an accept"),
        (b"\0\0\0", "is no journal of an accept"),
        (b'{"schema": 1}', "missing required field"),
        (b'{"schema": 2, "files": {}}', "newer benchsuite: the journal of an accept with schema 2"),
        (b'{"schema": 1, "files": {"../x": STEP}}', "outside of its folder"),
        (b'{"schema": 1, "files": {"/etc/x": STEP}}', "outside of its folder"),
        (b'{"schema": 1, "files": {"C:x": STEP}}', "outside of its folder"),
        (b'{"schema": 1, "files": {"a": 5}}', "is no journal of an accept"),
    ],
)
def test_a_journal_that_cannot_be_read_is_never_passed_over(
    folder: Path, content: bytes, message: str
) -> None:
    """Neither by readers nor by the next writer: nobody knows which state counts."""
    step = b'{"before": null, "after": null}'
    (folder / COMMIT_FILE).write_bytes(content.replace(b"STEP", step))
    for look in (
        lambda: finish(folder),
        lambda: FolderTree(folder).read("s/a.json"),
        lambda: FolderTree(folder).snapshot(every),
    ):
        with pytest.raises(ConfigError, match=message) as caught:
            look()
        assert caught.value.where == str(folder / COMMIT_FILE)
    assert files(folder)["s/a.json"] == b"old"


def test_a_disk_that_refuses_leaves_the_change_to_the_next_writer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be carried out now still counts."""

    def refuse(path: Path, data: bytes) -> None:
        if path.name == "c.txt":
            raise MachineError("the disk is full")
        write_atomic(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(commits, "write_atomic", refuse)
        with pytest.raises(MachineError, match="full"):
            commit(folder, CHANGES)
    assert FolderTree(folder).read("s/c.txt") == b"come"
    assert finish(folder)
    assert files(folder) == NEW


def test_what_stands_in_the_way_refuses_before_anything_changes(folder: Path) -> None:
    """A folder where a file should be."""
    (folder / "s" / "c.txt").mkdir()
    with pytest.raises(ConfigError, match="cannot read it"):
        commit(folder, CHANGES)
    assert files(folder) == {"s/a.json": b"old", "s/b.txt": b"go"}


def test_a_name_that_differs_in_case_only_is_not_lost(folder: Path) -> None:
    """Where file names know no case, what goes must go before what comes."""
    commit(folder, {"s/B.txt": b"come", "s/b.txt": None})
    assert (folder / "s" / "B.txt").read_bytes() == b"come"


def test_a_snapshot_is_taken_again_where_somebody_writes_meanwhile(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An accept between the reading of two files is not seen by halves."""
    real = read_regular
    once = [True]

    def read_and_write(path: Path) -> bytes:
        data = real(path)
        if path.name == "a.json" and once:
            once.clear()
            commit(folder, {"s/a.json": b"new", "s/b.txt": b"newer"})
        return data

    monkeypatch.setattr(trees, "read_regular", read_and_write)
    tree = FolderTree(folder).snapshot(every, "s")
    assert not once
    assert (tree.read("s/a.json"), tree.read("s/b.txt")) == (b"new", b"newer")


@pytest.mark.skipif(sys.platform == "win32", reason="needs permissions of POSIX")
def test_a_folder_that_cannot_be_written_can_be_read(folder: Path) -> None:
    """As installed baselines are: reading takes no lock and leaves nothing."""
    (folder / "s").chmod(0o555)
    folder.chmod(0o555)
    try:
        assert FolderTree(folder).snapshot(every, "s").read("s/a.json") == b"old"
    finally:
        folder.chmod(0o755)
        (folder / "s").chmod(0o755)
