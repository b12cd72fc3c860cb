"""The frames that a dying server prints behind its assertion; pure.

llama.cpp's abort handler has gdb print them, else lldb, else the C library (build 11434's source;
gdb's and glibc's forms made with build 10434). Seen: gdb `#3  0x00007f.. in f (a=1) at /p/x.cpp:7`
and `... from /p/libx.so`; lldb `frame #3: 0x.. libx.so`f at x.cpp:7`; glibc
`/p/libx.so(f+0x12)[0x7f..]`; bionic `3: 0x7f.. f`; macOS `3   libx.dylib  0x0001.. f + 276`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MOST_FRAMES = 100

_GDB = re.compile(r"#(?P<number>\d{1,4}) +(?:0x[0-9a-f]+ in )?(?P<rest>\S.*)")
_LLDB = re.compile(r"\s*(?:\* )?frame #(?P<number>\d{1,4}): 0x[0-9a-f]+ (?P<rest>\S.*)")
_GLIBC = re.compile(
    r"(?P<path>[^()\s][^()]*)\((?P<symbol>[^()+]*)(?:\+0x[0-9a-f]+)?\) ?\[0x[0-9a-f]+\]"
)
_BIONIC = re.compile(r"(?P<number>\d{1,3}): 0x[0-9a-f]+ (?P<symbol>\S*)$")
_MACOS = re.compile(
    r"(?P<number>\d{1,3}) +(?P<library>\S+) +0x[0-9a-f]+ (?P<symbol>\S.*?)(?: \+ \d{1,9})?$"
)
_HANDLER = (
    "wait4",
    "waitpid",
    "ggml_print_backtrace",
    "ggml_abort",
    "ggml_uncaught_exception",
    "unwind_callback",
    "raise",
    "abort",
    "pthread_kill",
)
"""Functions that print the backtrace or end the process: not where it went wrong."""


def read_backtrace(lines: Iterable[str]) -> tuple[str, ...]:
    """The frames among the last lines of a log, innermost first.

    Args:
        lines: Without prefixes, in the order of the log.

    Returns:
        Each frame as `function at place`; the frames of the abort handler are left out. Empty
        where no backtrace was printed.
    """
    frames: list[str] = []
    for line in lines:
        frame = _frame(line)
        if frame is not None:
            frames.append(frame)
    handlers = [i for i, frame in enumerate(frames) if _is_handler(frame)]
    own = frames[handlers[-1] + 1 :] if handlers else frames
    return tuple((own or frames)[:MOST_FRAMES])


def _frame(line: str) -> str | None:
    match = _GDB.match(line)
    if match is not None:
        return _gdb_frame(match["rest"])
    match = _LLDB.match(line)
    if match is not None:
        library, tick, function = match["rest"].partition("`")
        if not tick:
            return match["rest"].strip()
        return function.strip() if " at " in function else f"{function.strip()} ({library})"
    match = _GLIBC.match(line)
    if match is not None:
        return f"{match['symbol'] or '?'} ({_file_name(match['path'])})"
    match = _BIONIC.match(line)
    if match is not None:
        return match["symbol"] or "?"
    match = _MACOS.match(line)
    if match is not None:
        return f"{match['symbol']} ({match['library']})"
    return None


def _gdb_frame(text: str) -> str:
    """`f (a=1) at /p/x.cpp:7` or `f() () from /p/libx.so` in the one form of this module."""
    before, word, library = text.rpartition(" from ")
    if word:
        return f"{before.removesuffix(' ()')} ({_file_name(library)})"
    return text.removesuffix(" ()")


def _file_name(path: str) -> str:
    return path.strip().replace("\\", "/").rsplit("/", 1)[-1]


def _is_handler(frame: str) -> bool:
    name = frame.split(" ", 1)[0].split("(", 1)[0].lstrip("_")
    return name.removeprefix("GI___").removeprefix("GI_") in _HANDLER
