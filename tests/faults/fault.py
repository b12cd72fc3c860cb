"""What a fault is, and what is looked at once it has happened."""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.integration.desk import Desk, Done, wait_until

MARK = "BENCHSUITE_FAULT_MARK"
"""Variable that everything started from a desk inherits; by it what is left is found."""


class Fault(NamedTuple):
    """One thing that can go wrong, and what a user must see of it."""

    name: str  # short, with dashes; unique among all faults
    group: str  # heading of its table: "the server dies", "what it answers", ...
    happens: str  # what is done, in one sentence for the table
    make: Callable[[Desk], Done]  # makes it happen once, from an empty desk, and waits for the end
    codes: tuple[int, ...]  # exit codes that are right
    says: tuple[str, ...]  # regular expressions that must each be found in what was printed
    keeps: tuple[str, ...] = ()  # of `kept`: what must be left on disk
    # why it cannot be made on this machine; None where it can
    unable: Callable[[], str | None] = lambda: None
    slow: bool = False  # never made as a test, by `python -m tests.faults` only


def fault_of(
    group: str,
    name: str,
    happens: str,
    make: Callable[[Desk], Done],
    codes: tuple[int, ...],
    *says: str,
    keeps: tuple[str, ...] = (),
    unable: Callable[[], str | None] = lambda: None,
    slow: bool = False,
) -> Fault:
    """A fault, with what must be said of it at the end of its words."""
    return Fault(name, group, happens, make, codes, says, keeps, unable, slow)


class Seen(NamedTuple):
    """What one try came to."""

    done: Done
    left: tuple[str, ...]  # command lines of processes that are still there
    kept: tuple[str, ...]  # "record", "journal", "reply", "log": what is on disk and readable

    def faults(self, fault: Fault) -> list[str]:
        """What is not as it must be, in words; empty where all is."""
        wrong = []
        if self.done.code not in fault.codes:
            wrong.append(f"exit code {self.done.code}, expected one of {fault.codes}")
        wrong += [
            f"nothing printed matches {pattern!r}"
            for pattern in fault.says
            if not re.search(pattern, self.done.text)
        ]
        wrong += [f"left behind: {command}" for command in self.left]
        wrong += [f"not kept: {what}" for what in fault.keeps if what not in self.kept]
        if "Traceback (most recent call last)" in self.done.text:
            wrong.append("a traceback reached the user")
        return wrong


def attempt(fault: Fault, desk: Desk) -> Seen:
    """Make a fault happen once, and look at what is left."""
    mark = uuid.uuid4().hex
    desk.env[MARK] = mark
    done = fault.make(desk)
    wait_until(lambda: not list(_marked(mark)), 15)  # a guard needs a moment after a kill
    return Seen(done, tuple(_marked(mark)), kept(desk.folder))


def kept(folder: Path) -> tuple[str, ...]:
    """What the runs below a folder have left that can be read."""
    found = set()
    for run in folder.rglob("samples.jsonl"):
        lines = []
        for line in run.read_bytes().split(b"\n"):
            with contextlib.suppress(ValueError):
                lines.append(json.loads(line))
        if lines:
            found.add("journal")
        if any(isinstance(line, dict) and line.get("kind") == "reply" for line in lines):
            found.add("reply")
        if any(log.stat().st_size for log in run.parent.glob("server.*.log")):
            found.add("log")
        with contextlib.suppress(OSError, ValueError):
            json.loads((run.parent / "record.json").read_bytes())
            found.add("record")
    return tuple(sorted(found))


def _marked(mark: str) -> Iterator[str]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                yield " ".join(process.cmdline())
