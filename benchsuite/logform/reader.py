"""Reads a server's log as it grows: chunks of bytes in, facts out; never raises, whatever it reads.

A whole block is searched for a few marks at C speed, and only lines that hold one are looked at.
Tried and rejected: one alternation over each block (20 ns a byte), and looking at each line.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from benchsuite.logform.blocks import (
    Hit,
    Take,
    by_position,
    cap_lines,
    find_marks,
    line_at,
    marked_lines,
)
from benchsuite.logform.crash import CRASH_MARKS, CrashReader
from benchsuite.logform.events import EventReader
from benchsuite.logform.facts import (
    CacheState,
    Crash,
    Load,
    LogFacts,
    LogFailure,
    PromptReuse,
    SlotLaunch,
    SlotTiming,
)
from benchsuite.logform.failure import FAILURE_MARKS, FailureReader
from benchsuite.logform.grammar import parse_table_row, read_table
from benchsuite.logform.instance import Instance
from benchsuite.logform.lines import LINE_BYTES, read_line
from benchsuite.logform.slots import SlotReader, parse_cache_state
from benchsuite.logform.start import (
    begins_load,
    parse_build,
    parse_checkpoint_limit,
    parse_cpu_features,
    parse_exited,
    parse_listening,
    parse_new_slot,
    parse_prompt_cache,
    parse_slots,
    parse_spawned,
    parse_verbosity,
)

BLOCK_BYTES = 65536
TAIL_BYTES = 65536
"""So much of the end is kept, for last lines, errors and whatever a dying server printed."""
LAST_LINES = 40
_HEAD_BYTES = 4 * 1024 * 1024
"""Build, CPU features and the like are printed once, at a start; looked for in so much of it."""
_BEFORE_BYTES = 2048
_MOST_INSTANCES = 256
_CRASH_LINES = 3
"""A CUDA error is told in so many lines around the one that names the device."""
_DECODE_LINES = 8
"""How far below its prompt's line a task's line of decoding may stand."""

_WARNING_LINES = 10
_WARNING_MARKS = (b"W ", b"WARN", b'"warn')
"""In every line of level W: `0.01.2 W srv`, ik_llama's `WARN [`, JSON's `"level":"warn"`."""

_SCAN_MARKS = tuple(dict.fromkeys(CRASH_MARKS + FAILURE_MARKS))


class _Scan(msgspec.Struct):
    """What the tail says."""

    crash: Crash | None
    failure: LogFailure | None
    errors: tuple[str, ...]
    warnings: int
    warning_lines: tuple[str, ...]
    last_lines: tuple[str, ...]
    forced_stop: bool


class LogReader:
    """Reads one log.

    `launches`, `timings` and `reuses` grow while the log does and may be polled; each keeps its
    last 100,000 entries at most.
    """

    def __init__(self) -> None:
        self._slots = SlotReader()
        self._events = EventReader()
        self._instances: dict[str, Instance] = {}
        self._crashes: dict[str, CrashReader] = {}
        self._child_crash: Crash | None = None
        self._children: dict[str, Instance] = {}  # of a router, by the model's name
        self._current = ""  # the instance that loaded last
        self._build: str | None = None
        self._verbosity: int | None = None
        self._cpu_features = ""
        self._cache_state: CacheState | None = None
        self._prompt_cache: bool | None = None
        self._checkpoint_limit: int | None = None
        self._partial = b""
        self._skipping = False  # within a line of which enough was kept
        self._tail = b""
        self._cut_tail = False
        self._offset = 0  # of the next block, in the stream of capped lines
        self._bytes_read = 0
        self._continued: tuple[int, Callable[[bytes], None]] | None = None
        self._finished = False
        self._scanned: tuple[int, _Scan] | None = None
        self._marks: tuple[tuple[bytes, Take], ...] = (
            (b" size", self._take_memory),
            (b"prompt eval time", self._take_timing),
            (b"processing task", self._slots.take_launch),
            (b", end)", self._slots.take_reuse),
            (b"initializing", self._take_slots),
            (b"loading model", self._take_loading),
            (b"loading draft", self._take_loading),
            (b"memory_breakdown", self._take_table),
            (b"GGML_ASSERT", self._take_assert),
            (b"current device: ", self._take_device),
        )
        self._head_marks: tuple[tuple[bytes, Take], ...] = (
            (b"build", self._take_build),
            (b"verbosity = ", self._take_verbosity),
            (b"system_info", self._take_system),
            (b"listening", self._take_listening),
            (b"new slot", self._take_new_slot),
            (b"prompt cache is ", self._take_prompt_cache),
            (b"context checkpoints ", self._take_checkpoint_limit),
        )
        self._router_marks: tuple[tuple[bytes, Take], ...] = (
            (b"server instance with name", self._take_child),
            (b"exited with status", self._take_child),
        )

    @property
    def launches(self) -> list[SlotLaunch]:
        """Every `processing task` line so far, in order."""
        return self._slots.launches

    @property
    def timings(self) -> list[SlotTiming]:
        """Every finished task's timing lines so far, in order."""
        return self._slots.timings

    @property
    def reuses(self) -> list[PromptReuse]:
        """What each task found in its slot, in order."""
        return self._slots.reuses

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
        for start in range(0, len(chunk), BLOCK_BYTES):
            self._feed_piece(chunk[start : start + BLOCK_BYTES])

    def _feed_piece(self, piece: bytes) -> None:
        if self._skipping:
            newline = piece.find(b"\n")
            if newline < 0:
                return
            self._skipping = False
            piece = piece[newline:]
        data = self._partial + piece
        end = data.rfind(b"\n") + 1
        self._partial = data[end:]
        if len(self._partial) > LINE_BYTES:
            self._partial = self._partial[:LINE_BYTES]
            self._skipping = True
        if end:
            self._read_block(cap_lines(data[:end]))

    def finish(self) -> LogFacts:
        """Everything that was read; the log has ended, so a last line without newline counts."""
        if self._partial:
            block, self._partial, self._skipping = self._partial + b"\n", b"", False
            self._read_block(block)
        self._slots.finish()
        self._finished = True
        return self.facts()

    def _read_block(self, block: bytes) -> None:
        """Read whole lines."""
        if self._continued is not None:
            self._continue(block, 0)
        self._events.take_block(block)
        hits = find_marks(block, 0, self._marks)
        in_head = self._offset < _HEAD_BYTES
        if in_head:
            hits += self._find_head(block)
        if in_head or len(self._instances) > 1:
            hits += find_marks(block, 0, self._router_marks)
        hits.sort(key=by_position)
        for position, end, take in hits:
            take(block, position, end)
            if self._continued is not None:
                self._continue(block, end + 1)
        state = block.rfind(b"cache state: ")
        if state >= 0:
            found = parse_cache_state(block[state : block.find(b"\n", state)])
            self._cache_state = found or self._cache_state
        self._offset += len(block)
        tail = self._tail + block
        if len(tail) > TAIL_BYTES:
            tail, self._cut_tail = tail[-TAIL_BYTES:], True
        self._tail = tail

    def _find_head(self, block: bytes) -> list[Hit]:
        reach = _HEAD_BYTES - self._offset
        return [hit for hit in find_marks(block, 0, self._head_marks) if hit[0] < reach]

    def _before(self, block: bytes, start: int) -> list[bytes]:
        """The lines before the one at `start`, the nearest last, over so many bytes."""
        text = block[max(0, start - _BEFORE_BYTES) : start]
        whole = False
        if start < _BEFORE_BYTES:
            whole = not self._cut_tail and start + len(self._tail) <= _BEFORE_BYTES
            text = self._tail[start - _BEFORE_BYTES :] + text
        lines = text.split(b"\n")[:-1]
        return lines if whole else lines[1:]

    def _continue(self, block: bytes, start: int) -> None:
        """Give the next lines to whoever asked for them."""
        while self._continued is not None and start < len(block):
            count, take = self._continued
            end = block.find(b"\n", start)
            self._continued = (count - 1, take) if count > 1 else None
            take(block[start:end])
            start = end + 1

    def _instance(self, name: str, new: Instance | None = None) -> Instance:
        """The process of that name, made where it is new."""
        found = self._instances.get(name)
        if found is None:
            if len(self._instances) >= _MOST_INSTANCES:
                return new or Instance(name)
            found = self._instances[name] = new or Instance(name)
        return found

    def _take_timing(self, block: bytes, position: int, end: int) -> None:
        if self._slots.take_prompt_timing(block, position, end, lambda at: self._before(block, at)):
            self._continued = (_DECODE_LINES, self._slots.take_decode_timing)

    def _take_memory(self, block: bytes, position: int, end: int) -> None:
        before = block[position - 12 : position]
        if before == b" total state":
            return  # the host prompt cache's, at every save
        if before == b"maller batch":
            self._events.take_kv_full()
            return
        raw = line_at(block, position, end)
        line = read_line(raw)
        known = self._instances.get(line.instance)
        instance = known or Instance(line.instance)
        if not instance.memory.take(line.text):
            return
        if known is None:
            instance = self._instance(line.instance, instance)
        self._current = instance.name
        if line.text.rstrip().endswith("MiB") and "buffer" not in line.text:
            # a size line that someone broke after its total
            self._continued = (3, self._take_size_rest(line.instance))

    def _take_size_rest(self, name: str) -> Callable[[bytes], None]:
        def take(raw: bytes) -> None:
            line = read_line(raw)
            if line.instance == name:
                self._instance(name).memory.take_size_rest(line.text)

        return take

    def _take_slots(self, block: bytes, position: int, end: int) -> None:
        raw = line_at(block, position, end)
        slots = parse_slots(raw.decode("utf-8", "replace"))
        if slots is not None:
            instance = self._instance(read_line(raw).instance)
            instance.begin_serving(slots)
            self._current = instance.name

    def _take_new_slot(self, block: bytes, position: int, end: int) -> None:
        raw = line_at(block, position, end)
        n_ctx_slot = parse_new_slot(raw.decode("utf-8", "replace"))
        if n_ctx_slot is not None:
            instance = self._instance(read_line(raw).instance)
            if instance.n_ctx_slot is None:
                instance.n_ctx_slot = n_ctx_slot

    def _take_loading(self, block: bytes, position: int, end: int) -> None:
        line = read_line(line_at(block, position, end))
        if "loading draft model" in line.text:
            self._instance(line.instance).memory.begin_draft()
        elif begins_load(line.text):
            instance = self._instance(line.instance)
            instance.begin_load()
            self._current = instance.name

    def _take_table(self, block: bytes, position: int, end: int) -> None:
        raw = line_at(block, position, end)
        line = read_line(raw)
        instance = self._instance(line.instance)
        rows = read_table(line.record)
        if rows is not None:
            instance.take_table(rows, new=True)
            return
        row = parse_table_row(line.text)
        if row is not None:
            instance.take_table((row,), new=False)
        elif "memory breakdown [MiB]" in line.text:
            before = self._before(block, end - len(raw))[-_CRASH_LINES:]
            instance.ending = instance.ending or any(b"cleaning up" in text for text in before)
            instance.take_table((), new=True)

    def _take_assert(self, block: bytes, position: int, end: int) -> None:
        self._note_crash(line_at(block, position, end))

    def _take_device(self, block: bytes, position: int, end: int) -> None:
        raw = line_at(block, position, end)
        instance = read_line(raw).instance
        for neighbour in self._before(block, end - len(raw))[-_CRASH_LINES:]:
            if read_line(neighbour).instance == instance:
                self._note_abort(neighbour)
        self._note_crash(raw)
        self._continued = (_CRASH_LINES, self._note_abort)

    def _note_crash(self, raw: bytes) -> None:
        line = read_line(raw)
        reader = self._crashes.get(line.instance) or CrashReader()
        if reader.take(line) and len(self._crashes) < _MOST_INSTANCES:
            self._crashes[line.instance] = reader

    def _note_abort(self, raw: bytes) -> None:
        if b" error" in raw:
            self._note_crash(raw)

    def _take_child(self, block: bytes, position: int, end: int) -> None:
        text = read_line(line_at(block, position, end)).text
        spawned = parse_spawned(text)
        if spawned is not None:
            name, port = spawned
            instance = self._instance(port)
            instance.model = name
            self._children[name] = instance
        exited = parse_exited(text)
        if exited is not None:
            name, status, words = exited
            child = self._children.get(name)
            if child is not None:
                child.exit_status = status
            if status != 0 and self._child_crash is None:
                port = "" if child is None else child.name
                self._child_crash = Crash("child", message=words, instance=port)

    def _take_build(self, block: bytes, position: int, end: int) -> None:
        if self._build is None:
            self._build = parse_build(line_at(block, position, end).decode("utf-8", "replace"))

    def _take_verbosity(self, block: bytes, position: int, end: int) -> None:
        if self._verbosity is None:
            self._verbosity = parse_verbosity(read_line(line_at(block, position, end)).text)

    def _take_system(self, block: bytes, position: int, end: int) -> None:
        if not self._cpu_features:
            text = read_line(line_at(block, position, end)).text
            self._cpu_features = parse_cpu_features(text) or ""

    def _take_listening(self, block: bytes, position: int, end: int) -> None:
        line = read_line(line_at(block, position, end))
        url = parse_listening(line.text)
        if url is not None:
            self._instance(line.instance).listening = url

    def _take_prompt_cache(self, block: bytes, position: int, end: int) -> None:
        self._prompt_cache = parse_prompt_cache(
            read_line(line_at(block, position, end)).text, self._prompt_cache
        )

    def _take_checkpoint_limit(self, block: bytes, position: int, end: int) -> None:
        self._checkpoint_limit = parse_checkpoint_limit(
            read_line(line_at(block, position, end)).text, self._checkpoint_limit
        )

    def facts(self) -> LogFacts:
        """What was read so far; a last line without newline is left out until it is complete."""
        scan = self._scan()
        failed = scan.failure is not None and scan.failure.kind == "kv_memory"
        loads = []
        for instance in self._instances.values():
            # KV lines come in groups: before the context is complete more may follow
            partial = not instance.memory.settled and (failed or not self._finished)
            loads.append(instance.load(partial=partial))
        return LogFacts(
            load=self._choose(loads),
            loads=tuple(loads),
            build=self._build,
            verbosity=self._verbosity,
            cpu_features=self._cpu_features,
            launches=tuple(self.launches),
            timings=tuple(self.timings),
            reuses=tuple(self.reuses),
            cache_state=self._cache_state,
            events=tuple(self._events.events),
            event_counts=dict(self._events.counts),
            prompt_cache=self._prompt_cache,
            checkpoint_limit=self._checkpoint_limit,
            crash=scan.crash,
            failure=scan.failure,
            forced_stop=scan.forced_stop,
            error_lines=scan.errors,
            warnings=scan.warnings,
            warning_lines=scan.warning_lines,
            last_lines=scan.last_lines,
            bytes_read=self._bytes_read,
        )

    def _choose(self, loads: list[Load]) -> Load:
        """The server's own load; with a router or compose, the last that loaded."""
        by_name = {load.instance: load for load in loads}
        for name in ("", self._current):
            instance = self._instances.get(name)
            if instance is not None and instance.loaded:
                return by_name[name]
        return by_name.get(self._current, by_name.get("", Load()))

    def _scan(self) -> _Scan:
        """Look at the tail, where errors, failures and most forms of a crash stand."""
        if self._scanned is not None and self._scanned[0] == self._offset:
            return self._scanned[1]
        tail = self._tail
        if self._cut_tail:
            tail = tail[tail.find(b"\n") + 1 :]
        crashes = {name: CrashReader(reader.crash) for name, reader in self._crashes.items()}
        failures = FailureReader()
        for raw in marked_lines(tail, _SCAN_MARKS):
            line = read_line(raw)
            if raw.startswith(b"# "):
                continue
            instance = self._instances.get(line.instance)
            failures.take(line, serving=instance is not None and instance.serving)
            crashes.setdefault(line.instance, CrashReader()).take(line)
        warned = [
            text
            for raw in marked_lines(tail, _WARNING_MARKS)
            if (line := read_line(raw)).level == "W" and (text := line.text.strip())
        ]
        crash = next((reader.crash for reader in crashes.values() if reader.crash), None)
        scan = _Scan(
            crash=crash or self._child_crash,
            failure=failures.failure,
            errors=tuple(failures.errors),
            warnings=len(warned),
            warning_lines=_last_distinct(warned),
            last_lines=tuple(
                text
                for raw in tail.rsplit(b"\n", LAST_LINES + 1)[-LAST_LINES - 1 : -1]
                if (text := read_line(raw).text.rstrip())
            ),
            forced_stop=b"Received second interrupt" in tail,
        )
        self._scanned = (self._offset, scan)
        return scan


def _last_distinct(lines: list[str]) -> tuple[str, ...]:
    """The last few lines, each once, in the order of their last appearance."""
    found = list(dict.fromkeys(reversed(lines)))[:_WARNING_LINES]
    return tuple(reversed(found))
