"""Every version that was ever written is read; no newer one is taken for something else."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchsuite.errors import ConfigError
from benchsuite.model.record import Fingerprint
from benchsuite.store.baselines import BaselineFile, read_baseline_file
from benchsuite.store.commits import decode_journal
from benchsuite.store.migrations import (
    BASELINE,
    COMMIT,
    FORMATS,
    JOURNAL,
    RECORD,
    STORED_VECTORS,
    VECTORS,
    Format,
    migrate,
)
from benchsuite.store.records import read_record
from benchsuite.store.trees import MemoryTree
from benchsuite.store.vectors import read_run_vectors, read_stored_vectors

SCHEMAS = Path(__file__).parents[2] / "fixtures" / "schemas"
KEY = Fingerprint("tiny", "small", 0, "cpu avx2", "host")


def _baseline(path: Path) -> BaselineFile | None:
    tree = MemoryTree("kept", {"tiny/small/config.json": path.read_bytes()})
    return read_baseline_file(tree, "tiny/small", "config.json")


def _in_run(name: str, read: Callable[[Path], Any]) -> Callable[[Path, Path], Any]:
    """Reads a fixture under the name that it has in a run's folder."""

    def inner(path: Path, place: Path) -> Any:
        shutil.copy(path, place / name)
        return read(place)

    return inner


def _stored(path: Path, place: Path) -> Any:
    name = "tiny/small/vectors/cpu-avx2-5f48950c/b.jsonl"
    tree = MemoryTree("kept", {name: path.read_bytes()})
    found = read_stored_vectors([tree], "tiny", KEY, "b", "digest")
    assert found.state == "matching", found.reason
    return found


READERS: dict[str, tuple[Format, Callable[[Path, Path], Any]]] = {
    "baseline": (BASELINE, lambda path, _: _baseline(path)),
    "record": (RECORD, lambda path, _: read_record(path)),
    "journal": (JOURNAL, _in_run("samples.jsonl", read_record)),
    "vectors": (VECTORS, _in_run("vectors.jsonl", read_run_vectors)),
    "stored-vectors": (STORED_VECTORS, _stored),
    "commit": (COMMIT, lambda path, _: decode_journal(path.read_bytes(), str(path))),
}
VERSIONS = [
    (name, version) for name, (form, _) in READERS.items() for version in range(1, form.current + 1)
]


def test_every_format_is_looked_at_here() -> None:
    """A new one needs a reader in this file, and with it fixtures."""
    assert {id(form) for form, _ in READERS.values()} == {id(form) for form in FORMATS}
    for form in FORMATS:
        assert set(form.steps) == set(range(1, form.current)), form.noun


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_each_version_is_read(name: str, version: int, tmp_path: Path) -> None:
    """From a file that was written when it was current; such files are kept for ever."""
    (path,) = SCHEMAS.glob(f"{name}.{version}.*")
    form, read = READERS[name]
    assert f'"{form.key}":{version}' in path.read_text().replace(" ", "")
    assert read(path, tmp_path)


@pytest.mark.parametrize("name", READERS)
def test_a_newer_version_is_refused(name: str, tmp_path: Path) -> None:
    """With what it is, both versions, and what to type; never read as if it were known."""
    form, read = READERS[name]
    (newest,) = SCHEMAS.glob(f"{name}.{form.current}.*")
    later = tmp_path / f"later{newest.suffix}"
    pattern = rf'("{form.key}": ?){form.current}'
    later.write_text(re.sub(pattern, rf"\g<1>{form.current + 1}", newest.read_text(), count=1))
    with pytest.raises(ConfigError, match="newer benchsuite") as caught:
        read(later, tmp_path)
    assert f"{form.key} {form.current + 1}, and this one reads up to" in caught.value.message
    assert "pip install --upgrade" in (caught.value.hint or "")


def test_old_baselines_mean_what_they_meant() -> None:
    """Version 1 said `earlier` of values that a later accept had left in place."""
    old, new = (_baseline(SCHEMAS / f"baseline.{n}.json") for n in (1, 2))
    assert old is not None
    assert new is not None
    assert old.info_for("B", "kv_mib").seen.build == "b10092"
    assert old.info_for("B", 'cached_tokens{session="A",turn="2"}').seen.build == "b10434"
    assert old.refreshed == new.refreshed
    kept = {s: v for s, v in new.metrics["B"].items() if s != "rss_slope"}
    assert old.metrics["B"] == kept


def test_steps_follow_one_another() -> None:
    """Version 1 goes through each step in turn; the current one through none."""
    steps = {
        1: lambda content: {**content, "seen": [*content.get("seen", []), 1]},
        2: lambda content: {**content, "seen": [*content.get("seen", []), 2]},
    }
    form = Format("a thing", "schema", 3, steps)
    assert migrate(form, {"schema": 1}, where="x") == {"schema": 3, "seen": [1, 2]}
    assert migrate(form, {"schema": 2}, where="x") == {"schema": 3, "seen": [2]}
    assert migrate(form, {"schema": 3}, where="x") == {"schema": 3}


@pytest.mark.parametrize("version", [None, 0, -1, 1.5, True, "1", [], 4])
def test_what_is_no_version_is_refused(version: object) -> None:
    """Zero, text, or a version that is yet to come."""
    form = Format("a thing", "schema", 3, {})
    with pytest.raises(ConfigError) as caught:
        migrate(form, {"schema": version}, where="place:1")
    assert caught.value.where == "place:1"
    with pytest.raises(ConfigError, match="expected an object"):
        migrate(form, [], where="x")
