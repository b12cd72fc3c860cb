"""One server process within a log: its own, a router's child, or a service of compose."""

from __future__ import annotations

import msgspec

from benchsuite.logform.facts import Load, TableRow
from benchsuite.logform.lines import Line
from benchsuite.logform.memory import MemoryReader
from benchsuite.logform.start import Slots


class Instance:
    """What one process said of its last load.

    Args:
        name: The port or service name before its lines; empty for a plain server.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.model = ""
        self.memory = MemoryReader()
        self.serving = False
        self.ending = False
        self.prefixed = False  # its lines have a level before them
        self.n_ctx_slot: int | None = None
        self.listening: str | None = None
        self.buses: dict[str, str] = {}
        self.device_models: dict[str, str] = {}
        self.exit_status: int | None = None
        self._slots: Slots | None = None
        self._fit_table: tuple[TableRow, ...] = ()
        self._exit_table: tuple[TableRow, ...] = ()

    @property
    def loaded(self) -> bool:
        """Whether anything of a load was printed."""
        return self.memory.loaded

    def quotes(self, line: Line) -> bool:
        """Whether a line is one of a user's text, as `-v` prints it, and no line of the server.

        Where the server's own lines have a level, one without is the rest of such a text once it
        serves; before that nobody has sent any.
        """
        return self.serving and self.prefixed and not line.level and line.record is None

    def begin_load(self) -> None:
        """The model is being loaded, or loaded again after sleep."""
        self.memory.begin_load()
        self.serving = self.ending = False
        self.n_ctx_slot = None
        self._slots = None
        self._fit_table = self._exit_table = ()

    def begin_serving(self, slots: Slots) -> None:
        """The slots were made."""
        self.memory.begin_serving()
        self.serving = True
        self.n_ctx_slot = slots.n_ctx_slot
        self._slots = slots

    def take_table(self, rows: tuple[TableRow, ...], *, new: bool) -> None:
        """Rows after the load are the table at exit; before it, memory fitting's estimate."""
        if self.serving or self.ending or self.memory.settled:
            self._exit_table = rows if new else self._exit_table[:_MOST_ROWS] + rows
        else:
            self._fit_table = rows if new else self._fit_table[:_MOST_ROWS] + rows

    def load(self, *, partial: bool) -> Load:
        """What was said.

        Args:
            partial: More KV lines may come, so that a total would be too small.
        """
        load = self.memory.load(self._exit_table, self._fit_table, partial=partial)
        slots = self._slots
        unified = load.kv_unified
        if slots is not None and slots.kv_unified is not None:
            unified = slots.kv_unified
        return msgspec.structs.replace(
            load,
            instance=self.name,
            model=self.model,
            n_slots=None if slots is None else slots.number,
            n_ctx_slot=self.n_ctx_slot,
            kv_unified=unified,
            listening=self.listening,
            buses=dict(self.buses),
            device_models=dict(self.device_models),
            exit_status=self.exit_status,
        )


_MOST_ROWS = 256
