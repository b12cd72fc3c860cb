"""The line that tells what is being done while a run goes on.

On a terminal one line that is rewritten (rich); elsewhere a line per launch; nothing when quiet.
It writes to standard error, so that standard output holds results only. How long is left is told
from the launches that are over; before the first is, nothing is known.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TextIO

from benchsuite.report.layout import safe

if TYPE_CHECKING:
    from rich.status import Status


Clock = Callable[[], float]

Place = tuple[int, int]
"""Which launch of how many, from 1."""

_MINUTE = 60


class Pace:
    """How long the launches took that are over, and so how long the others will.

    Args:
        clock: Seconds, never going back.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: float | None = None
        self._place: Place | None = None
        self._took: list[float] = []

    def begin(self, place: Place | None) -> None:
        """A launch begins, and the one before has ended; None is a wait that counts for none."""
        now = self._clock()
        if self._place is not None and self._began is not None:
            self._took.append(now - self._began)
        self._began, self._place = now, place

    def seconds_left(self) -> float | None:
        """Seconds until the last launch ends, by the mean of those over; None before one is."""
        if self._place is None or self._began is None or not self._took:
            return None
        number, total = self._place
        mean = sum(self._took) / len(self._took)
        current = max(mean - (self._clock() - self._began), 0)
        return current + mean * (total - number)

    def words(self) -> str:
        """`about 2 min left`; empty where nothing is known."""
        left = self.seconds_left()
        return "" if left is None else f"about {duration_words(left)} left"


def duration_words(seconds: float) -> str:
    """A duration as one reads it at a glance: `8 s`, `2 min`, `1 h 20 min`."""
    whole = max(1, round(seconds))
    if whole < 2 * _MINUTE:
        return f"{whole} s"
    minutes = round(whole / _MINUTE)
    if minutes < 2 * _MINUTE:
        return f"{minutes} min"
    return f"{minutes // _MINUTE} h {minutes % _MINUTE} min"


def place_words(place: Place | None) -> str:
    """`[2/6] `; nothing for a single launch."""
    return "" if place is None or place[1] == 1 else f"[{place[0]}/{place[1]}] "


class Progress(Protocol):
    """What the pipeline tells of its progress."""

    def launch(self, words: str, place: Place | None = None) -> None:
        """A launch begins, or the wait before it."""

    def step(self, words: str) -> None:
        """A step begins."""

    def close(self) -> None:
        """Nothing more comes; clears the line."""


class QuietProgress:
    """Tells nothing."""

    def launch(self, words: str, place: Place | None = None) -> None: ...

    def step(self, words: str) -> None: ...

    def close(self) -> None: ...


class PlainProgress:
    """A line per launch and step, for logs."""

    def __init__(self, stream: TextIO, clock: Clock = time.monotonic) -> None:
        self._stream = stream
        self._pace = Pace(clock)

    def launch(self, words: str, place: Place | None = None) -> None:
        self._pace.begin(place)
        left = self._pace.words()
        self._say(f"{place_words(place)}{words}{f', {left}' if left else ''}")

    def step(self, words: str) -> None:
        self._say(f"  {words}")

    def close(self) -> None: ...

    def _say(self, text: str) -> None:
        print(safe(text), file=self._stream, flush=True)


class LiveProgress:
    """One line on a terminal, rewritten as steps pass."""

    def __init__(self, stream: TextIO, clock: Clock = time.monotonic) -> None:
        from rich.console import Console

        self._console = Console(file=stream, highlight=False, markup=False)
        self._launch = ""
        self._pace = Pace(clock)
        self._status: Status | None = None

    def launch(self, words: str, place: Place | None = None) -> None:
        self._pace.begin(place)
        self._launch = safe(f"{place_words(place)}{words}")
        self._show(self._launch)

    def step(self, words: str) -> None:
        self._show(f"{self._launch}: {safe(words)}")

    def close(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _show(self, text: str) -> None:
        from rich.text import Text

        left = self._pace.words()
        # what is left comes first: the end of the line is cut on a narrow terminal
        line = Text(f"{left}; {text}" if left else text, overflow="ellipsis", no_wrap=True)
        if self._status is None:
            self._status = self._console.status(line)
            self._status.start()
        else:
            self._status.update(line)


class UnheardProgress:
    """Tells as another does, and goes on where nobody can hear it: its terminal was closed."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def launch(self, words: str, place: Place | None = None) -> None:
        with suppress(OSError):
            self._progress.launch(words, place)

    def step(self, words: str) -> None:
        with suppress(OSError):
            self._progress.step(words)

    def close(self) -> None:
        with suppress(OSError):
            self._progress.close()


def make_progress(environ: Mapping[str, str], *, quiet: bool) -> Progress:
    """The progress that fits standard error: quiet, live on a terminal, else plain."""
    if quiet:
        return QuietProgress()
    if sys.stderr.isatty() and environ.get("TERM", "") != "dumb":
        return UnheardProgress(LiveProgress(sys.stderr))
    return UnheardProgress(PlainProgress(sys.stderr))
