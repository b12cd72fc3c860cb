"""What slots and the host prompt cache did: lines of the log as `SlotEvent`s; pure.

Forms were read in the source of build 11434 and seen on builds 10092, 10434 and 11549 (embedded);
older spellings (`selected slot by lcs similarity`, `SWA checkpoint create`) in saved logs. Most
have level 4 of verbosity, `selected slot`, `stop processing` and warnings 3. The JSON lines of
early 2024 and ik_llama's own forms have no such lines but launches and timings, which
`SlotReader` reads.

A taken line is kept as it is and read only when events are asked for.
"""

from __future__ import annotations

import re

from benchsuite.logform.facts import EventKind, SlotEvent
from benchsuite.logform.lines import read_line
from benchsuite.logform.slots import KEEP

SLOT_MARK = b" | task "
"""In every line of a slot since spring 2024: `slot get_availabl: id  0 | task -1 | ...`."""
CACHE_MARKS = (b"found better prompt", b" removing o", b"is already in the cache", b"purging slot")
"""In lines of the server, which name no slot before the bar."""
SIZE_MARK = b" size"
"""In the other lines of the server that are events; a memory line has it too."""

_BEFORE_SIZE = frozenset((b" total state", b"prompt state", b"maller batch"))
_KEY = 9
_SLOT_KINDS: dict[bytes, EventKind] = {
    b"selected ": "selected_by_similarity",  # told apart when the line is read
    b" - checki": "checked",
    b" - skippi": "busy",
    b"processin": "launched",
    b"new promp": "new_prompt",
    b"forcing f": "full_reprocessing",
    b"created c": "checkpoint_created",
    b"restored ": "checkpoint_restored",
    b"erased in": "checkpoint_invalidated",
    b"erasing o": "checkpoint_erased",
    b"erasing c": "checkpoint_erased",
    b"supersedi": "checkpoint_erased",
    b"SWA check": "checkpoint_created",
    b"slot cont": "context_shift",
    b"input tru": "truncated",
    b"stopped d": "context_full",
    b"stop proc": "released",
    b"clearing ": "cleared",
    b"reusing c": "chunk_reused",
    b"saving id": "idle_saved",
    b"need to e": "one_token",
    b"failed to": "cache_load_failed",
}
"""By the first bytes of a slot's message."""

_SLOT_BYTES = re.compile(rb"\bid +\d{1,9} \| task -?\d{1,12} \| ")
_SLOT = re.compile(r"\bid +(\d{1,9}) \| task (-?\d{1,12}) \| ")
_NUMBER = re.compile(r"([A-Za-z_.]+(?:\(\))?) = (-?\d{1,15}(?:\.\d{1,9})?)\b")
_NAMES = {
    "f_sim_best": "similarity",  # build 10434 on
    "sim_best": "similarity",
    "sim": "similarity",
    "f_sim": "similarity",
    "f_keep": "keep",
    "task.n_tokens": "n_tokens",
    "task.n_tokens()": "n_tokens",
    "n_prompt_tokens": "n_tokens",
    "lcs_len": "lcp",  # 2024
    "lcp_len": "lcp",
    "size": "mib",
    "total state size": "mib",
}
_TEXT_CHARACTERS = 300
_LINE_BYTES = 600

_PLAIN: dict[EventKind, tuple[re.Pattern[str], tuple[str, ...]]] = {
    "checked": (re.compile(r"\((\d+)/(\d+)\) > ([\d.]+)"), ("lcp", "n_tokens", "threshold")),
    "selected_by_similarity": (re.compile(r"\(> ([\d.]+) thold\)"), ("threshold",)),
    "checkpoint_created": (re.compile(r"checkpoint (\d+) of (\d+)"), ("number", "limit")),
    "cleared": (re.compile(r"with (\d+) tokens"), ("n_tokens",)),
    "purged": (re.compile(r"purging slot (\d+) with (\d+) tokens"), ("slot", "n_tokens")),
    "chunk_reused": (
        re.compile(r"size (\d+), shifting KV cache \[(\d+), \d+\) -> \[(\d+),"),
        ("n_tokens", "from", "to"),
    ),
    "cache_saved": (
        re.compile(r"with length (\d+),.*? state size = ([\d.]+)"),
        ("n_tokens", "mib"),
    ),
    "cache_obsolete": (re.compile(r"with length (\d+)"), ("n_tokens",)),
    "cache_refused": (
        re.compile(r"state size ([\d.]+) MiB exceeds cache size limit ([\d.]+)"),
        ("mib", "limit_mib"),
    ),
}
"""Numbers that stand without a name, by kind."""


class EventReader:
    """The last events of a log, in order; of the dropped ones only the number by kind is kept."""

    def __init__(self) -> None:
        self._raw: list[bytes] = []  # lines not read yet
        self._events: list[SlotEvent] = []
        self._counts: dict[str, int] = {}  # of all that were read or dropped

    def take_slot(self, block: bytes, position: int, end: int) -> None:
        """A line with `SLOT_MARK` at `position`."""
        start = block.find(b" | ", position + 8, position + 26) + 3
        if start > 2 and block[start : start + _KEY] in _SLOT_KINDS:
            self._take(block, position, end)

    def take_cache(self, block: bytes, position: int, end: int) -> None:
        """A line with one of `CACHE_MARKS`."""
        self._take(block, position, end)

    def take_size(self, block: bytes, position: int, end: int) -> bool:
        """A line with `SIZE_MARK`; whether it is of the host prompt cache or of decoding."""
        if block[position - 12 : position] not in _BEFORE_SIZE:
            return False
        self._take(block, position, end)
        return True

    def _take(self, block: bytes, position: int, end: int) -> None:
        start = block.rfind(b"\n", 0, position) + 1
        self._raw.append(block[start : min(end, start + _LINE_BYTES)])
        if len(self._raw) >= KEEP:
            self._events.clear()  # these are older than all that are kept
            for raw in self._raw[: KEEP // 2]:
                self._count(_kind(raw), b"truncated = 1" in raw)
            del self._raw[: KEEP // 2]

    def _read(self) -> None:
        for raw in self._raw:
            event = parse_event(raw)
            if event is not None:
                self._events.append(event)
                self._count(event.kind, event.numbers.get("truncated") == 1)
        self._raw.clear()
        if len(self._events) > KEEP:
            del self._events[: -KEEP // 2]

    def _count(self, kind: EventKind | None, truncated: bool) -> None:
        if kind is not None:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            if kind == "released" and truncated:
                self._counts["truncated"] = self._counts.get("truncated", 0) + 1

    @property
    def events(self) -> list[SlotEvent]:
        """The events so far, the last 100,000 at most."""
        self._read()
        return self._events

    @property
    def counts(self) -> dict[str, int]:
        """How many events of each kind there were; `truncated` has requests cut short as well."""
        self._read()
        return self._counts


def _kind(raw: bytes) -> EventKind | None:
    """What a taken line tells, without reading its numbers."""
    match = _SLOT_BYTES.search(raw)
    if match is None:
        message = raw.partition(b": ")[2].lstrip(b" -")
        return _server_kind(message.decode("ascii", "replace"))
    message = raw[match.end() : match.end() + 80]
    kind = _SLOT_KINDS.get(message[:_KEY])
    return None if kind is None else _exact_kind(kind, message.decode("ascii", "replace"))


def parse_event(raw: bytes) -> SlotEvent | None:
    """The event that a line tells; None where it tells none.

    Args:
        raw: One line without its newline, whatever stands before its message.
    """
    kind = _kind(raw)
    if kind is None:
        return None
    line = read_line(raw)
    text, slot, task = line.text.strip(), None, None
    match = _SLOT.search(text)
    message = text if match is None else text[match.end() :]
    if match is not None:
        slot, task = int(match[1]), int(match[2])
    numbers = {_NAMES.get(name, name): float(value) for name, value in _NUMBER.findall(message)}
    if kind in _PLAIN:
        pattern, names = _PLAIN[kind]
        found = pattern.search(message)
        if found is not None:
            numbers.update(zip(names, map(float, found.groups()), strict=True))
    if kind == "purged":
        slot = int(numbers.pop("slot", -1))
    if task is not None and task < 0:
        task = None
    return SlotEvent(kind, slot, task, numbers, text[:_TEXT_CHARACTERS], line.instance)


def _server_kind(message: str) -> EventKind | None:
    if message.startswith("saving prompt with length"):
        return "cache_saved"
    if message.startswith("found better prompt"):
        return "cache_loaded"
    if "removing oldest entry" in message:
        return "cache_evicted"
    if message.startswith("removing obsolete cached prompt"):
        return "cache_obsolete"
    if message.startswith("prompt is already in the cache"):
        return "cache_kept"
    if "exceeds cache size limit" in message:
        return "cache_refused"
    if message.startswith("purging slot"):
        return "purged"
    if "free space in the KV cache" in message:
        return "kv_full"
    return None


def _exact_kind(kind: EventKind, message: str) -> EventKind | None:
    """The kind of a message whose first bytes several kinds share."""
    if kind == "selected_by_similarity":
        lower = message.lower()
        if "by id" in lower:
            return "selected_by_id"
        return "selected_by_age" if "by lru" in lower else kind
    if kind == "busy":
        return kind if "is_processing = 1" in message else None
    if message.startswith("SWA checkpoint"):
        word = message[15:22]
        if word.startswith("create"):
            return "checkpoint_created"
        return "checkpoint_restored" if word.startswith("restore") else "checkpoint_erased"
    if kind in ("checkpoint_created", "checkpoint_restored"):
        # others: `created speculative checkpoint`, `restored 2 context checkpoint(s) from 'FILE'`
        return kind if "context checkpoint " in message else None
    if kind == "cache_load_failed":
        return kind if "load prompt from cache" in message else None
    if kind == "context_shift":
        return kind if "context shift" in message else None
    if kind == "launched":
        return kind if "processing task" in message else None
    return kind
