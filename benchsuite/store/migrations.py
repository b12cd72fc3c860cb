"""Versions of everything that is stored, and how old ones become the current one.

Old versions are read for ever: a format that changes gets a step here and a fixture of its former
version in `tests/fixtures/schemas`. Newer ones are refused. Pure; knows nothing of files.

History:

- baselines 2: `earlier` became `refreshed`, since taking one metric anew now leaves `info` to the
  rest; values may have an `interval`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from benchsuite.errors import ConfigError
from benchsuite.model.record import RECORD_SCHEMA
from benchsuite.model.vectors import VECTORS_SCHEMA

Step = Callable[[dict[str, Any]], dict[str, Any]]
"""Turns the content of one version into that of the next; the version itself is left to `migrate`.
A step may rely on its version's keys being there only as far as it checks for them: the content is
checked after it."""


class Format(msgspec.Struct, frozen=True):
    """Something that is stored under a version."""

    noun: str  # in words: `a baseline`
    key: str  # of the version in the content
    current: int
    steps: Mapping[int, Step]  # version -> how it becomes the next; one for each before `current`


def _baseline_1(content: dict[str, Any]) -> dict[str, Any]:
    return {("refreshed" if key == "earlier" else key): v for key, v in content.items()}


BASELINE = Format("a baseline", "schema", 2, {1: _baseline_1})
RECORD = Format("a run record", "schema_version", RECORD_SCHEMA, {})
JOURNAL = Format("the journal of a run", "schema_version", RECORD_SCHEMA, {})
VECTORS = Format("a file of vectors", "schema_version", VECTORS_SCHEMA, {})
STORED_VECTORS = Format("a file of vectors", "schema", VECTORS_SCHEMA, {})
COMMIT = Format("the journal of an accept", "schema", 1, {})

FORMATS = (BASELINE, RECORD, JOURNAL, VECTORS, STORED_VECTORS, COMMIT)


def migrate(form: Format, content: Any, *, where: str) -> dict[str, Any]:
    """Content of any version as that of the current one.

    Args:
        form: What it is.
        content: As decoded from JSON.
        where: Its place, for messages; `file:line` of the version where that is known.

    Raises:
        ConfigError: It has no version, one that never was, or a newer one.
    """
    if not isinstance(content, dict):
        raise ConfigError(f"is not {form.noun}: expected an object", where=where)
    version = check_version(form, content.get(form.key), where=where)
    found = content
    for number in range(version, form.current):
        found = form.steps[number](found)
    return {**found, form.key: form.current}


def check_version(form: Format, version: object, *, where: str) -> int:
    """The version, if this benchsuite can read it.

    Raises:
        ConfigError: It is no version, or a newer one.
    """
    if version is None:
        raise ConfigError(f"is not {form.noun}: it has no {form.key}", where=where)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        expected = "1" if form.current == 1 else f"a whole number from 1 to {form.current}"
        raise ConfigError(
            f"has {form.key} {_shown(version)}, expected {expected}",
            where=where,
            hint="restore it from version control or from where it came",
        )
    if version > form.current:
        raise ConfigError(
            f"was written by a newer benchsuite: {form.noun} with {form.key} "
            f"{_shown(version)}, and this one reads up to {form.current}",
            where=where,
            hint="update benchsuite: pip install --upgrade benchsuite",
        )
    return version


def _shown(version: object) -> str:
    """What stands where a version should, cut short."""
    try:
        text = repr(version)
    except (RecursionError, ValueError):  # too deep, or a number of more than 4300 digits
        return f"of type {type(version).__name__}"
    return text if len(text) <= 40 else f"{text[:37]}..."
