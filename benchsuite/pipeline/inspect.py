"""`benchsuite inspect` from its argument to what was read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO

from benchsuite.collect.log_memory import memory_measurements
from benchsuite.errors import ConfigError, UsageError
from benchsuite.logform.facts import LogFacts
from benchsuite.logform.reader import LogReader
from benchsuite.metrics.kv_formula import CACHE_TYPES, CacheSettings, expected_memory
from benchsuite.model.shape import UnknownMemory
from benchsuite.pipeline.analytic import as_measurements
from benchsuite.report.inspect import LogInspection
from benchsuite.report.inspect_model import ModelInspection
from benchsuite.scenario.words import remedy
from benchsuite.server.gguf_facts import read_model_facts
from benchsuite.server.gguf_shape import read_model_shape

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
            with Path(path).open("rb") as stream:
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


def inspect_model(path: str, settings: CacheSettings) -> ModelInspection:
    """What a model file's cache must weigh with these settings.

    Args:
        path: A GGUF file; of a split model, its first part.
        settings: As llama-server's flags would make them.

    Raises:
        UsageError: A cache type that llama-server does not have.
        ConfigError: The file is missing, unreadable, no GGUF, cut short or hostile.
    """
    for option, kind in (("k", settings.type_k), ("v", settings.type_v)):
        if kind not in CACHE_TYPES:
            hint = remedy(kind, CACHE_TYPES, "types")
            raise UsageError(f"--cache-type-{option} '{kind}' is no cache type{hint}")
    facts = read_model_facts(Path(path))
    shape = read_model_shape(Path(path))
    if isinstance(shape, UnknownMemory):
        return ModelInspection(facts, settings, shape, shape)
    expected = expected_memory(shape, settings)
    if isinstance(expected, UnknownMemory):
        return ModelInspection(facts, settings, shape, expected)
    return ModelInspection(facts, settings, shape, expected, tuple(as_measurements(expected)))


def _read(stream: BinaryIO) -> LogFacts:
    reader = LogReader()
    while chunk := stream.read(_CHUNK_BYTES):
        reader.feed(chunk)
    return reader.finish()
