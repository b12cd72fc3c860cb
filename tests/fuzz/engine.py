"""Runs many cases of a target, each within limits, and keeps those that went wrong.

A case is made from the seed and its number alone, so that any share of a run can be repeated.
"""

from __future__ import annotations

import hashlib
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType
from typing import NamedTuple

from tests.fuzz.targets import CORPUS, Target

CASE_SECONDS = 1.0
"""Of the processor, for one case."""


class Finding(NamedTuple):
    """An input that went wrong, and how."""

    target: str
    data: bytes
    how: str  # the exception's type, where it was raised, and its words
    trace: str

    @property
    def name(self) -> str:
        """A file name for it."""
        return f"{self.target}-{hashlib.sha256(self.data).hexdigest()[:8]}"


class Tally(NamedTuple):
    """What came of a number of cases."""

    cases: int
    findings: tuple[Finding, ...]  # the first of each kind
    wrong: int  # cases that went wrong, all of them
    slowest_ms: float  # of the processor, checking one case
    seconds: float  # by the clock, making cases too


class TooLongError(Exception):
    """A case took more than its time."""


def make_case(target: Target, seeds: list[bytes], seed: int, number: int) -> bytes:
    """One case; the same for the same seed and number."""
    random = Random(f"{target.name} {seed} {number}")
    make = random.choice(target.makes)
    return make(random, seeds, target.words)


def check_case(target: Target, data: bytes, folder: Path) -> Finding | None:
    """Whether an input goes wrong.

    Args:
        target: What reads it.
        data: The input.
        folder: Empty, for the reader's files.
    """
    try:
        with _limited(CASE_SECONDS):
            target.check(data, folder)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what we look for
        last = traceback.extract_tb(error.__traceback__)[-1]
        words = " ".join(str(error).split())[:160]
        how = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {words}"
        return Finding(target.name, data, how, traceback.format_exc())
    return None


def fuzz(target: Target, cases: int, seed: int, *, first: int = 0) -> Tally:
    """Try cases `first` to `first + cases`."""
    seeds = seeds_of(target)
    kinds: dict[str, Finding] = {}
    wrong, slowest = 0, 0.0
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=_quick_folder()) as name:
        folder = Path(name)
        for number in range(first, first + cases):
            data = make_case(target, seeds, seed, number)
            start = time.process_time()
            finding = check_case(target, data, folder)
            slowest = max(slowest, time.process_time() - start)
            if finding is not None:
                wrong += 1
                kinds.setdefault(finding.how.split(": ")[0], finding)
    seconds = time.perf_counter() - begun
    return Tally(cases, tuple(kinds.values()), wrong, 1000 * slowest, seconds)


def seeds_of(target: Target) -> list[bytes]:
    """What a target's cases are made of: its good inputs, then what once went wrong."""
    kept = sorted(path for path in (CORPUS / target.name).glob("*") if path.is_file())
    seeds = target.seeds()
    return seeds + [data for path in kept if (data := path.read_bytes()) not in seeds]


def _quick_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise `TooLongError` after so much time of the processor, where there are such timers."""
    if sys.platform == "win32":
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLongError(f"took more than {seconds:g} s")

    former = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)
