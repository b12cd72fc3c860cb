"""Whose requests ran in the slots of an attached server, by the ids of their last tasks."""

from __future__ import annotations

from benchsuite.client.slots import Slot
from benchsuite.collect.slot_tasks import SlotTasks


def _slots(*tasks: int | None) -> list[Slot]:
    return [Slot(number, task=task) for number, task in enumerate(tasks)]


def test_our_own_slots_may_change() -> None:
    """A request of ours in slot 1 explains its new task, one of nobody's does not."""
    tasks = SlotTasks()
    assert tasks.look(_slots(None, None), []) is None
    assert tasks.look(_slots(-1, 4), [1]) is None
    assert tasks.look(_slots(-1, 4), []) is None
    found = tasks.look(_slots(9, 12), [1])
    assert found is not None
    assert "slot 0 of /slots has served another request, and none of ours ran there" in found


def test_a_request_whose_slot_is_not_known_explains_one_slot() -> None:
    """Of two slots that changed, one was someone else's."""
    tasks = SlotTasks()
    tasks.look(_slots(1, 2, 3), [])
    assert tasks.look(_slots(1, 5, 3), [None]) is None
    found = tasks.look(_slots(7, 8, 3), [None])
    assert found is not None
    assert "2 slots of /slots have served another request, and 1 of our requests" in found


def test_what_is_not_told_shows_nothing() -> None:
    """No /slots before or after, or a process that began anew."""
    tasks = SlotTasks()
    assert tasks.look(None, []) is None
    assert tasks.look(_slots(1, 2), []) is None
    assert tasks.look([], []) is None
    assert tasks.look(_slots(5, 6), []) is None
    assert tasks.look(_slots(None, 2), []) is None
