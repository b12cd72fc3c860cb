"""The line that tells what is being done while a run goes on.

On a terminal one line that is rewritten (rich); elsewhere a line per launch; nothing when quiet.
It writes to standard error, so that standard output holds results only.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.status import Status


class Progress(Protocol):
    """What the pipeline tells of its progress."""

    def launch(self, words: str) -> None:
        """A launch begins."""

    def step(self, words: str) -> None:
        """A step begins."""

    def close(self) -> None:
        """Nothing more comes; clears the line."""


class QuietProgress:
    """Tells nothing."""

    def launch(self, words: str) -> None: ...

    def step(self, words: str) -> None: ...

    def close(self) -> None: ...


class PlainProgress:
    """A line per launch and step, for logs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._launch = ""

    def launch(self, words: str) -> None:
        self._launch = words
        self._say(words)

    def step(self, words: str) -> None:
        self._say(f"  {words}")

    def close(self) -> None: ...

    def _say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class LiveProgress:
    """One line on a terminal, rewritten as steps pass."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        self._console = Console(file=stream, highlight=False, markup=False)
        self._launch = ""
        self._status: Status | None = None

    def launch(self, words: str) -> None:
        self._launch = words
        self._show(words)

    def step(self, words: str) -> None:
        self._show(f"{self._launch}: {words}")

    def close(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _show(self, text: str) -> None:
        from rich.text import Text

        line = Text(text, overflow="ellipsis", no_wrap=True)
        if self._status is None:
            self._status = self._console.status(line)
            self._status.start()
        else:
            self._status.update(line)


def make_progress(environ: Mapping[str, str], *, quiet: bool) -> Progress:
    """The progress that fits standard error: quiet, live on a terminal, else plain."""
    if quiet:
        return QuietProgress()
    if sys.stderr.isatty() and environ.get("TERM", "") != "dumb":
        return LiveProgress(sys.stderr)
    return PlainProgress(sys.stderr)
