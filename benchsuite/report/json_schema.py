"""The JSON Schema of `benchsuite report --format json`, with what the code says of its fields.

The types are the schema and the comments beside their fields the sentences, so none can go stale.
"""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

import msgspec

from benchsuite.model.ab import AbRecord
from benchsuite.report.json import Report

_FIELD = re.compile(r"    (\w+): .*?(?:  # (.*))?")
_COMMENT = re.compile(r"    # (.*)")


def report_schema() -> dict[str, Any]:
    """The schema as JSON Schema of draft 2020-12."""
    made: dict[str, Any] = msgspec.json.schema(Report)
    structs = _structs()
    for name, definition in made["$defs"].items():
        struct = structs.get(name)
        if struct is None:
            continue
        sentences = _sentences(struct)
        for field, content in definition.get("properties", {}).items():
            if field in sentences:
                definition["properties"][field] = {"description": sentences[field], **content}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def _structs() -> dict[str, type]:
    """Every type of the record, by name."""
    modules = {one.__module__ for one in (Report, AbRecord)}
    modules |= {name for name in sys.modules if name.startswith("benchsuite.model.")}
    return {
        name: value
        for module in modules
        for name, value in vars(sys.modules[module]).items()
        if inspect.isclass(value) and issubclass(value, msgspec.Struct)
    }


def _sentences(struct: type) -> dict[str, str]:
    """What the comments above and beside the fields of a type say, by field."""
    try:
        lines = inspect.getsource(struct).splitlines()
    except OSError:  # installed without sources
        return {}
    found: dict[str, str] = {}
    above: list[str] = []
    for line in lines:
        comment, field = _COMMENT.fullmatch(line), _FIELD.fullmatch(line)
        if comment is not None:
            above.append(comment[1])
            continue
        if field is not None and (words := " ".join([*above, *filter(None, (field[2],))])):
            found[field[1]] = words
        above = []
    return found
