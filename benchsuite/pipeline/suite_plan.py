"""What a suite will run: its entries as jobs; all that is wrong is said before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from benchsuite.errors import BenchsuiteError, ScenarioError, UsageError
from benchsuite.gate.quarantine import quarantine_problem
from benchsuite.model.scenario import Scenario
from benchsuite.model.suite import Quarantine, Suite, SuiteEntry
from benchsuite.pipeline.options import RunOptions
from benchsuite.pipeline.prepare import Prepared, prepare
from benchsuite.scenario.words import remedy
from benchsuite.scenario.workspace import Workspace, looks_like_path, resolved


class Job(msgspec.Struct, frozen=True):
    """One scenario on one deployment, as an entry of the suite asks for it."""

    scenario: Scenario
    deployment: str
    entry: SuiteEntry
    options: RunOptions
    place: str  # `file:line` of the entry
    # ready to run, or what kept it from being: a server or machine that failed
    prepared: Prepared | BenchsuiteError | None = None  # None before `prepare_jobs`

    @property
    def key(self) -> tuple[object, ...]:
        """As `SuiteRun.key`."""
        entry = self.entry
        name = self.scenario.name
        return (name, self.deployment, entry.variants, entry.sets, entry.trials, entry.seed)


def plan_suite(
    workspace: Workspace, suite: Suite, options: RunOptions, formats: Collection[str]
) -> list[Job]:
    """The suite's jobs in order; of two that mean the same run, the first.

    Args:
        workspace: Knows scenarios and deployments.
        suite: As its file says.
        options: What the command line says of every run.
        formats: The formats that its outputs may have.

    Raises:
        ScenarioError: Something in the suite means nothing here; all of it is named.
    """
    problems: list[str] = []
    jobs: dict[tuple[object, ...], Job] = {}
    for entry in suite.entries:
        place = f"{suite.path}:{entry.line}"
        try:
            if looks_like_path(entry.word):
                file = str(resolved(workspace.cwd, entry.word))
                workspace.reach(suite.path).file(file, where=None, key="'scenarios'")
            scenarios = workspace.find([entry.word])
        except ScenarioError as error:
            problems += error.problems
            continue
        except UsageError as error:
            problems.append(f"{place}: {error}" + (f" ({error.hint})" if error.hint else ""))
            continue
        known = workspace.deployments
        for name in entry.deployments:
            if name not in known:
                words = remedy(name, known, "deployments")
                problems.append(f"{place}: no deployment '{name}'{words}")
                continue
            for scenario in scenarios:
                held = tuple(q for q in suite.quarantine if _concerns(q, scenario, name))
                job = Job(
                    scenario, name, entry, _options(options, entry, name, held, suite.path), place
                )
                jobs.setdefault(job.key, job)
    for output in suite.outputs:
        if output.format not in formats:
            words = remedy(output.format, formats, "formats")
            problems.append(f"{suite.path}:{output.line}: unknown format '{output.format}'{words}")
    if not problems:
        problems += _quarantine_problems(suite, jobs.values())
    if problems:
        raise ScenarioError(list(dict.fromkeys(problems)))
    return list(jobs.values())


def prepare_jobs(workspace: Workspace, jobs: list[Job], environ: Mapping[str, str]) -> list[Job]:
    """The jobs, each ready to run or with the fault of a server or the machine that forbids it.

    Raises:
        ScenarioError: Options, flags or baselines cannot be used as they are; nothing has run.
    """
    problems: list[str] = []
    ready: list[Job] = []
    for job in jobs:
        prepared: Prepared | BenchsuiteError
        try:
            prepared = prepare(workspace, job.scenario, job.options, environ)
        except ScenarioError as error:
            problems += error.problems
            continue
        except UsageError as error:
            words = f"{error} ({error.hint})" if error.hint else str(error)
            problems.append(f"{job.place}: {job.scenario.name} on {job.deployment}: {words}")
            continue
        except BenchsuiteError as error:
            prepared = error
        ready.append(msgspec.structs.replace(job, prepared=prepared))
    if problems:
        raise ScenarioError(list(dict.fromkeys(problems)))
    return ready


def _options(
    given: RunOptions, entry: SuiteEntry, deployment: str, held: tuple[Quarantine, ...], path: str
) -> RunOptions:
    return msgspec.structs.replace(
        given,
        deployment=deployment,
        variants=entry.variants,
        sets=(*entry.sets, *given.sets),
        suite_sets=len(entry.sets),
        suite_place=(path, entry.line),
        trials=entry.trials,
        seed=entry.seed,
        allow_new=entry.allow_new,
        require_all=entry.require_all,
        refuse_expired=True,
        policy=entry.policy,
        quarantine=held,
    )


def _concerns(entry: Quarantine, scenario: Scenario, deployment: str) -> bool:
    return entry.scenario == scenario.name and entry.deployment in (None, deployment)


def _quarantine_problems(suite: Suite, jobs: Collection[Job]) -> list[str]:
    problems = []
    for entry in suite.quarantine:
        met = [job for job in jobs if entry in job.options.quarantine]
        if not met:
            on = "" if entry.deployment is None else f" on '{entry.deployment}'"
            words = f"the suite does not run '{entry.scenario}'{on}; delete the entry"
            problems.append(f"{entry.place}: {words}")
            continue
        problem = quarantine_problem(entry, met[0].scenario)
        if problem is not None:
            problems.append(f"{entry.place}: {problem}")
    return problems


def runs_folder(workspace: Workspace, options: RunOptions) -> Path:
    """Where the suite's runs are kept."""
    return workspace.runs if options.out is None else Path(options.out).absolute()
