"""How a server ended, in one sentence, from plain values.

Pure: it knows exit codes, signals and the words of llama-server's last lines, and reads no file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple


class Evidence(NamedTuple):
    """What a server's log tells about its end."""

    crash_text: str | None = None  # the assertion or device error, already put in words
    last_lines: Sequence[str] = ()  # the log's end, oldest first


ILLEGAL_INSTRUCTION = 4

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

_MEANINGS = {
    4: "built for a CPU with instructions that this one lacks",
    7: "memory that could not be read, such as a mapped model file that was cut short",
    9: "by the out-of-memory killer or by a person; `dmesg` tells which",
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

_PREFIX = re.compile(r"^(?:\d+\.\d\d\.\d{3}\.\d{3}\s+)?(?:([DIWE])\s+)?")
_COLOUR = re.compile(r"\x1b?\[\d{1,3}(?:;\d+)*m")
# one log line may hold progress dots or another thread's words before the path
_ASSERT = re.compile(r"(?P<where>[^\s.()][^\s()]*:\d+): (?P<what>GGML_ASSERT\(.*\)) failed")
_OLD_ASSERT = re.compile(r"GGML_ASSERT: (?P<where>\S+:\d+): (?P<what>.*)")
_ABORT = re.compile(r"^(?P<where>\S+:\d+): (?P<what>fatal error|.* error.*)$")
_LIBRARY_ASSERT = re.compile(r"Assertion '(?P<what>.+)' failed")
_BIND = re.compile(r"couldn't bind HTTP server socket|bind: Address already in use", re.IGNORECASE)
_FLAG = re.compile(
    r"error: invalid argument: .*"
    r"|error while handling (?:argument|environment variable) .*"
    r"|error: unknown argument: .*"
)
_LOADING = ("error loading model", "failed to load model", "exiting due to model loading error")
_MEMORY = (
    "out of memory",
    "ErrorOutOfDeviceMemory",
    "failed to allocate buffer",
    "unable to allocate",
)
_LIBRARY = ("error while loading shared libraries", "Library not loaded", "GLIBC_", "GLIBCXX_")
_FAILURE_WORDS = (*_LOADING, *_MEMORY, *_LIBRARY)


def strip_prefix(line: str) -> str:
    """The log line without colours, time and level."""
    return _PREFIX.sub("", _COLOUR.sub("", line), count=1).strip()


def error_lines(lines: Sequence[str], most: int = 5) -> tuple[str, ...]:
    """The last lines that say what went wrong, without prefix, each once, oldest first.

    A line counts if its level is E (build 10434: `0.00.008.860 E llama_model_load: ...`) or if
    it holds the words of an assertion, a refused flag, a failed load or missing memory.
    """
    found: dict[str, None] = {}
    for line in lines:
        match = _PREFIX.match(_COLOUR.sub("", line))
        text = strip_prefix(line)
        told = (
            (match is not None and match[1] == "E")
            or _ASSERT.search(text)
            or _OLD_ASSERT.search(text)
            or _LIBRARY_ASSERT.search(text)
            or _FLAG.search(text)
            or _BIND.search(text)
            or any(word in text for word in _FAILURE_WORDS)
            or text.startswith(("error:", "CUDA error", "terminate called"))
        )
        if text and told:
            found.pop(text, None)
            found[text] = None
    return tuple(found)[-most:]


def find_assertion(lines: Sequence[str]) -> str | None:
    """The first assertion in the lines as `GGML_ASSERT(x) at file:line`; None if there is none."""
    for line in lines:
        text = strip_prefix(line)
        if match := _ASSERT.search(text) or _OLD_ASSERT.search(text):
            what = match["what"]
            what = what if what.startswith("GGML_ASSERT") else f"GGML_ASSERT({what})"
            return f"{what} at {match['where']}"
        if match := _LIBRARY_ASSERT.search(text):
            return f"assertion {match['what']}"
    return None


def lost_the_port(lines: Sequence[str]) -> bool:
    """Whether the lines say that the port was taken by someone else."""
    return any(_BIND.search(line) for line in lines)


def describe_end(
    exit_code: int | None,
    signal: int | None,
    *,
    crash_text: str | None = None,
    last_lines: Sequence[str] = (),
) -> str:
    """How the process ended and, as far as its last lines tell, why.

    Args:
        exit_code: None if a signal killed it.
        signal: The signal's number; None if it exited.
        crash_text: What the log's reader found already (an assertion in words); None to look
            for it in `last_lines`.
        last_lines: The log's end, oldest first.

    Returns:
        A clause in lower case without final stop: `killed by signal 4 (illegal instruction):
        built for a CPU with instructions that this one lacks`.
    """
    told_by_shell = ""
    if signal is None and exit_code is not None and 129 <= exit_code <= 128 + 31:
        # a shell wrapper that did not exec passes its child's signal on as 128 + n
        signal, told_by_shell = exit_code - 128, f", told as exit code {exit_code} by a wrapper"
    crash = crash_text or find_assertion(last_lines)
    if signal is not None:
        return _describe_signal(signal, told_by_shell, crash, last_lines)
    if exit_code is not None and (words := _WINDOWS.get(exit_code & 0xFFFFFFFF)):
        named = f"ended with 0x{exit_code & 0xFFFFFFFF:08x} ({words})"
        return f"{named}: {crash}" if crash else named
    if crash:
        return f"aborted: {crash}"
    return _describe_exit(exit_code, last_lines)


def _describe_signal(signal: int, told: str, crash: str | None, lines: Sequence[str]) -> str:
    if crash:
        name = "aborted" if signal == 6 else f"killed by signal {signal}"
        return f"{name}: {crash}"
    named = f"killed by signal {signal} ({_SIGNALS.get(signal, 'unknown')}{told})"
    meaning = _MEANINGS.get(signal)
    if meaning is None and signal == 6:
        last = error_lines(lines, most=1)
        meaning = last[0] if last else "it printed no assertion"
    return f"{named}: {meaning}" if meaning else named


def _describe_exit(exit_code: int | None, lines: Sequence[str]) -> str:
    ended = "ended" if exit_code is None else f"exited with code {exit_code}"
    texts = [strip_prefix(line) for line in lines]
    for text in texts:
        if match := _FLAG.search(text):
            return f"{ended}: refused a flag: {match[0].rstrip(' :')}"
    for text in texts:
        if _BIND.search(text):
            return f"{ended}: port in use: {text}"
    for words in (_LIBRARY, _MEMORY, _LOADING):
        for text in texts:
            if any(word in text for word in words):
                return f"{ended}: {text}"
    last = error_lines(lines, most=1)
    return f"{ended}: {last[0]}" if last else f"{ended} and gave no reason"
