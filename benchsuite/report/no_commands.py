"""What is printed where GitHub Actions reads along holds no workflow command by accident.

The runner (actions/runner, ActionCommand.cs) obeys a line that begins with `::` after white space,
and `##[` wherever it stands. A title, a reply or a log line that is shown, or broken into lines,
must do neither.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TextIO, cast

from benchsuite.report.printed import OutputFilter, printing_through

_AT_START = re.compile(r"((?:\A|(?<=[\r\n]))(?:[^\S\r\n]|[\u200b\ufeff])*:):")
_UNDECIDED = re.compile(r"(?:\s|[\u200b\ufeff])*:?")


class CommandlessStream(OutputFilter):
    """A text stream that writes `:\\u003a` and `##\\u005b` for what the runner would obey.

    What is written as bytes, such as a report on standard output, passes as it is.
    """

    def __init__(self, behind: TextIO) -> None:
        super().__init__(behind)
        self._before = ""  # what of the present line still decides

    def write(self, text: str) -> int:
        """Write the text, and return its own length, as callers expect."""
        before = self._before
        whole = dead(before + text)
        self.behind.write(whole[len(before) :])
        line = re.split(r"[\r\n]", before + text)[-1]
        blank = _UNDECIDED.fullmatch(line) is not None
        self._before = line[-1:].strip() if blank else f"x{line[-2:]}"
        return len(text)

    @property
    def obeyed(self) -> TextIO:
        """The stream behind, for commands that are meant."""
        return self.behind


def dead(text: str) -> str:
    """The text without anything that the runner would obey; JSON means what it meant."""
    return _AT_START.sub(r"\1\\u003a", text).replace("##[", "##\\u005b")


def obeyed(stream: TextIO) -> TextIO:
    """The stream for commands that are meant."""
    return cast("TextIO", getattr(stream, "obeyed", stream))


def without_commands(environ: Mapping[str, str]) -> AbstractContextManager[None]:
    """A context in which nothing printed is a workflow command; does nothing outside Actions."""
    if environ.get("GITHUB_ACTIONS") != "true":
        return nullcontext()
    return printing_through(CommandlessStream)
