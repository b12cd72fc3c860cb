"""The forms in which a dying server says why; one death is one crash, however often printed.

Seen: `FILE:LINE: GGML_ASSERT(expr) failed` (before 2024-05 `GGML_ASSERT: FILE:LINE: expr`), written
straight to standard error, so glued to progress dots, interleaved between threads, with location
and message on different lines; the CUDA lines in either order around `FILE:LINE: CUDA error`;
assertions of the C and C++ libraries; any other `FILE:LINE: message` of ggml_abort; uncaught
exceptions; a debugger's noise after all of them.
"""

from __future__ import annotations

import re

import msgspec

from benchsuite.logform.facts import Crash
from benchsuite.logform.lines import Line, is_prose

_ASSERT = re.compile(r"GGML_ASSERT\((?P<expression>.*?)\) failed")
_ASSERT_OLD = re.compile(r"GGML_ASSERT: (?P<file>.+?):(?P<line>\d{1,9}): (?P<expression>.*)")
_ASSERT_CUT = re.compile(r"GGML_ASSERT\((?P<expression>.*)$")
# Every pattern takes time in proportion to its line, whatever stands in it: a server prints what
# its users send. So places and functions are cut out around the literals between them.
_LINE = re.compile(r":(?P<line>\d{1,9}): ")
_ACCELERATOR = re.compile(r"\b(?:CUDA|ROCm|MUSA|HIP) error: (?P<message>.*\S)")
_DEVICE = re.compile(r"current device: (?P<device>-?\d{1,9}), in function ")
_AT = " at "
_FILE_AND_LINE = re.compile(r"(?P<file>.+):(?P<line>\d{1,9})")
_ACCELERATOR_ABORT = re.compile(r":(?P<line>\d{1,9}): (?P<name>CUDA|ROCm|MUSA|HIP) error\s*$")
_LIBRARY = re.compile(r"Assertion [`'\u2018](?P<expression>.*)['\u2019] failed")
_ABORT = re.compile(
    r"(?P<file>\S*\.(?:c|cc|cpp|cu|cuh|h|hpp|m|mm)):(?P<line>\d{1,9}): (?P<message>\S.*)$"
)
_PLACE_ONLY = re.compile(r"(?P<file>\S*\.(?:c|cc|cpp|cu|cuh|h|hpp|m|mm)):(?P<line>\d{1,9}):\s*$")
_WHAT = re.compile(r"^\s+what\(\):\s+(?P<message>.*)$")
_DOTS = re.compile(r"^\.{3,}")
_PATH_BEGIN = re.compile(r"\s(?=/|[A-Za-z]:\\)")

CRASH_MARKS = (
    b"GGML_ASSERT",
    b"current device: ",
    b" error",
    b"Assertion ",
    b"terminate called",
    b"what():",
    b".cpp:",
    b".cu:",
    b".cuh:",
    b".c:",
    b".h:",
    b".hpp:",
    b".m:",
    b".mm:",
)
"""One of these is in every line that `read_crash` can use."""


class CrashReader:
    """Gathers the evidence of one crash from lines given in the order of the log."""

    def __init__(self, crash: Crash | None = None) -> None:
        self.crash = crash
        self._place: Crash | None = None  # of an abort whose message is on another line

    def take(self, line: Line) -> bool:
        """Read a line; False if it says nothing about a crash."""
        found = _read(line)
        if found is None:
            place = _PLACE_ONLY.match(line.text)
            if place is not None:
                self._place = Crash("assertion", place["file"], int(place["line"]))
            return False
        if found.kind == "assertion" and not found.file and self._place is not None:
            found = msgspec.structs.replace(found, file=self._place.file, line=self._place.line)
        if self.crash is None:
            self.crash = msgspec.structs.replace(found, instance=line.instance)
        elif self.crash.kind == found.kind:
            self.crash = _fill(self.crash, found)
        return True


def _fill(crash: Crash, more: Crash) -> Crash:
    """`crash` with what only `more` tells; a CUDA error's own place beats its abort's."""
    if crash.kind == "cuda" and more.function and not crash.function:
        crash = msgspec.structs.replace(
            crash, file=more.file, line=more.line, function=more.function, device=more.device
        )
    if crash.kind == "cuda" and ": " in more.message and ": " not in crash.message:
        crash = msgspec.structs.replace(crash, message=more.message)
    if crash.kind == "exception" and "what(): " not in crash.message and more.message:
        return msgspec.structs.replace(crash, message=f"{crash.message} what(): {more.message}")
    if crash.expression and more.expression not in ("", crash.expression):
        return crash  # another assertion: the first one is the cause
    if not crash.file and more.file:
        crash = msgspec.structs.replace(crash, file=more.file, line=more.line)
    if not crash.message and more.message:
        crash = msgspec.structs.replace(crash, message=more.message)
    return crash


def _read(line: Line) -> Crash | None:
    text = line.text
    if line.level == "D":
        return None
    if "GGML_ASSERT" in text:
        return None if is_prose(text[: text.index("GGML_ASSERT")]) else _read_assert(line)
    if " error" in text or "current device" in text:
        found = _read_accelerator(line)
        if found is not None:
            return found
    if "Assertion" in text:
        if is_prose(text[: text.index("Assertion")]):
            return None
        return _read_library(text)
    if "terminate called" in text:
        if is_prose(text):
            return None
        return Crash("exception", message=text[text.index("terminate called") :].rstrip())
    match = _WHAT.match(text)
    if match is not None:
        return Crash("exception", message=match["message"])
    if line.level:
        return None
    match = _ABORT.match(_DOTS.sub("", text))
    if match is None:
        return None
    return Crash(
        "abort",
        match["file"],
        int(match["line"]),
        message=match["message"].rstrip(),
    )


def _read_library(text: str) -> Crash | None:
    """`FILE:LINE: FUNCTION: Assertion 'EXPRESSION' failed.` of the C and C++ libraries."""
    match = _LIBRARY.search(text)
    if match is None:
        return None
    before = text[: match.start()]
    place = _LINE.search(before)
    words = [] if place is None else before[: place.start()].split()
    if place is None or not words:
        return Crash("cpp_assertion", expression=match["expression"])
    return Crash(
        "cpp_assertion",
        words[-1],
        int(place["line"]),
        match["expression"],
        function=before[place.end() :].rstrip().removesuffix(":"),
    )


def _read_assert(line: Line) -> Crash | None:
    text = line.text
    match = _ASSERT.search(text)
    if match is None:
        match = _ASSERT_OLD.search(text)
        if match is not None:
            return Crash(
                "assertion",
                match["file"],
                int(match["line"]),
                match["expression"].rstrip(),
            )
        match = _ASSERT_CUT.search(text)
        if match is None:
            return None
    before = _DOTS.sub("", text[: match.start()])
    place = _LINE.search(before)
    return Crash(
        "assertion",
        "" if place is None else _path(before[: place.start()].lstrip()),
        None if place is None else int(place["line"]),
        match["expression"],
    )


def _read_accelerator(line: Line) -> Crash | None:
    text = line.text
    begin = max(text.find(" error"), text.find("current device"))
    if is_prose(text[:begin]):
        return None
    match = _DEVICE.search(text)
    if match is not None:
        function, _, place = text[match.end() :].partition(_AT)
        at = _FILE_AND_LINE.match(place)
        if at is not None:
            return Crash(
                "cuda",
                at["file"],
                int(at["line"]),
                message="CUDA error",
                device=int(match["device"]),
                function=function,
            )
    match = _ACCELERATOR_ABORT.search(text)
    if match is not None:
        return Crash(
            "cuda",
            _path(_DOTS.sub("", text[: match.start()].lstrip())),
            int(match["line"]),
            message=f"{match['name']} error",
        )
    match = _ACCELERATOR.search(text)
    if match is not None:
        return Crash("cuda", message=text[match.start() :].strip())
    return None


def _path(text: str) -> str:
    """The path at the end of `text`, without what was glued before it."""
    return _PATH_BEGIN.split(text)[-1]
