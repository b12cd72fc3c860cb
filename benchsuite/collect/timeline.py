"""The events of one log, arranged by task, for questions about one request; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from benchsuite.logform.facts import EventKind, SlotEvent

_CHOOSING = frozenset(
    (
        "selected_by_similarity",
        "selected_by_age",
        "selected_by_id",
        "checked",
        "busy",
        "cache_saved",
        "cache_kept",
        "cache_obsolete",
        "cache_loaded",
        "cache_evicted",
        "cache_refused",
        "cache_load_failed",
        "cleared",
    )
)
"""What stands between the end of what came before and the line that launches a task."""

Fate = Literal["kept", "dropped", "refused"]
"""Of a state in the host prompt cache."""

Task = tuple[str, int]
"""Instance and number of a task."""


class Timeline:
    """Events by task.

    Args:
        events: As the log has them, in order.
    """

    def __init__(self, events: Sequence[SlotEvent]) -> None:
        self._events = events
        self._launched: dict[Task, int] = {}
        self._by_task: dict[Task, list[int]] = {}
        for i, event in enumerate(events):
            if event.task is not None:
                key = (event.instance, event.task)
                if event.kind == "launched":
                    self._launched[key] = i
                    self._by_task[key] = []
                self._by_task.setdefault(key, []).append(i)

    def of(self, task: Task | None, *kinds: EventKind) -> list[SlotEvent]:
        """The events of a task from its launch on, of these kinds."""
        places = [] if task is None else self._by_task.get(task, [])
        return [self._events[i] for i in places if self._events[i].kind in kinds]

    def knows(self, task: Task | None) -> bool:
        """Whether the task's launch was seen."""
        return task is not None and task in self._launched

    def choosing(self, task: Task | None) -> list[SlotEvent]:
        """What led to the task's slot, from the first slot that was looked at to the launch."""
        launch = None if task is None else self._launched.get(task)
        if task is None or launch is None:
            return []
        found: list[SlotEvent] = []
        for i in range(launch - 1, -1, -1):
            event = self._events[i]
            if event.instance != task[0]:
                continue
            if event.kind not in _CHOOSING or (found and _begins(found[-1], event)):
                break
            found.append(event)
        found.reverse()
        return found

    def selected(self, task: Task | None) -> SlotEvent | None:
        """The line that chose the task's slot."""
        lines = [e for e in self.choosing(task) if e.kind.startswith("selected")]
        return lines[-1] if lines else None

    def between(
        self, earlier: Task | None, later: Task | None, *kinds: EventKind
    ) -> list[SlotEvent]:
        """Events of these kinds after the end of one task and before the launch of another.

        Events of the end itself are left out; where the end was not seen, those since its launch.
        """
        if not self.knows(earlier) or not self.knows(later) or earlier is None or later is None:
            return []
        start = self._launched[earlier]
        for i in self._by_task[earlier]:
            if self._events[i].kind == "released":
                start = i
        window = self._events[start + 1 : self._launched[later]]
        return [e for e in window if e.kind in kinds and e.instance == later[0]]

    def is_before(self, one: Task | None, other: Task | None) -> bool:
        """Whether both launches were seen, and the first came first."""
        if one is None or other is None or not (self.knows(one) and self.knows(other)):
            return False
        return self._launched[one] < self._launched[other]

    def fate(self, earlier: Task | None, slot: int, later: Task | None) -> Fate | None:
        """What became of a task's state in the host prompt cache by the launch of another.

        Args:
            earlier: The task that left the state.
            slot: Its slot.
            later: The other task.

        Returns:
            None where the log does not tell.
        """
        if not self.knows(earlier) or not self.knows(later) or earlier is None or later is None:
            return None
        released = [i for i in self._by_task[earlier] if self._events[i].kind == "released"]
        if not released:
            return None
        size = self._events[released[-1]].numbers.get("n_tokens")
        cache = _HostCache()
        for i in range(self._launched[later]):
            if self._events[i].instance == later[0]:
                cache.take(i, self._events[i])
        cache.settle()
        for save in cache.saves:
            if save.place > released[-1] and (save.slot, save.tokens) == (slot, size):
                return None if save.fate == "kept" and cache.loaded else save.fate
        return None


class _Save(msgspec.Struct):
    """One state that was to be saved."""

    place: int  # of its line among the events
    slot: int | None
    tokens: float | None
    fate: Fate = "kept"


class _HostCache:
    """The host prompt cache as its lines tell it: first in, first out (build 11434)."""

    def __init__(self) -> None:
        self.saves: list[_Save] = []
        self.loaded = False  # a load takes one away, and no line says which
        self._held: list[_Save] = []
        self._pending: _Save | None = None
        self._slot: int | None = None

    def take(self, place: int, event: SlotEvent) -> None:
        """The next event of the log."""
        match event.kind:
            case "cache_saved":
                self.settle()
                self._pending = _Save(place, self._slot, event.numbers.get("n_tokens"))
            case "cache_kept":
                self._pending = None
            case "cache_refused":
                if self._pending is not None:
                    self._pending.fate = "refused"
                    self.saves.append(self._pending)
                    self._pending = None
            case "cache_obsolete":
                size = event.numbers.get("n_tokens")
                gone = next((s for s in self._held if s.tokens == size), None)
                if gone is not None:
                    self._held.remove(gone)
            case "cache_evicted":
                if self._held and not self.loaded:
                    self._held.pop(0).fate = "dropped"
            case "cache_loaded":
                self.settle()
                self.loaded = self.loaded or len(self._held) > 1
                self._held.clear()
            case _:
                self.settle()
                if event.kind == "idle_saved" or event.kind.startswith("selected"):
                    self._slot = event.slot

    def settle(self) -> None:
        """A save that nothing spoke against has happened."""
        if self._pending is not None:
            self._held.append(self._pending)
            self.saves.append(self._pending)
            self._pending = None


def _begins(nearer: SlotEvent, event: SlotEvent) -> bool:
    """Whether `nearer` began the choice, so that `event` belongs to what came before."""
    looking = ("checked", "busy")
    if nearer.kind in looking:
        return event.kind not in looking
    return nearer.kind.startswith("selected") and event.kind not in looking
