"""The server processes of one log, and the lines in which they say what they loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from benchsuite.logform.blocks import line_at
from benchsuite.logform.facts import Crash, Load
from benchsuite.logform.grammar import parse_table_row, read_table
from benchsuite.logform.instance import Instance
from benchsuite.logform.lines import Line, is_prose, read_line
from benchsuite.logform.start import (
    begins_load,
    parse_exited,
    parse_listening,
    parse_new_slot,
    parse_slots,
    parse_spawned,
    parse_used_device,
)

MOST_INSTANCES = 256
_SIZE_LINES = 3
"""A size line that someone broke is told in so many more."""
_ENDING_LINES = 3
"""So far above the memory table of the end stands `cleaning up before exit`."""


class Surroundings(Protocol):
    """What a reader tells of the lines around the one that is read."""

    def before(self, block: bytes, start: int) -> list[bytes]:
        """The lines before the one at `start`, the nearest last."""

    def follow(self, lines: int, take: Callable[[bytes], None]) -> None:
        """Give so many of the next lines to `take`."""

    def load_began(self) -> None:
        """A server loads, maybe another one than before."""


class Instances:
    """A plain server's one process; of a router or of compose, each by its port or name.

    Args:
        around: The reader of the log.
        model: A router's name for the one model that is meant; empty: whatever there is.
    """

    def __init__(self, around: Surroundings, model: str = "") -> None:
        self.by_name: dict[str, Instance] = {}
        self.child_crash: Crash | None = None
        self._around = around
        self._model = model
        self._children: dict[str, Instance] = {}  # of a router, by the model's name
        self._current = ""  # the one that loaded last
        self._memory_line = (b"", 0)  # block and end of the last

    def of(self, name: str, new: Instance | None = None) -> Instance:
        """The process of that name, made where it is new."""
        found = self.by_name.get(name)
        if found is None:
            if len(self.by_name) >= MOST_INSTANCES:
                return new or Instance(name)
            found = self.by_name[name] = new or Instance(name)
            if len(self.by_name) > 1:
                self._around.load_began()
        return found

    def is_serving(self, name: str) -> bool:
        """Whether the process of that name has loaded its model."""
        instance = self.by_name.get(name)
        return instance is not None and instance.serving

    def concerns(self, name: str) -> bool:
        """Whether lines of the process of that name are of the model that is meant.

        A log without any router's child is a plain server's, and all of it is meant. Of a child
        whose start is not in the log nobody knows the model.
        """
        if not self._model:
            return True
        instance = self.by_name.get(name)
        if instance is not None and instance.model == self._model:
            return True
        return not self._children and not name.isdigit()

    def choose(self, loads: list[Load]) -> Load:
        """The server's own load; with a router or compose, the last that loaded.

        Where a router's model is meant, the last of its children, and nothing of others.
        """
        by_name = {load.instance: load for load in loads}
        child = self._children.get(self._model)
        if child is not None:
            return by_name.get(child.name, Load())
        if not all(self.concerns(name) for name in self.by_name):
            return Load()
        for name in ("", self._current):
            instance = self.by_name.get(name)
            if instance is not None and instance.loaded:
                return by_name[name]
        return by_name.get(self._current, by_name.get("", Load()))

    def _is_quoted(self, line: Line, mark: str) -> bool:
        """Whether a line only repeats what users sent or got, up to and beyond `mark`."""
        known = self.by_name.get(line.instance)
        if known is not None and known.quotes(line):
            return True
        if line.record is not None:
            return False
        return line.level == "D" or is_prose(line.text[: max(0, line.text.find(mark))])

    def take_memory(self, block: bytes, position: int, end: int) -> None:
        """A line that may tell a size."""
        if self._memory_line[0] is block and self._memory_line[1] == end:
            return  # found by another mark
        self._memory_line = (block, end)
        line = read_line(line_at(block, position, end))
        known = self.by_name.get(line.instance)
        instance = known or Instance(line.instance)
        if instance.quotes(line):
            return
        if not instance.memory.take(line.text):
            return
        if known is None:
            instance = self.of(line.instance, instance)
        instance.prefixed = instance.prefixed or bool(line.level)
        self._current = instance.name
        if line.text.rstrip().endswith("MiB") and "buffer" not in line.text:
            self._around.follow(_SIZE_LINES, self._take_size_rest(line.instance))

    def _take_size_rest(self, name: str) -> Callable[[bytes], None]:
        def take(raw: bytes) -> None:
            line = read_line(raw)
            if line.instance == name:
                self.of(name).memory.take_size_rest(line.text)

        return take

    def take_slots(self, block: bytes, position: int, end: int) -> None:
        """`initializing`: the slots are made."""
        raw = line_at(block, position, end)
        line = read_line(raw)
        slots = parse_slots(raw.decode("utf-8", "replace"))
        if slots is not None and not self._is_quoted(line, "initializing"):
            instance = self.of(line.instance)
            instance.begin_serving(slots)
            self._current = instance.name
            self._around.load_began()

    def take_new_slot(self, block: bytes, position: int, end: int) -> None:
        """`new slot`."""
        raw = line_at(block, position, end)
        line = read_line(raw)
        n_ctx_slot = parse_new_slot(raw.decode("utf-8", "replace"))
        if n_ctx_slot is not None and not self._is_quoted(line, "new slot"):
            instance = self.of(line.instance)
            if instance.n_ctx_slot is None:
                instance.n_ctx_slot = n_ctx_slot

    def take_loading(self, block: bytes, position: int, end: int) -> None:
        """`loading model`, `loading draft model`."""
        line = read_line(line_at(block, position, end))
        if self._is_quoted(line, "loading "):
            return
        if "loading draft model" in line.text:
            self.of(line.instance).memory.begin_draft()
        elif begins_load(line.text):
            instance = self.of(line.instance)
            instance.begin_load()
            self._current = instance.name
            self._around.load_began()

    def take_table(self, block: bytes, position: int, end: int) -> None:
        """A row of the memory table, or its record in JSON."""
        raw = line_at(block, position, end)
        line = read_line(raw)
        rows = read_table(line.record)
        if rows is not None:
            self.of(line.instance).take_table(rows, new=True)
            return
        if "memory_breakdown" not in line.text:
            return
        row = parse_table_row(line.text)
        if row is not None:
            self.of(line.instance).take_table((row,), new=False)
        elif "memory breakdown [MiB]" in line.text:
            instance = self.of(line.instance)
            before = self._around.before(block, end - len(raw))[-_ENDING_LINES:]
            instance.ending = instance.ending or any(b"cleaning up" in text for text in before)
            instance.take_table((), new=True)

    def take_child(self, block: bytes, position: int, end: int) -> None:
        """A router starts a child, or tells how one ended."""
        line = read_line(line_at(block, position, end))
        if self._is_quoted(line, "instance"):
            return
        text = line.text
        spawned = parse_spawned(text)
        if spawned is not None:
            name, port = spawned
            instance = self.of(port)
            instance.model = name
            self._children[name] = instance
        exited = parse_exited(text)
        if exited is not None:
            name, status, words = exited
            child = self._children.get(name)
            if child is not None:
                child.exit_status = status
            if status != 0 and self.child_crash is None:
                port = "" if child is None else child.name
                self.child_crash = Crash("child", message=words, instance=port)

    def take_listening(self, block: bytes, position: int, end: int) -> None:
        """Where the server listens."""
        line = read_line(line_at(block, position, end))
        url = parse_listening(line.text)
        if url is not None and not self._is_quoted(line, "listening"):
            self.of(line.instance).listening = url

    def take_used_device(self, block: bytes, position: int, end: int) -> None:
        """`using device`: a device's bus address and model."""
        line = read_line(line_at(block, position, end))
        used = parse_used_device(line.text)
        if used is not None:
            name, bus, model = used
            instance = self.of(line.instance)
            instance.buses[name] = bus
            instance.device_models[name] = model
