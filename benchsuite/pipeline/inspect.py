"""`benchsuite inspect` from its argument to what was read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO

from benchsuite.collect.log_memory import memory_measurements
from benchsuite.errors import ConfigError
from benchsuite.logform.facts import LogFacts
from benchsuite.logform.reader import LogReader
from benchsuite.regular import open_regular
from benchsuite.report.inspect import LogInspection

STANDARD_INPUT = "-"
_CHUNK_BYTES = 1024 * 1024


def inspect_log(path: str) -> LogInspection:
    """Read a whole log, however large, a piece at a time.

    Args:
        path: A file, or `-` for standard input.

    Raises:
        ConfigError: It cannot be read.
    """
    if path == STANDARD_INPUT:
        facts = _read(sys.stdin.buffer)
    else:
        try:
            with open_regular(Path(path)) as stream:
                facts = _read(stream)
        except OSError as error:
            raise ConfigError(
                f"cannot read the log: {error.strerror}",
                where=path,
                hint="give the path of a saved log, or - for standard input",
            ) from error
    measured, unmeasured = memory_measurements(facts, "")
    name = "standard input" if path == STANDARD_INPUT else path
    return LogInspection(name, facts, tuple(measured), tuple(unmeasured))


def _read(stream: BinaryIO) -> LogFacts:
    reader = LogReader()
    while chunk := stream.read(_CHUNK_BYTES):
        reader.feed(chunk)
    return reader.finish()
