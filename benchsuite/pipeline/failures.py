"""From an exception, and how the server ended, to the failure that the record keeps; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from benchsuite.errors import (
    BenchsuiteError,
    MachineError,
    RequestRefusedError,
    ServerCrashError,
    ServerHangError,
    ServerLiedError,
    ServerStartError,
)
from benchsuite.model.record import Failure, Forensics

_Kind = Literal["start", "crash", "hang", "lied", "connection", "refused", "machine"]

_KINDS: tuple[tuple[type[BenchsuiteError], _Kind], ...] = (
    (MachineError, "machine"),
    (ServerStartError, "start"),
    (ServerCrashError, "crash"),
    (ServerHangError, "hang"),
    (ServerLiedError, "lied"),
    (RequestRefusedError, "refused"),
)

_TOLD_BY_LOG = frozenset({"start", "crash", "hang"})
"""Kinds of failure for which the log's last lines are evidence."""


def failure_of(
    error: BenchsuiteError,
    *,
    step: str,
    healthy_before: bool,
    last_lines: Sequence[str],
    forensics: Forensics | None = None,
) -> Failure:
    """The failure that `error` is, with where it happened and what is left of the server."""
    kind: _Kind = "connection"
    for kind_of_error, name in _KINDS:
        if isinstance(error, kind_of_error):
            kind = name
            break
    return Failure(
        kind=kind,
        message=str(error),
        hint=error.hint,
        step=step,
        healthy_before=healthy_before,
        last_lines=tuple(last_lines) if kind in _TOLD_BY_LOG else (),
        forensics=forensics if kind in (*_TOLD_BY_LOG, "connection") else None,
    )
