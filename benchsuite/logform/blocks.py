"""Whole blocks of log lines searched for marks at C speed."""

from __future__ import annotations

from collections.abc import Callable

from benchsuite.logform.lines import LINE_BYTES

Take = Callable[[bytes, int, int], None]
"""Reads a line with a mark, given its block, the mark's position, and the line's end."""

Hit = tuple[int, int, Take]
"""Position of a mark, end of its line, and who reads it."""

_WINDOW = LINE_BYTES // 2


def line_at(block: bytes, position: int, end: int) -> bytes:
    """The line around a mark."""
    return block[block.rfind(b"\n", 0, position) + 1 : end]


def by_position(hit: Hit) -> int:
    """The order of hits."""
    return hit[0]


def find_marks(block: bytes, start: int, marks: tuple[tuple[bytes, Take], ...]) -> list[Hit]:
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


def marked_lines(block: bytes, marks: tuple[bytes, ...]) -> list[bytes]:
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


def cap_lines(block: bytes) -> bytes:
    """`block` with lines longer than `LINE_BYTES` cut; a window without newline tells of one."""
    find = block.find
    for start in range(0, len(block) - _WINDOW, _WINDOW):
        if find(b"\n", start, start + _WINDOW) < 0:
            return b"\n".join(line[:LINE_BYTES] for line in block.split(b"\n"))
    return block
