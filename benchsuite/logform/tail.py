"""The last bytes of a log: where last lines, errors and most forms of a crash stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from benchsuite.logform.backtrace import read_backtrace
from benchsuite.logform.blocks import marked_lines
from benchsuite.logform.crash import CRASH_MARKS, CrashReader
from benchsuite.logform.facts import Crash, LogFailure
from benchsuite.logform.failure import FAILURE_MARKS, FailureReader
from benchsuite.logform.lines import read_line

TAIL_BYTES = 65536
"""So much of the end is kept, for last lines, errors and whatever a dying server printed."""
LAST_LINES = 40
_BEFORE_BYTES = 2048
_WARNING_LINES = 10
_WARNING_MARKS = (b"W ", b"WARN", b'"warn')
"""In every line of level W: `0.01.2 W srv`, ik_llama's `WARN [`, JSON's `"level":"warn"`."""
_ORDERLY, _LOADING = b"cleaning up before exit", b"loading model"
_MARKS = tuple(dict.fromkeys((*CRASH_MARKS, *FAILURE_MARKS, _ORDERLY, _LOADING)))


class Scan(msgspec.Struct, frozen=True):
    """What the tail says."""

    crash: Crash | None
    failure: LogFailure | None
    errors: tuple[str, ...]
    warnings: int  # lines of level W
    warning_lines: tuple[str, ...]  # the last of these, each once
    last_lines: tuple[str, ...]
    forced_stop: bool
    backtrace: tuple[str, ...] = ()  # of a crash, innermost frame first


class Tail:
    """Keeps the end of a log."""

    def __init__(self) -> None:
        self._text = b""
        self._cut = False

    def add(self, block: bytes, limit: int) -> None:
        """Take the next whole lines, `block[:limit]`."""
        if limit >= TAIL_BYTES:
            self._cut = self._cut or bool(self._text) or limit > TAIL_BYTES
            self._text = block[limit - TAIL_BYTES : limit]
            return
        text = self._text + block[:limit]
        if len(text) > TAIL_BYTES:
            text, self._cut = text[-TAIL_BYTES:], True
        self._text = text

    def before(self, block: bytes, start: int) -> list[bytes]:
        """The lines before the one at `start` of the next block, the nearest last, of 2 KiB."""
        text = block[max(0, start - _BEFORE_BYTES) : start]
        whole = False
        if start < _BEFORE_BYTES:
            whole = not self._cut and start + len(self._text) <= _BEFORE_BYTES
            text = self._text[start - _BEFORE_BYTES :] + text
        lines = text.split(b"\n")[:-1]
        return lines if whole else lines[1:]

    def scan(self, crashes: Mapping[str, CrashReader], serving: Callable[[str], bool]) -> Scan:
        """Look for errors, failures and crashes.

        Args:
            crashes: What is known of each instance's crash from before.
            serving: Whether the instance of a name has loaded its model.
        """
        tail = self._text
        if self._cut:
            tail = tail[tail.find(b"\n") + 1 :]
        readers = {name: CrashReader(reader.crash) for name, reader in crashes.items()}
        failures = FailureReader()
        contradicted: dict[str, bool] = {}  # crashes told here -> whether an orderly end followed
        for raw in marked_lines(tail, _MARKS):
            line = read_line(raw)
            if raw.startswith(b"# "):
                continue
            failures.take(line, serving=serving(line.instance))
            if readers.setdefault(line.instance, CrashReader()).take(line):
                contradicted[line.instance] = False
            elif line.instance in contradicted:
                if _ORDERLY in raw:
                    contradicted[line.instance] = True
                elif _LOADING in raw:  # of another life, whose end says nothing of this one
                    del contradicted[line.instance]
        for name, orderly in contradicted.items():
            if orderly:  # a text that a user sent, printed raw
                del readers[name]
        crash = next((reader.crash for reader in readers.values() if reader.crash), None)
        warned = [
            text
            for raw in marked_lines(tail, _WARNING_MARKS)
            if (line := read_line(raw)).level == "W" and (text := line.text.strip())
        ]
        return Scan(
            crash=crash,
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
            backtrace=()
            if crash is None
            else read_backtrace(read_line(raw).text for raw in tail.split(b"\n")),
        )


def _last_distinct(lines: list[str]) -> tuple[str, ...]:
    """The last few lines, each once, in the order of their last appearance."""
    found = list(dict.fromkeys(reversed(lines)))[:_WARNING_LINES]
    return tuple(reversed(found))
