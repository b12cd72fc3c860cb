"""Reads a server's log as it grows: chunks of bytes in, facts out; never raises, whatever it reads.

A whole block is searched for a few marks at C speed, and only lines that hold one are looked at.
Tried and rejected: one alternation over each block (20 ns a byte), and looking at each line.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from benchsuite.logform.crash import CRASH_MARKS, CrashReader
from benchsuite.logform.facts import (
    CacheState,
    Crash,
    Load,
    LogFacts,
    LogFailure,
    PromptReuse,
    SlotLaunch,
    SlotTiming,
    TableRow,
)
from benchsuite.logform.failure import FAILURE_MARKS, FailureReader
from benchsuite.logform.grammar import parse_table_row, read_table
from benchsuite.logform.lines import LINE_BYTES, is_prose, read_line
from benchsuite.logform.memory import MemoryReader
from benchsuite.logform.slots import SlotReader, parse_cache_state

BLOCK_BYTES = 65536
TAIL_BYTES = 65536
"""So much of the end is kept, for last lines, errors and whatever a dying server printed."""
LAST_LINES = 40
_HEAD_BYTES = 4 * 1024 * 1024
"""Build, CPU features and the like are printed once, at a start; looked for in so much of it."""
_BEFORE_BYTES = 2048
_CRASH_LINES = 3
"""A CUDA error is told in so many lines around the one that names the device."""
_DECODE_LINES = 8
"""How far below its prompt's line a task's line of decoding may stand."""
_WINDOW = LINE_BYTES // 2

_N_SLOTS = re.compile(r'\bn_slots"?\s*[=:]\s*(\d{1,9})')
_N_CTX_SLOT = re.compile(r'\bn_ctx_slot"?\s*[=:]\s*(\d{1,12})')
_NEW_SLOT = re.compile(r"new slot,? n_ctx(?:_slot)? = (\d{1,12})")
_UNIFIED = re.compile(r"\bkv_unified\s*=\s*'?(true|false)")
_BUILD_INFO = re.compile(r"\bbuild_info: (\S+)")
_BUILD = (
    re.compile(r"\bbuild:? =? ?(\d{1,9}) \((\w+)\)"),
    re.compile(r"\bbuild=(\d{1,9}) commit=\"?(\w+)"),
    re.compile(r'"build":\s*(\d{1,9}),\s*"commit":\s*"(\w+)"'),
)
_VERBOSITY = re.compile(rb"verbosity = (\d{1,12})")
_SYSTEM = re.compile(r"system_info: [^|]*\|\s*(.*?)[\s|]*$")
_LISTENING = re.compile(r"listening on (https?://\S+?)[\s.]*(?: - |$)")
_LISTENING_AT = re.compile(
    r"listening.*?hostname[:=] ?\"?(?P<host>[^\s,\"]+)\"?,? +port[:=] ?\"?(?P<port>\d{1,5})"
)
_SPAWNED = re.compile(r"spawning server instance with name=(?P<name>.+) on port (?P<port>\d{1,5})")
_EXITED = re.compile(r"instance name=(?P<name>.+) exited with status (?P<status>-?\d{1,9})")
_LOADING = re.compile(r"loading model '|(?:^|: )loading model$")
_SCAN_MARKS = tuple(dict.fromkeys(CRASH_MARKS + FAILURE_MARKS))


class _Instance:
    """One server process within a log."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.model = ""
        self.memory = MemoryReader()
        self.serving = False
        self.ending = False
        self.n_slots: int | None = None
        self.n_ctx_slot: int | None = None
        self.kv_unified: bool | None = None
        self.listening: str | None = None
        self.exit_status: int | None = None
        self.fit_table: tuple[TableRow, ...] = ()
        self.exit_table: tuple[TableRow, ...] = ()

    def begin_load(self) -> None:
        self.memory.begin_load()
        self.serving = self.ending = False
        self.n_slots = self.n_ctx_slot = self.kv_unified = None
        self.fit_table = self.exit_table = ()

    def take_table(self, rows: tuple[TableRow, ...], *, new: bool) -> None:
        """Rows after the load are the table at exit; before it, memory fitting's estimate."""
        if self.serving or self.ending or self.memory.settled:
            self.exit_table = rows if new else self.exit_table + rows
        else:
            self.fit_table = rows if new else self.fit_table + rows

    def load(self, *, partial: bool) -> Load:
        load = self.memory.load(self.exit_table, self.fit_table, partial=partial)
        unified = load.kv_unified if self.kv_unified is None else self.kv_unified
        return msgspec.structs.replace(
            load,
            instance=self.name,
            model=self.model,
            n_slots=self.n_slots,
            n_ctx_slot=self.n_ctx_slot,
            kv_unified=unified,
            listening=self.listening,
            exit_status=self.exit_status,
        )


class _Scan(msgspec.Struct):
    """What the tail says."""

    crash: Crash | None
    failure: LogFailure | None
    errors: tuple[str, ...]
    last_lines: tuple[str, ...]
    forced_stop: bool


_Take = Callable[[bytes, int, int], None]
"""Reads a line with a mark, given its block, the mark's position, and the line's end."""


class LogReader:
    """Reads one log.

    `launches`, `timings` and `reuses` grow while the log does and may be polled; each keeps its
    last 100,000 entries at most.
    """

    def __init__(self) -> None:
        self._slots = SlotReader()
        self._instances: dict[str, _Instance] = {}
        self._crashes: dict[str, CrashReader] = {}
        self._child_crash: Crash | None = None
        self._ports: dict[str, str] = {}  # a router's model name -> the port of its last child
        self._current = ""  # the instance that loaded last
        self._build: str | None = None
        self._verbosity: int | None = None
        self._cpu_features = ""
        self._cache_state: CacheState | None = None
        self._partial = b""
        self._skipping = False  # within a line of which enough was kept
        self._tail = b""
        self._cut_tail = False
        self._offset = 0  # of the next block, in the stream of capped lines
        self._bytes_read = 0
        self._continued: tuple[int, Callable[[bytes], None]] | None = None
        self._finished = False
        self._scanned: tuple[int, _Scan] | None = None
        self._marks: tuple[tuple[bytes, _Take], ...] = (
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
        self._head_marks: tuple[tuple[bytes, _Take], ...] = (
            (b"build", self._take_build),
            (b"verbosity = ", self._take_verbosity),
            (b"system_info", self._take_system),
            (b"listening", self._take_listening),
            (b"new slot", self._take_new_slot),
        )
        self._router_marks: tuple[tuple[bytes, _Take], ...] = (
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
            self._read_block(_cap_lines(data[:end]))

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
        hits = _find(block, 0, self._marks)
        in_head = self._offset < _HEAD_BYTES
        if in_head:
            hits += self._find_head(block)
        if in_head or len(self._instances) > 1:
            hits += _find(block, 0, self._router_marks)
        hits.sort(key=_by_position)
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

    def _find_head(self, block: bytes) -> list[tuple[int, int, _Take]]:
        reach = _HEAD_BYTES - self._offset
        return [hit for hit in _find(block, 0, self._head_marks) if hit[0] < reach]

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

    def _instance(self, name: str) -> _Instance:
        found = self._instances.get(name)
        if found is None:
            found = self._instances[name] = _Instance(name)
        return found

    def _take_timing(self, block: bytes, position: int, end: int) -> None:
        if self._slots.take_prompt_timing(block, position, end, lambda at: self._before(block, at)):
            self._continued = (_DECODE_LINES, self._slots.take_decode_timing)

    def _take_memory(self, block: bytes, position: int, end: int) -> None:
        if block[position - 12 : position] == b" total state":
            return  # the host prompt cache's, at every save
        raw = _line(block, position, end)
        line = read_line(raw)
        instance = self._instance(line.instance)
        if instance.memory.take(line.text):
            self._current = line.instance
            if b"size = " in raw and raw.rstrip().endswith(b"MiB") and b"buffer" not in raw:
                # a size line that someone broke after its total
                self._continued = (3, self._take_size_rest(line.instance))

    def _take_size_rest(self, name: str) -> Callable[[bytes], None]:
        def take(raw: bytes) -> None:
            line = read_line(raw)
            if line.instance == name:
                self._instance(name).memory.take_size_rest(line.text)

        return take

    def _take_slots(self, block: bytes, position: int, end: int) -> None:
        raw = _line(block, position, end)
        line = read_line(raw)
        if "initializing" not in line.text:
            return
        text = raw.decode("utf-8", "replace")
        slots = _N_SLOTS.search(text)
        if slots is None:
            return
        instance = self._instance(line.instance)
        instance.serving = True
        instance.memory.begin_serving()
        instance.n_slots = int(slots[1])
        context = _N_CTX_SLOT.search(text)
        if context is not None:
            instance.n_ctx_slot = int(context[1])
        unified = _UNIFIED.search(text)
        if unified is not None:
            instance.kv_unified = unified[1] == "true"
        self._current = line.instance

    def _take_new_slot(self, block: bytes, position: int, end: int) -> None:
        raw = _line(block, position, end)
        text = raw.decode("utf-8", "replace")
        match = _NEW_SLOT.search(text) or _N_CTX_SLOT.search(text)
        if match is None:
            return
        instance = self._instance(read_line(raw).instance)
        if instance.n_ctx_slot is None:
            instance.n_ctx_slot = int(match[1])

    def _take_loading(self, block: bytes, position: int, end: int) -> None:
        raw = _line(block, position, end)
        line = read_line(raw)
        if "loading draft model" in line.text:
            self._instance(line.instance).memory.begin_draft()
        elif _LOADING.search(line.text) is not None:
            self._instance(line.instance).begin_load()
            self._current = line.instance

    def _take_table(self, block: bytes, position: int, end: int) -> None:
        raw = _line(block, position, end)
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
        raw = _line(block, position, end)
        if not is_prose(read_line(raw).text):
            self._note_crash(raw)

    def _take_device(self, block: bytes, position: int, end: int) -> None:
        raw = _line(block, position, end)
        line = read_line(raw)
        if is_prose(line.text):
            return
        for neighbour in self._before(block, end - len(raw))[-_CRASH_LINES:]:
            if read_line(neighbour).instance == line.instance:
                self._note_abort(neighbour)
        self._note_crash(raw)
        self._continued = (_CRASH_LINES, self._note_abort)

    def _note_crash(self, raw: bytes) -> None:
        line = read_line(raw)
        self._crashes.setdefault(line.instance, CrashReader()).take(line)

    def _note_abort(self, raw: bytes) -> None:
        if b" error" in raw:
            self._note_crash(raw)

    def _take_child(self, block: bytes, position: int, end: int) -> None:
        raw = _line(block, position, end)
        text = read_line(raw).text
        match = _SPAWNED.search(text)
        if match is not None:
            self._ports[match["name"]] = match["port"]
            self._instance(match["port"]).model = match["name"]
            return
        match = _EXITED.search(text)
        if match is None:
            return
        port, status = self._ports.get(match["name"], ""), int(match["status"])
        if port:
            self._instance(port).exit_status = status
        if status != 0 and self._child_crash is None:
            self._child_crash = Crash("child", message=match[0], instance=port)

    def _take_build(self, block: bytes, position: int, end: int) -> None:
        raw = _line(block, position, end)
        if self._build is not None:
            return
        text = raw.decode("utf-8", "replace")
        match = _BUILD_INFO.search(text)
        if match is not None:
            self._build = match[1]
            return
        for pattern in _BUILD:
            match = pattern.search(text)
            if match is not None:
                self._build = f"b{match[1]}-{match[2]}"
                return

    def _take_verbosity(self, block: bytes, position: int, end: int) -> None:
        raw = _line(block, position, end)
        match = _VERBOSITY.search(raw)
        if match is not None and self._verbosity is None:
            self._verbosity = int(match[1])

    def _take_system(self, block: bytes, position: int, end: int) -> None:
        raw = _line(block, position, end)
        match = _SYSTEM.search(read_line(raw).text)
        if match is not None and not self._cpu_features:
            self._cpu_features = match[1]

    def _take_listening(self, block: bytes, position: int, end: int) -> None:
        raw = _line(block, position, end)
        line = read_line(raw)
        match = _LISTENING.search(line.text)
        if match is not None:
            url = match[1]
        else:
            match = _LISTENING_AT.search(line.text)
            if match is None:
                return
            url = f"http://{match['host']}:{match['port']}"
        self._instance(line.instance).listening = url

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
            crash=scan.crash,
            failure=scan.failure,
            forced_stop=scan.forced_stop,
            error_lines=scan.errors,
            last_lines=scan.last_lines,
            bytes_read=self._bytes_read,
        )

    def _choose(self, loads: list[Load]) -> Load:
        """The server's own load; with a router or compose, the last that loaded."""
        by_name = {load.instance: load for load in loads}
        for name in ("", self._current):
            instance = self._instances.get(name)
            if instance is not None and instance.memory.loaded:
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
        for raw in _marked_lines(tail, _SCAN_MARKS):
            line = read_line(raw)
            if is_prose(line.text):
                continue
            instance = self._instances.get(line.instance)
            failures.take(line, serving=instance is not None and instance.serving)
            crashes.setdefault(line.instance, CrashReader()).take(line)
        crash = next((reader.crash for reader in crashes.values() if reader.crash), None)
        scan = _Scan(
            crash=crash or self._child_crash,
            failure=failures.failure,
            errors=tuple(failures.errors),
            last_lines=tuple(
                text
                for raw in tail.rsplit(b"\n", LAST_LINES + 1)[-LAST_LINES - 1 : -1]
                if (text := read_line(raw).text.rstrip())
            ),
            forced_stop=b"Received second interrupt" in tail,
        )
        self._scanned = (self._offset, scan)
        return scan


def _line(block: bytes, position: int, end: int) -> bytes:
    return block[block.rfind(b"\n", 0, position) + 1 : end]


def _by_position(hit: tuple[int, int, _Take]) -> int:
    return hit[0]


def _find(
    block: bytes, start: int, marks: tuple[tuple[bytes, _Take], ...]
) -> list[tuple[int, int, _Take]]:
    """Each line that holds a mark, as (position of the mark, end of the line, reader)."""
    hits = []
    find = block.find
    for mark, take in marks:
        position = find(mark, start)
        while position >= 0:
            end = find(b"\n", position)
            hits.append((position, end, take))
            position = find(mark, end)
    return hits


def _marked_lines(block: bytes, marks: tuple[bytes, ...]) -> list[bytes]:
    """The lines that hold any of the marks, each once, in order."""
    spans = set()
    find = block.find
    for mark in marks:
        position = find(mark)
        while position >= 0:
            end = find(b"\n", position)
            spans.add((block.rfind(b"\n", 0, position) + 1, end))
            position = find(mark, end)
    return [block[start:end] for start, end in sorted(spans)]


def _cap_lines(block: bytes) -> bytes:
    """`block` with lines longer than `LINE_BYTES` cut; a window without newline tells of one."""
    find = block.find
    for start in range(0, len(block) - _WINDOW, _WINDOW):
        if find(b"\n", start, start + _WINDOW) < 0:
            return b"\n".join(line[:LINE_BYTES] for line in block.split(b"\n"))
    return block
