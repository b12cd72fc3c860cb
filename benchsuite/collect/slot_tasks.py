"""Whether slots of an attached server did someone else's work between two looks; pure.

A slot keeps the id of its last task when it is idle (`id_task` of `/slots`, late 2024 on; none
before its first task), and ids only grow. So a slot with a larger id than before has served a
request, and where none of ours ran there it was someone else's. What others did in a slot before we
used it ourselves is not seen.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchsuite.client.slots import Slot


class SlotTasks:
    """Remembers the last task of each slot."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    def look(self, slots: Sequence[Slot] | None, ours: Sequence[int | None]) -> str | None:
        """Compare with the last look.

        Args:
            slots: All of them, idle; None where they cannot be seen.
            ours: The slot of each of our requests since then; None for one that nothing tells.

        Returns:
            What shows that someone else uses the server; None where nothing does.
        """
        last, self._last = self._last, _tasks(slots)
        changed = [one for one, task in self._last.items() if task > last.get(one, task)]
        strange = [one for one in changed if one not in ours]
        unknown = sum(slot is None for slot in ours)
        if len(strange) <= unknown:
            return None
        if unknown:
            return (
                f"someone else uses this server: {len(strange)} slots of /slots have served "
                f"another request, and {unknown} of our requests may have run there"
            )
        return (
            f"someone else uses this server: slot {strange[0]} of /slots has served another "
            "request, and none of ours ran there"
        )


def _tasks(slots: Sequence[Slot] | None) -> dict[int, int]:
    """The last task of each slot, -1 where it has had none or this build does not tell."""
    return {slot.id: -1 if slot.task is None else slot.task for slot in slots or ()}
