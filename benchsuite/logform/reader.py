"""Reads a server's log as it grows: chunks of bytes in, facts out; never raises, whatever it reads.

A whole block is searched for a few marks at C speed, and only lines that hold one are looked at.
Tried and rejected: one alternation over each block (20 ns a byte), looking at each line (as slow
as a bare loop before anything is read), and a search for each mark (0.35 ns a byte and mark).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from benchsuite.logform.blocks import (
    Hit,
    Marks,
    Take,
    by_position,
    cap_lines,
    find_mark,
    line_at,
)
from benchsuite.logform.crash import CrashReader
from benchsuite.logform.encoding import ToUtf8
from benchsuite.logform.events import EventReader
from benchsuite.logform.facts import (
    CacheState,
    LogFacts,
    PromptReuse,
    SlotEvent,
    SlotLaunch,
    SlotTiming,
)
from benchsuite.logform.instances import MOST_INSTANCES, Instances
from benchsuite.logform.lines import LINE_BYTES, is_prose, read_line
from benchsuite.logform.slots import DECODE_LINES, SlotReader, parse_cache_state
from benchsuite.logform.start import (
    parse_build,
    parse_checkpoint_limit,
    parse_context,
    parse_cpu_features,
    parse_prompt_cache,
    parse_verbosity,
)
from benchsuite.logform.tail import Scan, Tail
from benchsuite.redact import beginning_of_bytes

BLOCK_BYTES = 1024 * 1024
_HEAD_BYTES = 4 * 1024 * 1024
"""Build, CPU features and the like are printed once, at a start; looked for in so much of it."""
_CRASH_LINES = 3
"""A CUDA error is told in so many lines around the one that names the device."""
_JSON = b'{"type":"'
"""How each line of `--log-jsonl` begins (build 11434)."""
_TIMING, _LAUNCH, _REUSE = b"prompt eval time", b"processing task", b", end)"
_CACHE_STATE = b"cache state: "
_Told = TypeVar("_Told", SlotLaunch, SlotTiming, PromptReuse, SlotEvent)


class LogReader:
    """Reads one log.

    `launches`, `timings` and `reuses` grow while the log does and may be polled; each keeps its
    last 100,000 entries at most.

    Args:
        model: A router's name for a model: of its children's lines only those of this one are
            told. Empty tells all.
    """

    def __init__(self, model: str = "") -> None:
        self._slots = SlotReader()
        self._events = EventReader()
        self._instances = Instances(self, model)
        self._one_model = bool(model)
        self._crashes: dict[str, CrashReader] = {}
        self._build: str | None = None
        self._verbosity: int | None = None
        self._cpu_features = ""
        self._cache_state: CacheState | None = None
        self._prompt_cache: bool | None = None
        self._checkpoint_limit: int | None = None
        self._context_flags: dict[str, str] = {}
        self._to_utf8 = ToUtf8()
        self._partial = b""
        self._skipping = False  # within a line of which enough was kept
        self._tail = Tail()
        self._offset = 0  # of the next block, in the stream of capped lines
        self._bytes_read = 0
        # who asked for the next lines, by its reason: how many, and who takes them
        self._followers: dict[str, tuple[int, Callable[[bytes], None]]] = {}
        self._finished = False
        self._scanned: tuple[int, Scan] | None = None
        self._json = False  # `--log-jsonl`
        self._named: set[bytes] = set()  # bare marks whose lines name their slot in this log
        self._searched: set[bytes] = set()  # bare marks that this block was searched for
        self._load_began = False  # since the present block's lines were found
        take_launch = self._slots.put_aside(self._slots.take_launch)
        take_reuse = self._slots.put_aside(self._slots.take_reuse)
        self._slot_marks = self._find_slots(self._take_named_timing, take_launch, take_reuse)
        self._first_slot_marks = self._find_slots(
            self._naming(_TIMING, self._take_named_timing),
            self._naming(_LAUNCH, take_launch),
            self._naming(_REUSE, take_reuse),
        )
        self._marks: tuple[Marks, ...] = (
            Marks(
                b"z",
                1,
                {
                    # not the size of a prompt, told at every save to the host's cache
                    rb"e *[=:](?! [\d.]+ MiB \(draft)": self._instances.take_memory,
                    rb"ing(?:, n_slots| slots)": self._instances.take_slots,  # initializing
                },
            ),
            Marks(b"K", 1, {rb"V\b": self._take_kv}),
            Marks(b"G", 1, {b"GML_ASSERT": self._take_assert}),
        )
        self._single_marks: tuple[tuple[bytes, Take], ...] = (
            (b"loading ", self._instances.take_loading),
            (b"current device: ", self._take_device),
        )
        # The same slot lines where no `id N | task N | ` stands before their message: timings
        # until mid 2026, JSON of early 2024, ik_llama. Not searched for once such a line has named
        # its slot, until another server may be printing.
        self._bare_marks: tuple[tuple[bytes, Take], ...] = (
            (_TIMING, self._bare_take(_TIMING, self._take_timing)),
            (_LAUNCH, self._bare_take(_LAUNCH, take_launch)),
            (_REUSE, self._bare_take(_REUSE, take_reuse)),
        )
        self._head_marks: tuple[tuple[bytes, Take], ...] = (
            (b"build", self._take_build),
            (b"verbosity = ", self._take_verbosity),
            (b"n_batch ", self._take_context),
            (b"n_ubatch ", self._take_context),
            (b"flash_attn ", self._take_context),
            (b"system_info", self._take_system),
            (b"prompt cache is ", self._take_prompt_cache),
            (b"context checkpoints ", self._take_checkpoint_limit),
            (b"listening", self._instances.take_listening),
            (b"new slot", self._instances.take_new_slot),
            (b"using device ", self._instances.take_used_device),
        )
        self._router_marks: tuple[tuple[bytes, Take], ...] = (
            (b"server instance with name", self._instances.take_child),
            (b"exited with status", self._instances.take_child),
        )

    @property
    def launches(self) -> list[SlotLaunch]:
        """Every `processing task` line so far, in order."""
        return self._of_model(self._slots.launches)

    @property
    def timings(self) -> list[SlotTiming]:
        """Every finished task's timing lines so far, in order."""
        return self._of_model(self._slots.timings)

    @property
    def reuses(self) -> list[PromptReuse]:
        """What each task found in its slot, in order."""
        return self._of_model(self._slots.reuses)

    @property
    def events(self) -> list[SlotEvent]:
        """What slots and the host prompt cache did so far, the last 100,000 lines at most."""
        return self._of_model(self._events.events)

    def _of_model(self, found: list[_Told]) -> list[_Told]:
        if not self._one_model:
            return found
        return [one for one in found if self._instances.concerns(one.instance)]

    def keep_events(self) -> None:
        """Read the events of what was fed; whoever follows a log does so as it grows."""
        _ = self._events.events

    def feed(self, chunk: bytes) -> None:
        """Read the next bytes of the log, cut anywhere.

        Args:
            chunk: Any bytes; a line counts once its newline has come.
        """
        self._bytes_read += len(chunk)
        self._finished = False
        chunk = self._to_utf8.take(chunk)
        for start in range(0, len(chunk), BLOCK_BYTES):
            self._feed_piece(chunk[start : start + BLOCK_BYTES])

    def _feed_piece(self, piece: bytes) -> None:
        if self._skipping:
            newline = piece.find(b"\n")
            if newline < 0:
                return
            self._skipping = False
            piece = piece[newline:]
        data = self._partial + piece if self._partial else piece
        end = data.rfind(b"\n") + 1
        self._partial = data[end:]
        if len(self._partial) > 2 * LINE_BYTES:  # a key across the first cut has come whole
            self._partial = beginning_of_bytes(self._partial, LINE_BYTES)
            self._skipping = True
        if end:
            self._read_block(*cap_lines(data, end))

    def finish(self) -> LogFacts:
        """Everything that was read; the log has ended, so a last line without newline counts."""
        self._partial += self._to_utf8.finish()
        if self._partial:
            block, self._partial, self._skipping = self._partial + b"\n", b"", False
            self._read_block(*cap_lines(block, len(block)))
        self._slots.finish()
        self._finished = True
        return self.facts()

    def _read_block(self, block: bytes, limit: int) -> None:
        """Read whole lines, `block[:limit]`."""
        self._events.take_block(block, limit)
        hits = self._find(block, limit)
        hits.sort(key=by_position)
        number = followed = 0  # lines before `followed` were given to whoever asked for them
        while number < len(hits):
            position, end, take = hits[number]
            number += 1
            if self._followers:
                self._continue(block, followed, end + 1)
            followed = end + 1
            take(block, position, end)
            if self._load_began:
                self._load_began = False
                new = self._find_bare(block, end, limit)
                if new:
                    hits[number:] = sorted(hits[number:] + new, key=by_position)
        if self._followers:
            self._continue(block, followed, limit)
        self._take_cache_state(block, limit)
        self._offset += limit
        self._tail.add(block, limit)

    def _find(self, block: bytes, limit: int) -> list[Hit]:
        """The lines to read, in any order."""
        hits = []
        all_named = len(self._named) == len(self._bare_marks)
        hits += (self._slot_marks if all_named else self._first_slot_marks).find(block, 0, limit)
        for marks in self._marks:
            hits += marks.find(block, 0, limit)
        for mark, take in self._single_marks:
            hits += find_mark(block, 0, limit, mark, take)
        self._searched.clear()
        hits += self._find_bare(block, 0, limit)
        head = min(_HEAD_BYTES - self._offset, limit)
        if head > 0:
            self._json = self._json or block.find(_JSON, 0, head) >= 0
            for mark, take in self._head_marks:
                hits += [hit for hit in find_mark(block, 0, limit, mark, take) if hit[0] < head]
        if head > 0 or len(self._instances.by_name) > 1:
            for mark, take in self._router_marks:
                hits += find_mark(block, 0, limit, mark, take)
        if self._json:
            hits += find_mark(block, 0, limit, b"fit_memory_breakdown", self._instances.take_table)
        return hits

    def _find_bare(self, block: bytes, start: int, limit: int) -> list[Hit]:
        hits = []
        for mark, take in self._bare_marks:
            if mark not in self._named and mark not in self._searched:
                self._searched.add(mark)
                hits += find_mark(block, start, limit, mark, take)
        return hits

    def _find_slots(self, timing: Take, launch: Take, reuse: Take) -> Marks:
        """The marks of `slot NAME: id N | task N | MESSAGE`, and of the memory table's rows."""
        return Marks(
            b"| ",
            4,
            {
                _TIMING: timing,
                _LAUNCH: launch,
                b"cached n_": reuse,
                b"n_past = ": reuse,
                b"n_tokens = ": reuse,
                b"kv cache rm": reuse,
                b"memory breakdown": self._instances.take_table,
                b"  - ": self._instances.take_table,
                **self._events.slot_marks(),
            },
        )

    def _naming(self, mark: bytes, take: Take) -> Take:
        """Reads a line that names its slot, and remembers that this log's do."""

        def named(block: bytes, position: int, end: int) -> None:
            if len(self._instances.by_name) < 2:
                self._named.add(mark)
            take(block, position, end)

        return named

    def _bare_take(self, mark: bytes, take: Take) -> Take:
        def bare(block: bytes, position: int, end: int) -> None:
            if mark not in self._named and block[position - 2 : position] != b"| ":
                take(block, position, end)

        return bare

    def before(self, block: bytes, start: int) -> list[bytes]:
        """For readers of lines: the lines before the one at `start`, the nearest last."""
        return self._tail.before(block, start)

    def follow(self, lines: int, take: Callable[[bytes], None]) -> None:
        """For readers of lines: give so many of the next lines to `take`."""
        self._followers["memory"] = (lines, take)

    def load_began(self) -> None:
        """For readers of lines: another server may be printing from here on."""
        self._named.clear()
        self._load_began = True

    def _continue(self, block: bytes, start: int, limit: int) -> None:
        """Give the next lines to whoever asked for them."""
        while self._followers and start < limit:
            end = block.find(b"\n", start)
            for reason, (count, take) in list(self._followers.items()):
                if count > 1:
                    self._followers[reason] = (count - 1, take)
                else:
                    del self._followers[reason]
                take(block[start:end])
            start = end + 1

    def _take_cache_state(self, block: bytes, limit: int) -> None:
        """Only the last line of it counts."""
        while (position := block.rfind(_CACHE_STATE, 0, limit)) >= 0:
            found = parse_cache_state(block[position : block.find(b"\n", position)])
            start = block.rfind(b"\n", 0, position) + 1
            message = read_line(block[start:position]).text
            if found is not None and not is_prose(message):
                self._cache_state = found
                return
            limit = position

    def _take_kv(self, block: bytes, position: int, end: int) -> None:
        if not self._events.take_no_room(block, position - 1):
            self._instances.take_memory(block, position, end)

    def _take_named_timing(self, block: bytes, position: int, end: int) -> None:
        if self._slots.put_timing_aside(block, position, end):
            self._followers["timing"] = (DECODE_LINES, self._slots.take_line_below)

    def _take_timing(self, block: bytes, position: int, end: int) -> None:
        if self._slots.take_prompt_timing(block, position, end, lambda at: self.before(block, at)):
            self._followers["timing"] = (DECODE_LINES, self._slots.take_line_below)

    def _take_assert(self, block: bytes, position: int, end: int) -> None:
        self._note_crash(line_at(block, position, end))

    def _take_device(self, block: bytes, position: int, end: int) -> None:
        raw = line_at(block, position, end)
        instance = read_line(raw).instance
        for neighbour in self.before(block, end - len(raw))[-_CRASH_LINES:]:
            if read_line(neighbour).instance == instance:
                self._note_abort(neighbour)
        self._note_crash(raw)
        self._followers["device"] = (_CRASH_LINES, self._note_abort)

    def _note_crash(self, raw: bytes) -> None:
        line = read_line(raw)
        reader = self._crashes.get(line.instance) or CrashReader()
        if reader.take(line) and len(self._crashes) < MOST_INSTANCES:
            self._crashes[line.instance] = reader

    def _note_abort(self, raw: bytes) -> None:
        if b" error" in raw:
            self._note_crash(raw)

    def _take_build(self, block: bytes, position: int, end: int) -> None:
        if self._build is not None:
            return
        raw = line_at(block, position, end)
        line = read_line(raw)
        before = line.text.partition("build")[0]
        if line.record is not None or not (line.level == "D" or is_prose(before)):
            self._build = parse_build(raw.decode("utf-8", "replace"))

    def _take_verbosity(self, block: bytes, position: int, end: int) -> None:
        if self._verbosity is None:
            self._verbosity = parse_verbosity(read_line(line_at(block, position, end)).text)

    def _take_context(self, block: bytes, position: int, end: int) -> None:
        line = read_line(line_at(block, position, end))
        found = parse_context(line.text)
        # the target context is made first, a draft's after it
        if found is not None and self._instances.concerns(line.instance):
            self._context_flags.setdefault(*found)

    def _take_system(self, block: bytes, position: int, end: int) -> None:
        if not self._cpu_features:
            text = read_line(line_at(block, position, end)).text
            self._cpu_features = parse_cpu_features(text) or ""

    def _take_prompt_cache(self, block: bytes, position: int, end: int) -> None:
        line = read_line(line_at(block, position, end))
        if self._instances.concerns(line.instance):
            self._prompt_cache = parse_prompt_cache(line.text, self._prompt_cache)

    def _take_checkpoint_limit(self, block: bytes, position: int, end: int) -> None:
        line = read_line(line_at(block, position, end))
        if self._instances.concerns(line.instance):
            self._checkpoint_limit = parse_checkpoint_limit(line.text, self._checkpoint_limit)

    def facts(self) -> LogFacts:
        """What was read so far; a last line without newline is left out until it is complete."""
        scan = self._scan()
        failed = scan.failure is not None and scan.failure.kind == "kv_memory"
        loads = []
        for instance in self._instances.by_name.values():
            # KV lines come in groups: before the context is complete more may follow
            partial = not instance.memory.settled and (failed or not self._finished)
            loads.append(instance.load(partial=partial))
        return LogFacts(
            load=self._instances.choose(loads),
            loads=tuple(loads),
            build=self._build,
            verbosity=self._verbosity,
            cpu_features=self._cpu_features,
            launches=tuple(self.launches),
            timings=tuple(self.timings),
            reuses=tuple(self.reuses),
            requests=len(self.timings) if self._one_model else self._slots.timed,
            cache_state=self._cache_state,
            events=tuple(self.events),
            event_counts=dict(self._events.counts),
            prompt_cache=self._prompt_cache,
            checkpoint_limit=self._checkpoint_limit,
            context_flags=dict(self._context_flags),
            crash=scan.crash or self._instances.child_crash,
            backtrace=scan.backtrace,
            failure=scan.failure,
            forced_stop=scan.forced_stop,
            error_lines=scan.errors,
            warnings=scan.warnings,
            warning_lines=scan.warning_lines,
            last_lines=scan.last_lines,
            bytes_read=self._bytes_read,
        )

    def _scan(self) -> Scan:
        if self._scanned is None or self._scanned[0] != self._offset:
            self._scanned = (
                self._offset,
                self._tail.scan(self._crashes, self._instances.is_serving),
            )
        return self._scanned[1]
