"""Source markers: counted beside a launch, or by themselves without any server."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
from pathlib import Path

from benchsuite.collect.source_markers import count_markers
from benchsuite.errors import ConfigError
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.deployment import Deployment
from benchsuite.model.plan import VariantPlan
from benchsuite.model.record import Failure, Launch, Measurement, ServerFacts, Unmeasured
from benchsuite.model.scenario import Scenario, SourceMarkersStep
from benchsuite.pipeline.context import Outcome, RunContext

_NAME = "source_markers"


def check_folders(scenario: Scenario, deployment: Deployment) -> None:
    """See that the source folders that a scenario asks for are there, where they are named.

    Raises:
        ConfigError: One is not.
    """
    for step in scenario.steps:
        if isinstance(step, SourceMarkersStep):
            path = deployment.sources.get(step.folder)
            if path is not None and not Path(path).is_dir():
                raise ConfigError(
                    f"source folder '{step.folder}' of deployment '{deployment.name}' is not "
                    f"there: {path}",
                    where=deployment.source,
                )


async def measure_markers(
    step: SourceMarkersStep, deployment: Deployment, variant: str, trial: int
) -> Measurement | Unmeasured:
    """What one step counts, or why it does not.

    Args:
        step: What to count.
        deployment: Names the folder.
        variant: Name of the variant.
        trial: From 1.
    """
    labels = {"step": step.name}
    folder = deployment.sources.get(step.folder)
    if folder is None:
        known = ", ".join(sorted(deployment.sources)) or "none"
        reason = (
            f"deployment '{deployment.name}' names no source folder '{step.folder}' (it has "
            f"{known}); declare one with 'source' in a deployment"
        )
        return Unmeasured(_NAME, variant, reason, "not_applicable", trial=trial, labels=labels)
    stop = threading.Event()
    try:
        found = await asyncio.to_thread(count_markers, Path(folder), step.files, step.pattern, stop)
    finally:
        stop.set()  # a cancelled count would hold up our end, since its thread is waited for
    if isinstance(found, str):
        return Unmeasured(_NAME, variant, found, trial=trial, labels=labels)
    source = f"{found.files} files under {folder}"
    unit = CATALOGUE[_NAME].unit
    return Measurement(_NAME, found.lines, unit, variant, trial, labels, source=source)


class MarkerDrive:
    """One pass of a scenario whose steps need no server.

    Args:
        context: What all passes of the run share.
        variant: What to do.
        trial: From 1.
    """

    def __init__(self, context: RunContext, variant: VariantPlan, trial: int) -> None:
        self._context = context
        self._variant = variant
        self._trial = trial

    async def run(self) -> Outcome:
        """Take every step; an interruption is in the outcome."""
        started_at = dt.datetime.now(dt.UTC).isoformat()
        deployment = self._context.plan.deployment
        found: list[Measurement | Unmeasured] = []
        failure = None
        doing = ""
        try:
            for step in self._variant.steps:
                if isinstance(step, SourceMarkersStep):
                    doing = f"step {step.name}"
                    self._context.progress.step(doing)
                    found.append(
                        await measure_markers(step, deployment, self._variant.name, self._trial)
                    )
        except asyncio.CancelledError:
            late = self._context.stop.error(f"source markers of {doing}")
            failure = Failure(
                "interrupted" if late is None else "machine",
                f"interrupted during {doing}" if late is None else str(late),
                hint=None if late is None else late.hint,
                step=doing,
            )
        facts = ServerFacts("none", why="no step needs a server")
        return Outcome(
            Launch(self._variant.name, self._trial, started_at, facts, failure=failure),
            tuple(one for one in found if isinstance(one, Measurement)),
            tuple(one for one in found if isinstance(one, Unmeasured)),
        )
