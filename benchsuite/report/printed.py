"""What stands between the program and its output, and may change what is printed."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TextIO, cast

from benchsuite.redact import redact


class OutputFilter(ABC):
    """A text stream that may write otherwise what it is given; else as the one behind it.

    What is written as bytes passes as it is.
    """

    def __init__(self, behind: TextIO) -> None:
        self.behind = behind

    @abstractmethod
    def write(self, text: str) -> int:
        """Write the text, and return its own length, as callers expect."""

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each line."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


@contextmanager
def printing_through(filtering: Callable[[TextIO], OutputFilter]) -> Iterator[None]:
    """Have everything that is printed meanwhile pass a filter."""
    before = sys.stdout, sys.stderr
    own = [stream and cast("TextIO", filtering(stream)) for stream in before]
    sys.stdout, sys.stderr = own
    try:
        yield
    finally:
        # whoever replaced them meanwhile keeps what they put there
        if sys.stdout is own[0]:
            sys.stdout = before[0]
        if sys.stderr is own[1]:
            sys.stderr = before[1]


class HidingStream(OutputFilter):
    """A text stream that writes what it is given without the secrets.

    A secret that is written in several pieces is not seen.
    """

    def write(self, text: str) -> int:
        """Write the text, and return its own length, as callers expect."""
        self.behind.write(redact(text))
        return len(text)


def hiding_output() -> AbstractContextManager[None]:
    """Hide secrets in everything that is printed meanwhile."""
    return printing_through(HidingStream)
