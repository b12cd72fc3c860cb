"""What all launches of one run share, and what one launch brings home."""

from __future__ import annotations

from typing import Any

import msgspec

from benchsuite.collect.watch import Keep
from benchsuite.drive.prompts import PromptBook
from benchsuite.model.plan import Plan
from benchsuite.model.record import Launch, Measurement, ModelFacts, Unmeasured
from benchsuite.report.progress import Progress
from benchsuite.scenario.flags import FlagTable
from benchsuite.server.guard import Guard
from benchsuite.server.locate import ServerBinary
from benchsuite.store.records import RunFolder


class RunContext(msgspec.Struct, frozen=True):
    """What all launches of one run share."""

    plan: Plan
    folder: RunFolder
    keep: Keep  # the journal
    progress: Progress
    prompts: PromptBook
    model: ModelFacts
    binary: ServerBinary | None = None  # None for an attached server
    table: FlagTable | None = None  # of the binary
    guard: Guard | None = None
    api_key: str | None = None  # of an attached server


class Outcome(msgspec.Struct, frozen=True):
    """What one launch brought home."""

    launch: Launch
    measurements: tuple[Measurement, ...] = ()
    unmeasured: tuple[Unmeasured, ...] = ()


def journal(context: RunContext, outcome: Outcome) -> None:
    """Keep everything of an outcome in the journal, so that a kill loses nothing of it."""
    for measurement in outcome.measurements:
        context.keep("measurement", measurement=measurement)
    for unmeasured in outcome.unmeasured:
        context.keep("unmeasured", unmeasured=unmeasured)
    context.keep("launch", launch=outcome.launch)


def told(props: dict[str, Any], *path: str) -> Any:
    """The value at a path of nested objects; None where any part is absent."""
    value: Any = props
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
