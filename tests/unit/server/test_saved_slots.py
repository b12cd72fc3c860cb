"""Saved slots are spoilt only inside our folder, and removed with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchsuite.errors import MachineError
from benchsuite.model.scenario import DamageStep
from benchsuite.server.saved_slots import SavedSlots

WHOLE = b"qsgg\x02\0\0\0" + b"state" * 100


@pytest.fixture
def saved(tmp_path: Path) -> SavedSlots:
    slots = SavedSlots(tmp_path / "slots")
    (slots.folder / "a.bin").write_bytes(WHOLE)
    return slots


def test_a_truncated_file_is_its_first_half(saved: SavedSlots) -> None:
    """The file itself is spoilt where no other name is given."""
    saved.damage(DamageStep("a.bin", "truncate"))
    assert (saved.folder / "a.bin").read_bytes() == WHOLE[: len(WHOLE) // 2]
    assert [path.name for path in saved.folder.iterdir()] == ["a.bin"]


def test_garbage_and_foreign_files_keep_the_size(saved: SavedSlots) -> None:
    """Of a foreign one the head is right; the whole file stays as it was, and so does each time."""
    saved.damage(DamageStep("a.bin", "garbage", to="g.bin"))
    saved.damage(DamageStep("a.bin", "foreign", to="f.bin"))
    garbage, foreign = ((saved.folder / name).read_bytes() for name in ("g.bin", "f.bin"))
    assert len(garbage) == len(foreign) == len(WHOLE)
    assert foreign[:8] == WHOLE[:8] != garbage[:8]
    assert b"state" not in garbage + foreign
    assert (saved.folder / "a.bin").read_bytes() == WHOLE
    saved.damage(DamageStep("a.bin", "garbage", to="g.bin"))
    assert (saved.folder / "g.bin").read_bytes() == garbage


def test_a_link_is_left_alone(saved: SavedSlots, tmp_path: Path) -> None:
    """What it points to may be someone's model; a link in the target's place is replaced."""
    outside = tmp_path / "model.gguf"
    outside.write_bytes(WHOLE)
    (saved.folder / "link.bin").symlink_to(outside)
    with pytest.raises(MachineError, match="no plain file"):
        saved.damage(DamageStep("link.bin", "truncate"))
    saved.damage(DamageStep("a.bin", "garbage", to="link.bin"))
    assert outside.read_bytes() == WHOLE


def test_a_file_that_is_not_there_is_said(saved: SavedSlots) -> None:
    """A save that wrote nothing must not pass for a file that was spoilt."""
    with pytest.raises(MachineError, match=r"'b\.bin' cannot be spoilt"):
        saved.damage(DamageStep("b.bin", "truncate"))


def test_the_folder_is_fresh_and_goes(saved: SavedSlots) -> None:
    """Another run's files would be restored otherwise."""
    with pytest.raises(MachineError, match="cannot be made"):
        SavedSlots(saved.folder)
    saved.remove()
    assert not saved.folder.exists()
