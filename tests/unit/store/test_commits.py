"""Several files change as one, also where the writer is killed."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from benchsuite.errors import ConfigError, MachineError
from benchsuite.store import commits
from benchsuite.store.commits import COMMIT_FILE, commit, finish, pending
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
    for tree in (
        FolderTree(folder),
        FolderTree(folder).snapshot("s"),
        FolderTree(folder).snapshot(),
    ):
        assert tree.read("s/a.json") == b"new"
        assert tree.read("s/b.txt") is None
        assert tree.names("s") == ["a.json", "c.txt"]
        assert [p for p in tree.paths() if not p.startswith(".")] == ["s/a.json", "s/c.txt"]
        assert tree.where("s/c.txt") == str(folder / "s" / "c.txt")
    (folder / "s" / ".a.json.0123abcd.tmp").touch()
    assert finish(folder)
    assert files(folder) == NEW
    assert not finish(folder)


def test_carrying_out_twice_is_carrying_out_once(folder: Path) -> None:
    """A writer may be killed while it carries out what another one left."""
    journal = {"schema": 1, "files": CHANGES}
    for _ in range(2):
        (folder / COMMIT_FILE).write_bytes(msgspec.json.encode(journal))
        assert finish(folder)
        assert files(folder) == NEW


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no journal of an accept"),
        (b"\0\0\0", "is no journal of an accept"),
        (b'{"schema": 1}', "missing required field"),
        (b'{"schema": 2, "files": {}}', "newer benchsuite: the journal of an accept with schema 2"),
        (b'{"schema": 1, "files": {"../x": null}}', "outside of its folder"),
        (b'{"schema": 1, "files": {"/etc/x": null}}', "outside of its folder"),
        (b'{"schema": 1, "files": {"C:x": null}}', "outside of its folder"),
        (b'{"schema": 1, "files": {"a": 5}}', "is no journal of an accept"),
    ],
)
def test_a_journal_that_cannot_be_read_is_never_passed_over(
    folder: Path, content: bytes, message: str
) -> None:
    """Neither by readers nor by the next writer: nobody knows which state counts."""
    (folder / COMMIT_FILE).write_bytes(content)
    for look in (
        lambda: finish(folder),
        lambda: FolderTree(folder).read("s/a.json"),
        lambda: FolderTree(folder).snapshot(),
    ):
        with pytest.raises(ConfigError, match=message) as caught:
            look()
        assert caught.value.where == str(folder / COMMIT_FILE)
    assert files(folder)["s/a.json"] == b"old"


def test_a_disk_that_refuses_leaves_the_change_to_the_next_writer(folder: Path) -> None:
    """What cannot be carried out now still counts."""
    (folder / "s" / "c.txt").mkdir()
    with pytest.raises(MachineError):
        commit(folder, CHANGES)
    assert FolderTree(folder).read("s/a.json") == b"new"
    (folder / "s" / "c.txt").rmdir()
    assert finish(folder)
    assert files(folder) == NEW


def test_a_name_that_differs_in_case_only_is_not_lost(folder: Path) -> None:
    """Where file names know no case, what goes must go before what comes."""
    commit(folder, {"s/B.txt": b"come", "s/b.txt": None})
    assert (folder / "s" / "B.txt").read_bytes() == b"come"


def test_a_snapshot_is_taken_again_where_somebody_writes_meanwhile(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An accept between the reading of two files is not seen by halves."""
    real = Path.read_bytes
    once = [True]

    def read_bytes(path: Path) -> bytes:
        data = real(path)
        if path.name == "a.json" and once:
            once.clear()
            commit(folder, {"s/a.json": b"new", "s/b.txt": b"newer"})
        return data

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    tree = FolderTree(folder).snapshot("s")
    assert not once
    assert (tree.read("s/a.json"), tree.read("s/b.txt")) == (b"new", b"newer")


@pytest.mark.skipif(sys.platform == "win32", reason="needs permissions of POSIX")
def test_a_folder_that_cannot_be_written_can_be_read(folder: Path) -> None:
    """As installed baselines are: reading takes no lock and leaves nothing."""
    (folder / "s").chmod(0o555)
    folder.chmod(0o555)
    try:
        assert FolderTree(folder).snapshot("s").read("s/a.json") == b"old"
    finally:
        folder.chmod(0o755)
        (folder / "s").chmod(0o755)
