"""The tables of docs/reliability.md, from what tries of faults came to; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.faults.fault import Fault, Seen

BEGIN = "<!-- made by `python -m tests.faults --write`: begin -->"
END = "<!-- made by `python -m tests.faults --write`: end -->"
_MOST = 170
_BEFORE = 80
_BEGINS = ("trial 1: ", "error: ", "ERROR ", "FAIL ")
_ENDS = (
    " log: ",
    " unknown because of it",
    " last lines of ",
    " measured ",
    " baseline: ",
    ", variant V preparing",
)


class Row(NamedTuple):
    """A fault and its tries."""

    fault: Fault
    tries: tuple[Seen, ...]
    reported: str  # the sentence that the first try printed, without what changes from run to run
    wrong: tuple[str, ...] = ()  # what was not as it must be, of all tries
    unable: str | None = None  # why it was not tried

    @property
    def codes(self) -> str:
        """The exit codes seen."""
        return ", ".join(str(code) for code in sorted({one.done.code for one in self.tries}))

    @property
    def left(self) -> int:
        """Processes left, of all tries."""
        return sum(len(one.left) for one in self.tries)

    @property
    def kept(self) -> str:
        """What every try left on disk."""
        always = set(self.tries[0].kept).intersection(*(one.kept for one in self.tries))
        return ", ".join(sorted(always)) or "nothing was begun"


def reported(fault: Fault, seen: Seen, folder: Path) -> str:
    """What a user read: the sentence around the first of the fault's expressions."""
    text = seen.done.text
    match = next((found for says in fault.says if (found := re.search(says, text))), None)
    if match is None:
        return ""
    begin = max(0, match.start() - _BEFORE)
    begin += max(
        (
            text[begin : match.start()].rfind(mark) + len(mark)
            for mark in _BEGINS
            if mark in text[begin : match.start()]
        ),
        default=0,
    )
    if match[0].startswith("PASS"):
        begin = match.start()
    if begin and text[begin - 1] != " ":
        begin = text.find(" ", begin) + 1
    told = steady(text[begin:], folder)
    end = min((told.find(mark) for mark in _ENDS if mark in told), default=len(told))
    return told[:end] if end <= _MOST else told[:_MOST].rsplit(" ", 1)[0] + " ..."


def steady(text: str, folder: Path) -> str:
    """`text` without what is another at each run: folders, ports, ids of runs and processes."""
    text = text.replace(str(folder), ".")
    text = re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", text)
    text = re.sub(r"\d{8}T\d{6}Z-[\w-]+", "RUN", text)
    return re.sub(r"(?<=process )\d+", "PID", text)


def render(rows: Sequence[Row]) -> str:
    """A count of all, and a table a group."""
    tried = [row for row in rows if row.unable is None]
    tries = sum(len(row.tries) for row in tried)
    left = sum(row.left for row in tried)
    wrong = sum(bool(row.wrong) for row in tried)
    lines = [
        (
            f"{len(tried)} faults, {tries} tries: {len(tried) - wrong} as they must be, "
            f"{wrong} not; {left} processes left."
        ),
    ]
    for group in dict.fromkeys(row.fault.group for row in rows):
        lines += [
            "",
            f"### {group[:1].upper()}{group[1:]}",
            "",
            "| fault | what happens | tries | what was reported | exit code | left | kept |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [_line(row) for row in rows if row.fault.group == group]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    if row.unable is not None:
        cells = [row.fault.name, row.fault.happens, "0", f"not made here: {row.unable}", "", "", ""]
    else:
        cells = [
            row.fault.name,
            row.fault.happens,
            str(len(row.tries)),
            row.reported + "".join(f" **{what}**" for what in row.wrong),
            row.codes,
            str(row.left),
            row.kept,
        ]
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    shown = "".join(c if c.isprintable() else " " for c in text)
    return (
        re.sub(r"([|<>*_`\\])", r"\\\1", shown) if "**" not in shown else shown.replace("|", "\\|")
    )


def insert(page: str, made: str) -> str:
    """`page` with what stands between the two marks replaced.

    Raises:
        ValueError: The page lacks a mark.
    """
    begin, end = page.find(BEGIN), page.find(END)
    if begin < 0 or end < begin:
        raise ValueError(f"expected the lines {BEGIN!r} and {END!r}")
    return f"{page[: begin + len(BEGIN)]}\n\n{made}\n{page[end:]}"
