"""The result of a suite on disk, `suite.json`, from which a later call runs again what failed."""

from __future__ import annotations

from pathlib import Path

import msgspec

from benchsuite.errors import ConfigError
from benchsuite.model.suite import SUITE_SCHEMA, SuiteResult
from benchsuite.regular import read_regular
from benchsuite.store.files import write_atomic
from benchsuite.store.floats import decode_json


def write_suite_result(path: Path, result: SuiteResult) -> None:
    """Write a suite's result atomically.

    Raises:
        MachineError: The disk refuses.
    """
    data = msgspec.json.format(msgspec.json.encode(result), indent=2)
    write_atomic(path, data + b"\n")


def read_suite_result(path: Path) -> SuiteResult | None:
    """A suite's last result; None where there is none.

    Raises:
        ConfigError: There is one that this version cannot read.
    """
    try:
        data = read_regular(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", where=str(path)) from error
    hint = "run the whole suite again, which writes it anew"
    try:
        result: SuiteResult = decode_json(data, SuiteResult)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"is no suite result: {error}", where=str(path), hint=hint) from error
    if result.schema_version != SUITE_SCHEMA:
        words = f"has schema {result.schema_version}; this version reads {SUITE_SCHEMA}"
        raise ConfigError(words, where=str(path), hint=hint)
    return result
