"""A file of JSON cut into its lines or array elements, without holding more than one.

Nothing is decoded here. Pure but for the reading of what is handed in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

MOST_BYTES = 8 * 1024 * 1024
"""Of one line or element."""

MOST_DEPTH = 32
"""Arrays and objects inside each other."""

_CHUNK = 64 * 1024  # cut anew for each element, so that more takes longer
_BOM = b"\xef\xbb\xbf"
_OTHER_BOMS = (b"\xff\xfe", b"\xfe\xff")  # of UTF-16
# a whole string, a bracket, or the beginning of a string whose end is not here yet
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[][{}]|"', re.DOTALL)
_SPACE = b" \t\r\n"


class Piece(msgspec.Struct, frozen=True):
    """One line or element."""

    number: int  # from 1: of the line in the file, or of the element in the array
    line: int  # of the file, from 1, on which it begins
    raw: bytes


class BrokenFileError(Exception):
    """The file cannot be read on: nobody knows where the next piece begins.

    Args:
        line: Of the file, from 1.
        message: What was found and what was expected.
    """

    def __init__(self, line: int, message: str) -> None:
        self.line = line
        self.message = message
        super().__init__(f"line {line}: {message}")


def lines(stream: BinaryIO) -> Iterator[Piece]:
    """The lines that are not blank.

    Raises:
        BrokenFileError: A line is longer than `MOST_BYTES`.
    """
    number = 0
    while raw := stream.readline(MOST_BYTES + 1):
        number += 1
        if len(raw) > MOST_BYTES:
            raise BrokenFileError(
                number, f"the line is longer than {MOST_BYTES} bytes; is this a file of lines?"
            )
        if number == 1:
            raw = raw.removeprefix(_BOM)
        raw = raw.strip(_SPACE)
        if raw:
            yield Piece(number, number, raw)


def elements(stream: BinaryIO) -> Iterator[Piece]:
    """The objects of an array that is the whole file.

    Raises:
        BrokenFileError: It is no array of objects, ends early, or an element is longer than
            `MOST_BYTES` or deeper than `MOST_DEPTH`.
    """
    return _Elements(stream).read()


class _Elements:
    """Where the reading of an array stands."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._buffer = b""
        self._line = 1  # of the buffer's beginning

    def _more(self) -> bool:
        chunk = self._stream.read(_CHUNK)
        self._buffer += chunk
        return bool(chunk)

    def _drop(self, count: int) -> None:
        self._line += self._buffer.count(b"\n", 0, count)
        self._buffer = self._buffer[count:]

    def _next(self) -> bytes:
        """The next byte that is no space, which the buffer then begins with; empty at the end."""
        while True:
            self._drop(len(self._buffer) - len(self._buffer.lstrip(_SPACE)))
            if self._buffer or not self._more():
                return self._buffer[:1]

    def _expect(self, allowed: bytes, expected: str) -> bytes:
        found = self._next()
        if not found or found not in allowed:
            shown = repr(self._buffer[:20].decode("utf-8", "replace")) if found else "the end"
            if found and self._buffer.startswith(_OTHER_BOMS):
                shown += ": this is no UTF-8, so save it as UTF-8"
            raise BrokenFileError(self._line, f"expected {expected}, found {shown}")
        return found

    def read(self) -> Iterator[Piece]:
        self._more()
        if self._buffer.startswith(_BOM):
            self._buffer = self._buffer[len(_BOM) :]
        self._expect(b"[", "an array that begins with '['")
        self._drop(1)
        number = 0
        if self._next() != b"]":
            while True:
                self._expect(b"{", "an object that begins with '{'")
                number += 1
                line, end = self._line, self._end(number)
                yield Piece(number, line, self._buffer[:end])
                self._drop(end)
                if self._expect(b",]", f"',' or ']' after element {number}") == b"]":
                    break
                self._drop(1)
        self._drop(1)
        if self._next():
            raise BrokenFileError(self._line, "there is more after the array's ']'")

    def _end(self, number: int) -> int:
        """Where in the buffer the element ends that it begins with."""
        at, depth = 0, 0
        while True:
            for token in _TOKEN.finditer(self._buffer, at):
                word = token.group()
                at = token.start()
                if word == b'"':
                    break
                at = token.end()
                if word in (b"{", b"["):
                    depth += 1
                    if depth > MOST_DEPTH:
                        raise BrokenFileError(
                            self._line, f"element {number} is nested deeper than {MOST_DEPTH}"
                        )
                elif word in (b"}", b"]"):
                    depth -= 1
                    if depth == 0:
                        return at
            else:
                at = len(self._buffer)
            if len(self._buffer) > MOST_BYTES:
                raise BrokenFileError(
                    self._line, f"element {number} is longer than {MOST_BYTES} bytes"
                )
            if not self._more():
                raise BrokenFileError(self._line, f"the file ends inside element {number}")
