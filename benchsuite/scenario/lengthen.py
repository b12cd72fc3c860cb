"""A scenario whose load lasts longer or shorter than its file says; pure."""

from __future__ import annotations

import msgspec

from benchsuite.errors import UsageError
from benchsuite.model.scenario import LoadStep, Scenario, SweepStep
from benchsuite.scenario.load_shape import DURATION, MAX_DURATION_SECONDS
from benchsuite.units import parse_quantity

OPTION = "--duration"


def parse_duration(text: str) -> float:
    """Seconds of what `--duration` was given.

    Raises:
        UsageError: It is no time that a load step may last by its file.
    """
    try:
        seconds = parse_quantity(text, "s")
    except ValueError as error:
        raise UsageError(f"{OPTION} {text}: {error}", hint=f"write {OPTION} 8h") from error
    if not 0 < seconds <= MAX_DURATION_SECONDS:
        raise UsageError(
            f"{OPTION}: expected {DURATION.expected}, found '{text}'", hint=f"write {OPTION} 8h"
        )
    return seconds


def lengthen(scenario: Scenario, seconds: float) -> tuple[Scenario, str]:
    """The scenario with every load step that has a `duration` lasting so long instead.

    Sweeps stay as they are: how long a stage lasts decides what can be told of it, and how many
    stages there are nobody knows.

    Args:
        scenario: As its file says.
        seconds: Above 0.

    Returns:
        The scenario, and a sentence on which steps were changed.

    Raises:
        UsageError: No load step has a `duration`, or one cannot be so short.
    """
    timed = [one for one in scenario.steps if isinstance(one, LoadStep) and one.duration]
    if not timed:
        raise UsageError(
            f"{OPTION} is for load steps that end by 'duration', not for sweeps, and scenario "
            f"{scenario.name} has none",
            hint=f"give one a duration in {scenario.path}, or leave out {OPTION}",
        )
    for step in timed:
        if step.warm_up_seconds >= seconds:
            raise UsageError(
                f"{OPTION}: load '{step.name}' warms up for {step.warm_up_seconds:g} s, so that "
                f"nothing of {seconds:g} s would be measured",
                hint="let it last longer",
            )
    steps = tuple(
        msgspec.structs.replace(one, duration=seconds, requests=None)
        if isinstance(one, LoadStep) and one.duration
        else one
        for one in scenario.steps
    )
    names = ", ".join(step.name for step in timed)
    words = f"{OPTION} had load {names} last {seconds:g} s, not what {scenario.path} says"
    sweeps = [one.name for one in scenario.steps if isinstance(one, SweepStep)]
    if sweeps:
        words += f"; sweep {', '.join(sweeps)} was left as it is"
    return msgspec.structs.replace(scenario, steps=steps), words
