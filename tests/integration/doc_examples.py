"""The examples of a page of the docs: files to write, commands to type, what they print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXIT = re.compile(r"\s+# exit (\d+)$")


class File(NamedTuple):
    """A block whose head names a file."""

    path: str
    text: str


class Typed(NamedTuple):
    """A command of a block marked `console test`."""

    command: str
    code: int
    shown: list[str]  # lines that must be printed, in this order; `...` is anything


def examples_of(page: str) -> Iterator[File | Typed]:
    """Everything on a page that a test does, in order."""
    for head, body in _BLOCK.findall(page):
        _, _, rest = head.partition(" ")
        if head == "console test":
            yield from _typed(body)
        elif rest:
            yield File(rest, body)


def _typed(body: str) -> Iterator[Typed]:
    commands: list[Typed] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found = _EXIT.search(line)
            code = 0 if found is None else int(found[1])
            commands.append(Typed(_EXIT.sub("", line[2:]), code, []))
        elif line.strip():
            commands[-1].shown.append(line)
    yield from commands


def first_missing(shown: list[str], printed: str) -> str | None:
    """The first line of `shown` that is not, in its turn, in what was printed; None: all are.

    Spaces and line ends count alike, since tables and sentences are laid out by width.
    """
    text, at = " ".join(printed.split()), 0
    for line in shown:
        parts = [re.escape(" ".join(part.split())) for part in line.split("...")]
        found = re.compile(".*?".join(parts)).search(text, at)
        if found is None:
            return line
        at = found.end()
    return None
