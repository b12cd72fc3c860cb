"""The digest of what changes a variant's measurements; never of how they are judged."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec

from benchsuite.model.sample import Sample
from benchsuite.model.scenario import FlagNeed, FlagValue, SessionSpec, Step


def digest_of(
    needs: dict[str, FlagNeed],
    flags: dict[str, FlagValue],
    sessions: dict[str, SessionSpec],
    steps: tuple[Step, ...],
    reference: str = "",
) -> str:
    """sha256 in hexadecimal over canonical JSON.

    Lines are left out, and so are fields at their default: a field that a later version adds
    changes no digest of a scenario that does not use it. A file of requests enters by its own
    sha256.

    Args:
        needs: Of the server, as the scenario says, not as resolved.
        flags: Of the variant.
        sessions: With the variant's overlays.
        steps: Seeds as written; a run's own seed is a match key by itself.
        reference: Variant along whose tokens vectors are taken; empty where none are.
    """
    content: dict[str, Any] = {
        "server": {name: canonical(need) for name, need in needs.items()},
        "flags": dict(flags),
        "sessions": {name: canonical(session) for name, session in sessions.items()},
        "steps": [canonical(step) for step in steps],
    }
    if reference:
        content["reference"] = reference
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def canonical(value: Any) -> Any:
    """A struct as plain JSON values without lines and defaults; other values as they are."""
    if isinstance(value, Sample):  # all else follows from the file and the step's `source`
        return {"sha256": value.sha256}
    if isinstance(value, msgspec.Struct):
        tag = type(value).__struct_config__.tag
        content = {} if tag is None else {"type": tag}
        defaults = _defaults(type(value))
        for name in value.__struct_fields__:
            field = getattr(value, name)
            if name != "line" and (name not in defaults or field != defaults[name]):
                content[name] = canonical(field)
        return content
    if isinstance(value, tuple | list):
        return [canonical(item) for item in value]
    if isinstance(value, dict):
        return {key: canonical(item) for key, item in value.items()}
    return value


def _defaults(kind: type[msgspec.Struct]) -> dict[str, Any]:
    found = {}
    for field in msgspec.structs.fields(kind):
        if field.default is not msgspec.NODEFAULT:
            found[field.name] = field.default
        elif field.default_factory is not msgspec.NODEFAULT:
            found[field.name] = field.default_factory()
    return found
