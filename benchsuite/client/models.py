"""What `/v1/models` lists; pure, and never raises.

Seen on 10434: a router lists each model with `status.value` (`loaded`, `unloaded`, `loading`,
`sleeping`, `failed`); a plain server lists its one model, without a status.
"""

from __future__ import annotations

from typing import Any

import msgspec

from benchsuite.client.loose import object_of, text_of


class ServedModel(msgspec.Struct, frozen=True):
    """One model that requests may name."""

    name: str  # for `model` of a request
    aliases: tuple[str, ...] = ()  # other names for it
    state: str | None = None  # of a router's child: `loaded`, ...; None of a plain server


def parse_models(body: Any) -> tuple[ServedModel, ...]:
    """The models in the decoded body of `/v1/models`; of anything else, none."""
    listed = object_of(body).get("data")
    found = []
    for raw in listed if isinstance(listed, list) else []:
        entry = object_of(raw)
        name = text_of(entry, "id")
        if name is not None:
            aliases = entry.get("aliases")
            known = aliases if isinstance(aliases, list) else []
            state = text_of(object_of(entry.get("status")), "value")
            found.append(ServedModel(name, tuple(a for a in known if isinstance(a, str)), state))
    return tuple(found)
