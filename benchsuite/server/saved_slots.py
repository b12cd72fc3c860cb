"""The folder where a launched server saves its slots: made, spoilt on purpose, and removed.

Only regular files right inside the folder are touched, never what a link points to.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
from pathlib import Path

from benchsuite.errors import MachineError
from benchsuite.model.scenario import DamageStep
from benchsuite.units import MIB

_HEAD_BYTES = 8
"""Magic and version of a file of one sequence (`llama_state_seq_save_file`, build 11434)."""
_SEED = 20131


class SavedSlots:
    """A fresh folder for `--slot-save-path`, ours alone.

    Args:
        folder: To be made; must not exist yet.

    Raises:
        MachineError: It cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise MachineError(
                f"the folder for saved slots cannot be made: {error.strerror}: {folder}"
            ) from error

    def damage(self, step: DamageStep) -> None:
        """Spoil a saved file as the step says; the same bytes every time.

        Raises:
            MachineError: The file is not there, is no plain file, or cannot be written.
        """
        path = self.folder / step.file
        try:
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                raise MachineError(f"'{step.file}' is no plain file, so it is left alone: {path}")
            _spoil(path, self.folder / (step.to or step.file), step.how, status.st_size)
        except OSError as error:
            raise MachineError(
                f"'{step.file}' cannot be spoilt: {error.strerror}: {path}"
            ) from error

    def remove(self) -> None:
        """Remove the folder: saved slots are as large as the KV cache."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _spoil(path: Path, target: Path, how: str, size: int) -> None:
    kept = {"truncate": size // 2, "foreign": min(_HEAD_BYTES, size), "garbage": 0}[how]
    written = target.with_name(f"{target.name}.spoilt")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with path.open("rb") as whole, os.fdopen(os.open(written, flags, 0o600), "wb") as out:
        while kept > 0 and (piece := whole.read(min(kept, MIB))):
            kept -= len(piece)
            out.write(piece)
        noise = random.Random(_SEED)
        while how != "truncate" and (left := size - out.tell()) > 0:
            out.write(noise.randbytes(min(left, MIB)))
    written.replace(target)
