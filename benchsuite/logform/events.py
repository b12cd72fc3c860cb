"""What slots and the host prompt cache did: lines of the log as `SlotEvent`s; pure.

Forms were read in the source of build 11434 and seen on builds 10092, 10434 and 11549 (embedded);
older spellings (`selected slot by lcs similarity`, `SWA checkpoint create`) in saved logs. Most
have level 4 of verbosity, `selected slot`, `stop processing` and warnings 3. The JSON lines of
early 2024 and ik_llama's own forms have no such lines but launches and timings, which
`SlotReader` reads.

Events are read when they are asked for; of a log that is read in one go, those of its end. Whoever
follows a log asks as it grows, and has them all.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator

from benchsuite.logform.blocks import Take
from benchsuite.logform.facts import EventKind, SlotEvent
from benchsuite.logform.lines import read_line
from benchsuite.logform.slots import KEEP
from benchsuite.redact import beginning, beginning_of_bytes

_SLOT_LINE = re.compile(
    rb"\| task -?\d+ \| "
    rb"(selected slot by [A-Za-z]{2}|processing task| - checking sim|new prompt|forcing full"
    rb"|stop processing|clearing "
    rb"|(?:created|restored|erased invalidated|erasing|erasing old|superseding)"
    rb" context checkpoint |SWA checkpoint [a-z]{5}|slot context shift|input truncated|stopped due"
    rb"|reusing chunk|saving idle|need to evaluate| - skipping, is_processing = 1"
    rb"|failed to load prompt)"
)
"""In every line of a slot since spring 2024: `slot get_availabl: id  0 | task -1 | ...`."""
_CACHE_LINE = re.compile(
    rb":  - (saving prompt|found better|making room|removing obsolete|prompt is already"
    rb"|prompt state size|cache size limit reached|cache token limit)"
)
"""Lines of the host prompt cache: `srv          load:  - found better prompt with ...`."""
_NO_ROOM = b"free space in the "
_PURGING = b"try_clear_id: purging slot "
_LOADING = b"loading model '"
_LOADS = re.compile(r"(?:srv\s+)?\w+:\s*")
"""What stands before it: `srv    load_model: loading model 'FILE'` (builds 10092 to 11549)."""
PENDING_BYTES = 512 * 1024
"""So much of the log is kept to have its events read; what came before was only counted."""

_KEY = 9
_KINDS: dict[bytes, EventKind] = {
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
    b"slot cont": "context_shift",
    b"input tru": "truncated",
    b"stopped d": "context_full",
    b"stop proc": "released",
    b"clearing ": "cleared",
    b"reusing c": "chunk_reused",
    b"saving id": "idle_saved",
    b"need to e": "one_token",
    b"failed to": "cache_load_failed",
    b"saving pr": "cache_saved",
    b"found bet": "cache_loaded",
    b"making ro": "cache_evicted",
    b"cache siz": "cache_evicted",
    b"cache tok": "cache_evicted",
    b"removing ": "cache_obsolete",
    b"prompt is": "cache_kept",
    b"prompt st": "cache_refused",
}
"""By the first bytes of what the patterns find."""
_SELECTED: dict[bytes, EventKind] = {b"lr": "selected_by_age", b"id": "selected_by_id"}
_SWA: dict[bytes, EventKind] = {b"creat": "checkpoint_created", b"resto": "checkpoint_restored"}

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

_SIZE = r"(\d{1,9}(?:\.\d{1,9})?)"
_PLAIN: dict[EventKind, tuple[re.Pattern[str], tuple[str, ...]]] = {
    "checked": (
        re.compile(r"\((\d+)/(\d+)\) > (\d{1,9}(?:\.\d{1,9})?)"),
        ("lcp", "n_tokens", "threshold"),
    ),
    "selected_by_similarity": (re.compile(r"\(> (\d{1,9}(?:\.\d{1,9})?) thold\)"), ("threshold",)),
    "checkpoint_created": (re.compile(r"checkpoint (\d+) of (\d+)"), ("number", "limit")),
    "cleared": (re.compile(r"with (\d+) tokens"), ("n_tokens",)),
    "purged": (re.compile(r"purging slot (\d{1,9}) with (\d{1,9}) tokens"), ("slot", "n_tokens")),
    "chunk_reused": (
        re.compile(r"size (\d+), shifting KV cache \[(\d+), \d+\) -> \[(\d+),"),
        ("n_tokens", "from", "to"),
    ),
    "cache_saved": (
        re.compile(r"with length (\d+),.*? state size = (\d{1,9}(?:\.\d{1,9})?)"),
        ("n_tokens", "mib"),
    ),
    "cache_obsolete": (re.compile(r"with length (\d+)"), ("n_tokens",)),
    "cache_refused": (
        re.compile(rf"state size {_SIZE} MiB exceeds cache size limit {_SIZE}"),
        ("mib", "limit_mib"),
    ),
}
"""Numbers that stand without a name, by kind."""


class EventReader:
    """The last events of a log, in order, and how many there were of the kinds that matter.

    Counting is what a log of a gigabyte pays for. Its marks are searched together with others
    that begin alike; each kind by itself, or each line kept, made reading half as fast again.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}  # of `COUNTED`, so far
        self._blocks: deque[bytes] = deque()  # whole lines, not read yet
        self._pending = 0  # bytes in them
        self._events: list[SlotEvent] = []

    def slot_marks(self) -> dict[bytes, Take]:
        """Pattern of what follows `| ` in the line of a slot -> who counts it.

        The first four bytes of each are its own, as `Marks` needs it.
        """
        return {
            b"crea" + rb"ted context checkpoint ": self._counter("checkpoint_created"),
            b"rest" + rb"ored context checkpoint ": self._counter("checkpoint_restored"),
            b"eras" + rb"(?:ing|ing old|ed invalidated) context checkpoint ": self._take_erased,
            b"supe" + rb"rseding context checkpoint ": self._counter("checkpoint_erased"),
            b"SWA " + rb"checkpoint [a-z]": self._take_swa,
            b"forc" + rb"ing full prompt": self._counter("full_reprocessing"),
            b"slot" + rb" context shift": self._counter("context_shift"),
            b"inpu" + rb"t truncated": self._counter("truncated"),
            b"stop" + rb" processing: n_[a-z]+ = \d+, truncated = 1": self._counter("truncated"),
            b"clea" + rb"ring ": self._counter("cleared"),
            b"reus" + rb"ing chunk": self._counter("chunk_reused"),
        }

    def _counter(self, kind: str) -> Take:
        def take(block: bytes, position: int, end: int) -> None:
            self._count(kind)

        return take

    def _take_erased(self, block: bytes, position: int, end: int) -> None:
        invalidated = block.startswith(b"erased", position)
        self._count("checkpoint_invalidated" if invalidated else "checkpoint_erased")

    def _take_swa(self, block: bytes, position: int, end: int) -> None:
        self._count(_SWA.get(block[position + 15 : position + 20], "checkpoint_erased"))

    def take_no_room(self, block: bytes, position: int) -> bool:
        """Whether `KV`, at `position`, is that of `failed to find free space in the KV cache`."""
        if block[position - len(_NO_ROOM) : position] != _NO_ROOM:
            return False
        self._count("kv_full")
        return True

    def _count(self, kind: str | None, number: int = 1) -> None:
        if kind is not None and number:
            self.counts[kind] = self.counts.get(kind, 0) + number

    def take_block(self, block: bytes, limit: int) -> None:
        """Take whole lines, `block[:limit]`."""
        for start, number in Counter(_CACHE_LINE.findall(block, 0, limit)).items():
            self._count(_kind_of(start), number)
        first = 0
        if limit > PENDING_BYTES:
            first = block.find(b"\n", limit - PENDING_BYTES - 1, limit) + 1
        self._drop(PENDING_BYTES - (limit - first), all_of_it=first > 0)
        self._blocks.append(block[first:limit])
        self._pending += limit - first

    def _drop(self, room: int, *, all_of_it: bool) -> None:
        """Let go of the oldest lines, until so many bytes are left at most."""
        if all_of_it or self._pending > room:
            self._events.clear()  # what is kept has no gaps
        while self._blocks and (all_of_it or self._pending > room):
            self._pending -= len(self._blocks.popleft())

    @property
    def events(self) -> list[SlotEvent]:
        """The events so far, the last 100,000 at most."""
        for block in self._blocks:
            for raw in _event_lines(block):
                event = parse_event(raw)
                if event is not None:
                    self._events.append(event)
        self._blocks.clear()
        self._pending = 0
        if len(self._events) > KEEP:
            del self._events[: -KEEP // 2]
        return self._events


def _event_lines(block: bytes) -> Iterator[bytes]:
    """The lines of whole lines that tell an event, in order."""
    places = [match.start() for match in _SLOT_LINE.finditer(block)]
    places += [match.start() for match in _CACHE_LINE.finditer(block)]
    for mark in (_PURGING, _LOADING):
        place = block.find(mark)
        while place >= 0:
            places.append(place)
            place = block.find(mark, place + 1)
    for place in sorted(places):
        start = block.rfind(b"\n", 0, place) + 1
        end = block.find(b"\n", place)
        yield beginning_of_bytes(block[start : end if end >= 0 else len(block)], _LINE_BYTES)


def _kind_of(start: bytes) -> EventKind | None:
    """What a line tells whose message begins so."""
    if start.startswith(b"selected slot by "):
        return _SELECTED.get(start[17:19].lower(), "selected_by_similarity")
    if start.startswith(b"SWA checkpoint "):
        return _SWA.get(start[15:20], "checkpoint_erased")
    return _KINDS.get(start[:_KEY])


def parse_event(raw: bytes) -> SlotEvent | None:
    """The event that a line tells; None where it tells none.

    Args:
        raw: One line without its newline, whatever stands before its message.
    """
    found = _SLOT_LINE.search(raw) or _CACHE_LINE.search(raw)
    kind = _kind_of(found[1]) if found is not None else None
    if found is None and _PURGING in raw:
        kind = "purged"
    elif found is None and _LOADING in raw:
        if not _LOADS.fullmatch(read_line(raw[: raw.index(_LOADING)]).text):
            return None  # of a text that a user sent
        kind = "model_loaded"
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
        unnamed = pattern.search(message)
        if unnamed is not None:
            numbers.update(zip(names, map(float, unnamed.groups()), strict=True))
    if kind == "purged":
        where = numbers.pop("slot", None)
        slot = None if where is None else int(where)
    if task is not None and task < 0:
        task = None
    if len(text) > _TEXT_CHARACTERS:
        text = beginning(text, _TEXT_CHARACTERS)
    return SlotEvent(kind, slot, task, numbers, text, line.instance)
