"""What `/health` says, from January 2024 to today; pure, and never raises."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from benchsuite.client.loose import count_of, object_of

SOURCE = "/health"
"""The name of this source in measurements."""

_READY = ("ok", "no slot available")


class Health(msgspec.Struct, frozen=True):
    """Whether the server is ready."""

    state: Literal["ready", "loading", "unknown"]
    slots_idle: int | None = None  # builds of 2024 only
    slots_processing: int | None = None


def parse_health(body: Any) -> Health:
    """The state in the decoded body of `/health`, whatever its HTTP status.

    Bodies: `{"status":"ok"}`; while loading `{"error":{"message":"Loading model",...}}`, in 2024
    `{"status":"loading model"}`; 2024 also `{"status":"ok","slots_idle":1,"slots_processing":0}`
    and `no slot available`.
    """
    told = object_of(body)
    status = told.get("status")
    message = object_of(told.get("error")).get("message")
    idle, busy = count_of(told, "slots_idle"), count_of(told, "slots_processing")
    if status in _READY:
        return Health("ready", idle, busy)
    if any(isinstance(text, str) and "oading" in text for text in (status, message)):
        return Health("loading")
    return Health("unknown")
