"""Slot lines: which slot took which task, what it reused, how long it took; the host cache's state.

These are most of a long log, so they are matched as bytes and only once.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from benchsuite.logform.facts import CacheState, PromptReuse, SlotLaunch, SlotTiming
from benchsuite.logform.lines import read_instance, read_line

KEEP = 100_000
"""So many launches, timings and reuses are kept each; beyond, the oldest half is dropped."""

_SLOT = re.compile(
    rb"\bid +(\d{1,9}) \| task (-?\d{1,12})"
    rb'|\b(?:id_slot|slot_id)"?[=:](\d{1,9})\b.*?\b(?:id_task|task_id)"?[=:](-?\d{1,12})'
)
_SLOT_REVERSED = re.compile(  # JSON of early 2024 sorts its keys
    rb'\b(?:id_task|task_id)"?[=:](-?\d{1,12})\b.*?\b(?:id_slot|slot_id)"?[=:](\d{1,9})'
)
_TIMING = re.compile(
    rb"(prompt )?eval time *= *(\d{1,15}(?:\.\d+)?) ms / *(\d{1,12}) (?:token|run)"
)
_NOT_A_SLOT = re.compile(rb"perf_context_print|llama_print_timings|perf_print")
_REUSED = re.compile(
    rb"(?:n_tokens|n_past) = (\d{1,12}), memory_seq_rm \["  # autumn 2025 on
    rb"|(?:kv cache rm|memory_seq_rm) \[(\d{1,12}), end\)"  # 2024 to autumn 2025
    rb'|\bp0"?[=:](\d{1,12})'  # ik_llama and JSON
)
_CACHE_STATE = re.compile(
    rb"cache state: (\d{1,12}) prompts?, (\d{1,12}(?:\.\d+)?) MiB "
    rb"\(limits: (-?\d{1,12}(?:\.\d+)?) MiB"
)


def _slot(line: bytes) -> tuple[int, int] | None:
    match = _SLOT.search(line)
    if match is not None:
        slot, task = (match[1], match[2]) if match[1] is not None else (match[3], match[4])
        return int(slot), int(task)
    match = _SLOT_REVERSED.search(line)
    return None if match is None else (int(match[2]), int(match[1]))


def parse_cache_state(line: bytes) -> CacheState | None:
    """The host prompt cache's state; a limit of 0.000 is printed for `--cache-ram -1`."""
    match = _CACHE_STATE.search(line)
    if match is None:
        return None
    limit = float(match[3])
    return CacheState(int(match[1]), float(match[2]), limit if limit > 0 else None)


class SlotReader:
    """Growing lists of what the slots did, in the order of the log."""

    def __init__(self) -> None:
        self.launches: list[SlotLaunch] = []
        self.timings: list[SlotTiming] = []
        self.reuses: list[PromptReuse] = []
        # prompt lines whose decode line has not come, by instance and slot
        self._pending: dict[tuple[str, int | None], SlotTiming] = {}
        self._reused: dict[tuple[str, int], int] = {}

    def take_launch(self, line: bytes) -> None:
        """`processing task`: a slot begins a task."""
        slot = _slot(line)
        if slot is not None and slot[1] >= 0:
            _append(self.launches, SlotLaunch(slot[0], slot[1], read_instance(line)))

    def take_reuse(self, line: bytes) -> None:
        """`..., end)`: tokens kept in the slot; repeated for each batch, only the first counts."""
        match = _REUSED.search(line)
        slot = _slot(line)
        if match is None or slot is None:
            return
        instance = read_instance(line)
        key = (instance, slot[0])
        if self._reused.get(key) == slot[1]:
            return
        self._reused[key] = slot[1]
        cached = int(match[1] or match[2] or match[3])
        _append(self.reuses, PromptReuse(slot[0], slot[1], cached, instance))

    def take_timing(self, line: bytes, before: Callable[[], list[bytes]]) -> None:
        """A line with `eval time`.

        Args:
            line: The line.
            before: Gives the lines before it, the nearest last; builds before mid 2026 print the
                slot once, in a line that ends in `| task N | `, and timings below it without.
        """
        match = _TIMING.search(line)
        if match is None or _NOT_A_SLOT.search(line):
            return
        instance = read_instance(line)
        slot = _slot(line)
        milliseconds, tokens = float(match[2]), int(match[3])
        if match[1] is not None:
            if slot is None:
                slot = _header(before(), instance)
            number, task = slot if slot is not None else (None, None)
            self._flush((instance, number))
            self._pending[instance, number] = SlotTiming(
                number, task, milliseconds, tokens, instance=instance
            )
            return
        if slot is None:
            slot = _header(before(), instance)
        key = (instance, slot[0] if slot is not None else None)
        begun = self._pending.pop(key, None)
        if begun is None:
            return
        _append(
            self.timings,
            SlotTiming(
                begun.slot,
                begun.task,
                begun.prompt_ms,
                begun.prompt_tokens,
                milliseconds,
                tokens,
                instance,
            ),
        )

    def _flush(self, key: tuple[str, int | None]) -> None:
        begun = self._pending.pop(key, None)
        if begun is not None:
            _append(self.timings, begun)

    def finish(self) -> None:
        """The log has ended: prompt lines without a decode line count as they are."""
        for key in list(self._pending):
            self._flush(key)


def _append(items: list[SlotLaunch] | list[SlotTiming] | list[PromptReuse], item: object) -> None:
    if len(items) >= KEEP:
        del items[: KEEP // 2]
    items.append(item)  # type: ignore[arg-type]  # each caller gives the list its own kind


def _header(lines: list[bytes], instance: str) -> tuple[int, int] | None:
    """The slot of the nearest `print_timing` line above, past other timing lines only."""
    for line in reversed(lines):
        if b"print_timing: id" in line:
            if read_line(line).instance == instance:
                return _slot(line)
        elif b" time =" not in line and read_line(line).instance == instance:
            return None
    return None
