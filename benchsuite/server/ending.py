"""How a server ended, in one sentence, from its exit and what its log tells.

It knows exit codes and signals; the words of logs are `logform`'s.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from benchsuite.logform.facts import LogFacts
from benchsuite.logform.reader import LogReader

ILLEGAL_INSTRUCTION = 4
CRASH_SIGNALS = frozenset({4, 6, 7, 8, 11})
"""By which a program ends itself, or is ended for what it did."""

_SIGNALS = {
    1: "hang-up",
    2: "interrupt",
    3: "quit",
    4: "illegal instruction",
    5: "trap",
    6: "abort",
    7: "bus error",
    8: "arithmetic error",
    9: "kill",
    10: "bus error on macOS, or a signal of the user's",
    11: "segmentation fault",
    13: "broken pipe",
    15: "termination",
    24: "processor time limit",
    25: "file size limit",
    31: "bad system call",
}

KILLER_UNKNOWN = "by the out-of-memory killer or by a person; `dmesg` tells which"
"""What is said of SIGKILL; whoever knows its sender puts that in this place."""

_MEANINGS = {
    4: "built for a CPU with instructions that this one lacks",
    7: "memory that could not be read, such as a mapped model file that was cut short",
    9: KILLER_UNKNOWN,
    25: "a file grew beyond the limit that `ulimit -f` shows",
}

# as unsigned 32-bit exit codes; FACTS: a CUDA abort on Windows ends with 0xc0000409
_WINDOWS = {
    0xC0000005: "access violation",
    0xC000001D: "illegal instruction",
    0xC0000094: "division by zero",
    0xC00000FD: "stack overflow",
    0xC0000135: "a library is missing",
    0xC0000409: "abort",
}

_LIBRARY = ("error while loading shared libraries", "Library not loaded", "GLIBC_", "GLIBCXX_")


def read_end(lines: Sequence[str]) -> LogFacts:
    """What the log's reader makes of the last lines alone."""
    reader = LogReader()
    reader.feed("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
    return reader.finish()


_TAIL_BYTES = 64 * 1024


def read_tail(path: Path) -> LogFacts:
    """What the last 64 KiB of a log tell; nothing where it cannot be read."""
    reader = LogReader()
    try:
        with path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(size - _TAIL_BYTES, 0))
            if size > _TAIL_BYTES:
                log.readline()  # the end of a line, and perhaps of a key in it
            reader.feed(log.read())
    except OSError:
        return LogFacts()
    return reader.finish()


def error_lines(told: LogFacts, most: int = 5) -> tuple[str, ...]:
    """The last lines that say what went wrong, without prefix, each once, oldest first."""
    last_of = dict.fromkeys(reversed(told.error_lines))
    return tuple(reversed(tuple(last_of)[:most]))


def lost_the_port(told: LogFacts) -> bool:
    """Whether the log says that the port was taken by someone else."""
    return told.failure is not None and told.failure.kind == "port"


def last_words(lines: Sequence[str]) -> str | None:
    """The last line that says something, stripped; an engine's pointer to its help does not."""
    for line in reversed(lines):
        if line.strip() and _POINTER.match(line.strip()) is None:
            return line.strip()
    return None


_POINTER = re.compile(r"(?:Run|See) '[^']*--help'")
"""The last line of docker 20 to 28 where `run` fails."""


def engine_lost_the_port(told: LogFacts) -> bool:
    """Whether a container engine's client, or ssh, says that the port was taken."""
    return any(_ENGINE_PORT.search(line) for line in told.last_lines)


_ENGINE_PORT = re.compile(r"port is already allocated|address already in use", re.IGNORECASE)
"""Docker 20 to 28, podman 3 to 5, and ssh where it forwards a port."""

NO_REASON = " and gave no reason"
"""The end of `describe_end` where nothing was found in the log."""


def describe_end(exit_code: int | None, signal: int | None, told: LogFacts | None = None) -> str:
    """How the process ended and, as far as its log tells, why.

    Args:
        exit_code: None if a signal killed it.
        signal: The signal's number; None if it exited.
        told: What the log tells; None where there is no log.

    Returns:
        A clause in lower case without final stop: `killed by signal 4 (illegal instruction):
        built for a CPU with instructions that this one lacks`.
    """
    told_by_shell = ""
    if signal is None and exit_code is not None and 129 <= exit_code <= 128 + 31:
        # a shell wrapper that did not exec passes its child's signal on as 128 + n
        signal, told_by_shell = exit_code - 128, f", told as exit code {exit_code} by a wrapper"
    told = told or LogFacts()
    crash = None if told.crash is None else told.crash.sentence
    if signal is not None:
        return _describe_signal(signal, told_by_shell, crash, told)
    if exit_code is not None and (words := _WINDOWS.get(exit_code & 0xFFFFFFFF)):
        named = f"ended with 0x{exit_code & 0xFFFFFFFF:08x} ({words})"
        return f"{named}: {crash}" if crash else named
    if crash:
        return f"aborted: {crash}"
    return _describe_exit(exit_code, told)


def _describe_signal(signal: int, by: str, crash: str | None, told: LogFacts) -> str:
    if crash:
        name = "aborted" if signal == 6 else f"killed by signal {signal}"
        return f"{name}: {crash}"
    named = f"killed by signal {signal} ({_SIGNALS.get(signal, 'unknown')}{by})"
    meaning = _MEANINGS.get(signal)
    if meaning is None and signal == 6:
        last = error_lines(told, most=1)
        meaning = last[0] if last else "it printed no assertion"
    return f"{named}: {meaning}" if meaning else named


def _describe_exit(exit_code: int | None, told: LogFacts) -> str:
    ended = "ended" if exit_code is None else f"exited with code {exit_code}"
    if told.failure is not None:
        what = _NAMED_FAILURES.get(told.failure.kind, "")
        return f"{ended}: {what}{told.failure.text.rstrip(' :')}"
    for line in told.last_lines:
        if any(word in line for word in _LIBRARY):
            return f"{ended}: {line.strip()}"
    last = error_lines(told, most=1)
    return f"{ended}: {last[0]}" if last else f"{ended}{NO_REASON}"


_NAMED_FAILURES = {"flag": "refused a flag: ", "port": "port in use: "}
