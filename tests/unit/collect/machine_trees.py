"""Recorded /proc and /sys trees: a file a machine, unfolded into a folder."""

from __future__ import annotations

from pathlib import Path

import msgspec

from benchsuite.collect.machine_linux import read_linux
from benchsuite.model.machine import MachineReading

MACHINES = Path(__file__).parents[2] / "fixtures" / "machines"


def unfold(text: str, root: Path) -> None:
    """Write every `== PATH` part of the text under a folder."""
    for part in text.split("== ")[1:]:
        path, _, content = part.partition("\n")
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


def readings(
    name: str, root: Path, *, seconds: float = 1.0
) -> tuple[MachineReading, MachineReading]:
    """A recorded machine at the begin and at the end of so many seconds."""
    begun, _, ended = (MACHINES / f"{name}.txt").read_text().partition("@@ end\n")
    unfold(begun, root)
    begin = msgspec.structs.replace(read_linux(root), at_ns=0, clock_resolution_ns=1.0)
    unfold(ended, root)
    end = msgspec.structs.replace(
        read_linux(root), at_ns=int(seconds * 1e9), clock_resolution_ns=1.0
    )
    return begin, end
