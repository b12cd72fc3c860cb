"""Atomic writes and safe file names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.errors import MachineError
from benchsuite.store.files import safe_name, write_atomic


def test_a_write_leaves_one_whole_file(tmp_path: Path) -> None:
    """Folders are made, the file replaced, and no temporary file stays."""
    path = tmp_path / "a" / "b.json"
    write_atomic(path, b"1")
    write_atomic(path, b"22")
    assert path.read_bytes() == b"22"
    assert [p.name for p in path.parent.iterdir()] == ["b.json"]


def test_a_refused_write_is_the_machines_failure(tmp_path: Path) -> None:
    """A file where a folder should be; the old content stays."""
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(MachineError, match="cannot write"):
        write_atomic(tmp_path / "file" / "x.json", b"new")
    with pytest.raises(MachineError):
        write_atomic(tmp_path, b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("key", ["tiny", "scenarioB", "a-b_c.1"])
def test_ordinary_names_stay(key: str) -> None:
    """People find their files by their names."""
    assert safe_name(key) == key


@pytest.mark.parametrize("key", ["", ".", "..", "../../etc", "con", "NUL.txt", "-x", "a/b", "é"])
def test_dangerous_names_are_replaced(key: str) -> None:
    """Nothing leaves the folder, hides, or meets a device."""
    name = safe_name(key)
    assert name != key
    assert name.lower() not in ("con", "nul.txt")


@given(st.text(), st.text())
def test_names_are_safe_and_tell_keys_apart(a: str, b: str) -> None:
    """Also on file systems that fold case, where asked."""
    for key in (a, b):
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", safe_name(key))
        assert len(safe_name(key)) <= 100
    if a != b:
        assert safe_name(a) != safe_name(b)
        folded = safe_name(a, fold_case=True), safe_name(b, fold_case=True)
        assert folded[0] != folded[1]
        assert folded[0] == folded[0].lower()
