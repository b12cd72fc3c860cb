"""Vectors on disk: those of a run, and those that `accept` stores for later builds."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from benchsuite.errors import ConfigError
from benchsuite.model.record import Fingerprint, Info, RunRecord
from benchsuite.model.vectors import (
    LogprobVectors,
    Position,
    Role,
    VectorLine,
    pack_floats,
)
from benchsuite.store.commits import commit
from benchsuite.store.records import write_record
from benchsuite.store.trees import FolderTree
from benchsuite.store.vectors import (
    StoredVectors,
    VectorJournal,
    lasting_sets,
    read_run_vectors,
    read_stored_vectors,
    run_vectors,
    stored_vectors,
)

KEY = Fingerprint("tiny", "equivalence", 0, "cpu avx2", "host")
RECORD = RunRecord(
    1, "id", "2026-12-02", 1.0, "equivalence", "p", "t", {"B": "digest"}, KEY, Info(), 1
)


def line(role: Role = "reference", *, token: int = 3, trial: int = 1) -> VectorLine:
    """One set of variant B."""
    position = Position(token, pack_floats([-1.0, -2.0]))
    vectors = LogprobVectors("one", (1, 2), (token,), (position,), 100)
    return VectorLine("B", trial, role, vectors)


def store(folder: Path) -> list[Path]:
    """Put the run's vectors beside the baselines, as `accept` does."""
    files = stored_vectors(RECORD, [line()], "why")
    commit(folder, files)
    return [folder / path for path in files]


def stored(
    folder: Path, key: Fingerprint = KEY, variant: str = "B", digest: str = "digest"
) -> StoredVectors:
    """What there is to compare with."""
    return read_stored_vectors([FolderTree(folder)], "tiny", key, variant, digest)


def test_a_run_keeps_every_set(tmp_path: Path) -> None:
    """A line each, handed to the disk at once; a run without vectors has no file."""
    journal = VectorJournal(tmp_path)
    assert read_run_vectors(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
    journal.write(line())
    journal.write(line("own", token=4))
    assert read_run_vectors(tmp_path) == [line(), line("own", token=4)]
    journal.close()


def test_a_line_cut_by_a_kill_is_left_out(tmp_path: Path) -> None:
    """What was whole before it is read; a broken line before the last is named."""
    journal = VectorJournal(tmp_path)
    journal.write(line())
    journal.close()
    path = tmp_path / "vectors.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"variant":"B","tri')
    assert read_run_vectors(tmp_path) == [line()]
    path.write_bytes(whole.replace(b'"B"', b"5") + whole.splitlines()[1] + b"\n")
    with pytest.raises(ConfigError, match=r"vectors\.jsonl:2"):
        read_run_vectors(tmp_path)


def test_the_reference_is_stored_before_what_followed_it() -> None:
    """One request at a time is what a later build is asked too; other trials are left out."""
    lines = [line("own", token=4), line("stored", token=9), line(), line(token=8, trial=2)]
    assert lasting_sets(lines, "B") == {"one": line()}
    assert lasting_sets(lines[:1], "B") == {"one": lines[0]}
    assert lasting_sets(lines[1:2], "B") == {}


def test_what_was_stored_comes_back(tmp_path: Path) -> None:
    """Under the same keys and digest, from beside the baselines."""
    written = store(tmp_path)
    assert len(written) == 1
    found = stored(tmp_path)
    assert found.state == "matching"
    assert found.sets == {"one": line().set}


def test_what_differs_is_named(tmp_path: Path) -> None:
    """Never compared across numerics, seeds or states of the scenario, never taken for none."""
    assert stored(tmp_path).state == "none"
    store(tmp_path)
    replace = msgspec.structs.replace
    cases = {
        "other numerics": stored(tmp_path, replace(KEY, numerics="cpu neon")),
        "unknown here": stored(tmp_path, replace(KEY, numerics=None)),
        "seed": stored(tmp_path, replace(KEY, seed=1)),
        "was changed": stored(tmp_path, digest="another"),
        "variant N": stored(tmp_path, variant="N"),
    }
    for words, found in cases.items():
        assert found.state == "other key", words
        assert words in found.reason
        assert not found.sets


def test_without_numerics_nothing_is_stored(tmp_path: Path) -> None:
    """Vectors without a key could be compared with anything."""
    key = msgspec.structs.replace(KEY, numerics=None)
    record = msgspec.structs.replace(RECORD, fingerprint=key)
    assert stored_vectors(record, [line()], "why") == {}


def test_a_broken_file_is_an_error(tmp_path: Path) -> None:
    """At its line, before anything is driven along it."""
    (path,) = store(tmp_path)
    path.write_bytes(b"{}\n")
    with pytest.raises(ConfigError, match=":1"):
        stored(tmp_path)


def test_a_conflict_of_a_merge_is_named_at_its_line(tmp_path: Path) -> None:
    """Vector files are merged like any other; the marker may stand anywhere."""
    (path,) = store(tmp_path)
    head, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(head + b"\n<<<<<<< HEAD\n" + rest + b"=======\n>>>>>>> x\n")
    with pytest.raises(ConfigError, match="merge conflict") as caught:
        stored(tmp_path)
    assert caught.value.where == f"{path}:2"


def test_vectors_in_an_archive_of_a_run_are_read(tmp_path: Path) -> None:
    """An archive from another machine loses nothing."""
    run = tmp_path / "20261103T100000Z-equivalence-aaaa0001"
    run.mkdir()
    write_record(run / "record.json", RECORD)
    archive = Path(shutil.make_archive(str(tmp_path / "run"), "gztar", tmp_path, run.name))
    assert read_run_vectors(archive) == []
    journal = VectorJournal(run)
    journal.write(line())
    journal.close()
    for form in ("zip", "gztar"):
        archive = Path(shutil.make_archive(str(tmp_path / "run"), form, tmp_path, run.name))
        assert read_run_vectors(archive) == [line()]


def test_another_run_serves_as_stored() -> None:
    """`--against RUN` compares with its vectors, if the scenario is the same."""
    assert run_vectors([line()], RECORD, "B", "digest").sets == {"one": line().set}
    assert run_vectors([line()], RECORD, "B", "another").state == "other key"
    assert run_vectors([], RECORD, "B", "digest").state == "none"
