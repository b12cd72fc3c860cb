"""Whether an attached server was started again while it was driven; and when its process began.

Counts of `/metrics` and the ids of tasks in `/slots` only grow while a process lives (10434 and
11549: both begin at 0 with the process), and a process id with another start time is another one.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import psutil

from benchsuite.client.props import Props


class Sight(msgspec.Struct, frozen=True):
    """What tells one start of a server from another; None for what cannot be seen."""

    props: Props
    counters: dict[str, float] | None = None  # of /metrics
    started: float | None = None  # when the observed process began, seconds since 1970


def start_time(pid: int | None) -> float | None:
    """When a process began, in seconds since 1970; None where it has gone or cannot be seen."""
    if pid is None:
        return None
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return None


def counters_fell(before: Mapping[str, float], after: Mapping[str, float]) -> str | None:
    """The first total of `/metrics` that is smaller than it was, in words; None where none is."""
    for name in sorted(before):
        if name.endswith("_total") and after.get(name, before[name]) < before[name]:
            return (
                f"the server was restarted during the run: {name} of /metrics went back from "
                f"{before[name]:g} to {after[name]:g}"
            )
    return None


def restart_between(before: Sight, after: Sight) -> str | None:
    """What shows that another process, or another server, answers than before; None where nothing.

    A fact that only one of the two looks tells shows nothing.
    """
    if before.started is not None and after.started is None:
        return "the server was restarted during the run: the observed process has ended"
    if before.started is not None and after.started != before.started:
        return "the server was restarted during the run: the observed process began anew"
    if before.counters is not None and after.counters is not None:
        fell = counters_fell(before.counters, after.counters)
        if fell is not None:
            return fell
    for name in ("build", "total_slots", "n_ctx_slot", "model_path", "model_alias"):
        old, new = getattr(before.props, name), getattr(after.props, name)
        if None not in (old, new) and old != new:
            return (
                "another server answers than at the start of the run: "
                f"{name} of /props was {old}, and is {new}"
            )
    return None
