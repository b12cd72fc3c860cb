"""Slot lines: which slot took which task, what it reused, how long it took; the host cache's state.

These are most of a long log, so lines that name their slot are only put aside while the log is
read, and matched as bytes when someone asks.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

import msgspec

from benchsuite.logform.blocks import Take
from benchsuite.logform.facts import CacheState, PromptReuse, SlotLaunch, SlotTiming
from benchsuite.logform.lines import read_instance

KEEP = 100_000
"""So many launches, timings and reuses are kept each; beyond, the oldest half is dropped."""
_PUT_ASIDE = 30_000
"""So many lines wait to be matched, about 10 MB; beyond, the oldest are dropped."""
DECODE_LINES = 8
"""How far below its prompt's line a task's line of decoding may stand."""

# a search for these begins at a literal, which is what makes it fast
_SLOT = re.compile(rb"id +(\d{1,9}) \| task (-?\d{1,12})")
_SLOT_FIELD = re.compile(rb'\b(?:id_slot|slot_id)"?[=:](\d{1,9})\b')
_TASK_FIELD = re.compile(rb'\b(?:id_task|task_id)"?[=:](-?\d{1,12})\b')
_TIMING = re.compile(rb"eval time *= *(\d{1,15}(?:\.\d+)?) ms / *(\d{1,12}) [tr]")
_NOT_A_SLOT = re.compile(rb"perf_context_print|llama_print_timings|perf_print")
_REUSE = re.compile(
    rb"id +(\d{1,9}) \| task (-?\d{1,12}) \| "
    rb"(?:(?:cached )?n_(?:tokens|past) = (\d{1,12}), memory_seq_rm|kv cache rm)"
    rb" \[(\d{1,12}), end\)"
)
_REUSED = re.compile(
    rb"(?:n_tokens|n_past) = (\d{1,12}), memory_seq_rm \["  # autumn 2025 on
    rb"|(?:kv cache rm|memory_seq_rm) \[(\d{1,12}), end\)"  # 2024 to autumn 2025
    rb'|\bp0"?[=:](\d{1,12})'  # ik_llama and JSON
)
_HEADER_LINES = 8
_MOST_SLOTS = 4096
_CACHE_STATE = re.compile(
    rb"cache state: (\d{1,12}) prompts?, (\d{1,12}(?:\.\d+)?) MiB "
    rb"\(limits: (-?\d{1,12}(?:\.\d+)?) MiB"
)


def _slot(block: bytes, start: int, end: int) -> tuple[int, int] | None:
    """Slot and task that the line `block[start:end]` names."""
    match = _SLOT.search(block, start, end)
    if match is not None:
        return int(match[1]), int(match[2])
    slot = _SLOT_FIELD.search(block, start, end)
    task = _TASK_FIELD.search(block, start, end)
    return None if slot is None or task is None else (int(slot[1]), int(task[1]))


def _instance(block: bytes, start: int, end: int) -> str:
    # 48 to 57 are digits: a timestamp, so neither port nor name
    return "" if 48 <= block[start] <= 57 else read_instance(block[start:end])


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
        self.timed = 0  # timing lines in all, kept or not
        self._launches: list[SlotLaunch] = []
        self._timings: list[SlotTiming] = []
        self._reuses: list[PromptReuse] = []
        self._aside: deque[tuple[Callable[..., None], bytes | bytearray, int]] = deque(
            maxlen=_PUT_ASIDE
        )
        self._open: list[bytearray] = []  # of those, timings whose lines below are still to come
        # prompt lines whose decode line has not come, by instance and slot
        self._pending: dict[tuple[str, int | None], SlotTiming] = {}
        self._reused: dict[tuple[str, int], int] = {}

    @property
    def launches(self) -> list[SlotLaunch]:
        """Slots that began a task."""
        self._match()
        return self._launches

    @property
    def timings(self) -> list[SlotTiming]:
        """Finished tasks."""
        self._match()
        return self._timings

    @property
    def reuses(self) -> list[PromptReuse]:
        """What tasks found in their slots."""
        self._match()
        return self._reuses

    def _match(self) -> None:
        """Read the lines that were put aside."""
        while self._aside:
            take, lines, position = self._aside.popleft()
            take(lines, position, lines.find(b"\n", position))

    def put_aside(self, take: Take) -> Take:
        """Reads a line with `take`, but not before someone asks."""
        aside = self._aside

        def later(block: bytes, position: int, end: int) -> None:
            start = block.rfind(b"\n", 0, position) + 1
            aside.append((take, block[start : end + 1], position - start))

        return later

    def put_timing_aside(self, block: bytes, position: int, end: int) -> bool:
        """Put a `prompt eval time` line that names its slot aside, with the lines below it.

        Returns:
            True if `take_line_below` is to be given the next lines, since the very next one is not
            the line of decoding, or not there yet.
        """
        start = block.rfind(b"\n", 0, position) + 1
        last = block.find(b"\n", end + 1)
        self.timed += 1
        told = block[max(start, block.rfind(b"id ", start, position)) : position]
        if last >= 0 and block.find(told + b"       eval time", end, last) >= 0:
            self._aside.append((self._take_both, block[start : last + 1], position - start))
            return False
        lines = bytearray(block[start : end + 1])
        self._aside.append((self._take_both, lines, position - start))
        self._open = [one for one in self._open if one.count(b"\n") <= DECODE_LINES]
        self._open.append(lines)
        return True

    def take_line_below(self, line: bytes) -> None:
        """A line below a `prompt eval time` line: maybe the one of decoding."""
        for lines in self._open:
            lines.extend(line + b"\n")
        if self._pending:
            self._read_decode_timing(line)

    def _take_both(self, lines: bytes | bytearray, position: int, end: int) -> None:
        self._open = [one for one in self._open if one is not lines]
        if self._read_timing(bytes(lines), position, end, lambda start: []):
            for line in lines[end + 1 :].split(b"\n"):
                self._read_decode_timing(bytes(line))

    def take_launch(self, block: bytes, position: int, end: int) -> None:
        """`processing task`: a slot begins a task."""
        start = block.rfind(b"\n", 0, position) + 1
        slot = _slot(block, start, end)
        if slot is not None and slot[1] >= 0:
            instance = _instance(block, start, end)
            self._reused.pop((instance, slot[0]), None)  # a restarted server counts anew
            _append(self._launches, SlotLaunch(slot[0], slot[1], instance))

    def take_reuse(self, block: bytes, position: int, end: int) -> None:
        """`..., end)`: tokens kept in the slot; repeated for each batch, only the first counts."""
        start = block.rfind(b"\n", 0, position) + 1
        match = _REUSE.search(block, start, end)
        if match is not None:
            slot, task, cached = int(match[1]), int(match[2]), int(match[3] or match[4])
        else:
            named = _slot(block, start, end)
            match = _REUSED.search(block, start, end)
            if named is None or match is None:
                return
            slot, task, cached = *named, int(match[1] or match[2] or match[3])
        instance = _instance(block, start, end)
        key = (instance, slot)
        if self._reused.get(key) != task:
            if len(self._reused) > _MOST_SLOTS:
                self._reused.clear()
            self._reused[key] = task
            _append(self._reuses, PromptReuse(slot, task, cached, instance))

    def take_prompt_timing(
        self, block: bytes, position: int, end: int, before: Callable[[int], list[bytes]]
    ) -> bool:
        """A `prompt eval time` line, and the line of decoding below it where it is there.

        Args:
            block: Whole lines.
            position: Of `prompt eval time`.
            end: Of its line.
            before: Gives the lines before the one that starts at a position, the nearest last.
                Builds before mid 2026 print the slot once, in a line that ends in `| task N | `,
                and the timings below it without.

        Returns:
            True if the line of decoding is still to come.
        """
        self._match()
        self.timed += 1
        return self._read_timing(block, position, end, before)

    def _read_timing(
        self, block: bytes, position: int, end: int, before: Callable[[int], list[bytes]]
    ) -> bool:
        start = block.rfind(b"\n", 0, position) + 1
        instance = _instance(block, start, end)
        own = _SLOT.search(block, start, position)
        if own is not None:
            slot: tuple[int, int] | None = (int(own[1]), int(own[2]))
        else:
            slot = _slot(block, start, end)
        if slot is None:
            if _NOT_A_SLOT.search(block, start, end):
                return False
            slot = _header(before(start), instance)
        number, task = slot if slot is not None else (None, None)
        if self._pending:
            self._flush((instance, number))
        prompt = _TIMING.match(block, position + 7)
        if prompt is None:
            return False
        # all builds print the line of decoding next, but for what other threads print between
        below = block.find(b"eval time", end, end + 256)
        decode = None if below < 0 else _TIMING.match(block, below)
        if (
            decode is not None
            and block.find(b"\n", end + 1, below) < 0 <= block.find(b"\n", below)
            and block[below - 7 : below] != b"prompt "
            and (own is None or block.find(own[0], end, below) >= 0)
            and _instance(block, end + 1, below) == instance
        ):
            _append(
                self._timings,
                SlotTiming(
                    number,
                    task,
                    float(prompt[1]),
                    int(prompt[2]),
                    float(decode[1]),
                    int(decode[2]),
                    instance,
                ),
            )
            return False
        if len(self._pending) > _MOST_SLOTS:
            self._pending.clear()
        self._pending[instance, number] = SlotTiming(
            number, task, float(prompt[1]), int(prompt[2]), instance=instance
        )
        return True

    def _read_decode_timing(self, line: bytes) -> None:
        match = _TIMING.search(line)
        if match is None or b"prompt eval time" in line:
            return
        instance = read_instance(line)
        slot = _slot(line, 0, len(line))
        for key, begun in self._pending.items():
            if key[0] == instance and (slot is None or slot == (begun.slot, begun.task)):
                del self._pending[key]
                done = msgspec.structs.replace(
                    begun, decode_ms=float(match[1]), output_tokens=int(match[2])
                )
                _append(self._timings, done)
                return

    def _flush(self, key: tuple[str, int | None]) -> None:
        begun = self._pending.pop(key, None)
        if begun is not None:
            _append(self._timings, begun)

    def finish(self) -> None:
        """The log has ended: prompt lines without a decode line count as they are."""
        self._match()
        for key in list(self._pending):
            self._flush(key)


def _append(items: list[SlotLaunch] | list[SlotTiming] | list[PromptReuse], item: object) -> None:
    if len(items) >= KEEP:
        del items[: KEEP // 2]
    items.append(item)  # type: ignore[arg-type]  # each caller gives the list its own kind


def _header(lines: list[bytes], instance: str) -> tuple[int, int] | None:
    """The slot of the nearest `print_timing` line above, past at most a few other lines."""
    for line in reversed(lines[-_HEADER_LINES:]):
        if b"print_timing: id" in line and read_instance(line) == instance:
            return _slot(line, 0, len(line))
    return None
