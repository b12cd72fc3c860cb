"""What a suite file says, and what came of a suite: which scenarios run where, and what decides."""

from __future__ import annotations

from typing import Literal

import msgspec

SUITE_SCHEMA = 1
"""Version of `suite.json`. 1: first."""

Policy = Literal["block", "advise"]
"""Whether what a run's gates decide moves the suite's exit code."""


class Quarantine(msgspec.Struct, frozen=True):
    """One exact gate of one variant that is known to be flaky, and shall not block meanwhile."""

    scenario: str
    variant: str
    gate: str  # selector as the scenario writes it
    issue: str  # by which its tracker knows it: `bug-31`
    expires: str  # ISO date, from which on the suite refuses the entry
    reason: str  # one sentence for the reader
    rule: str | None = None  # in words, `equals baseline`; tells gates of one selector apart
    deployment: str | None = None  # only on this one; None on every
    place: str = ""  # `file:line` of the entry


class SuiteEntry(msgspec.Struct, frozen=True):
    """Scenarios that a suite runs alike."""

    word: str  # stem, path or `tag:NAME`
    deployments: tuple[str, ...]
    variants: tuple[str, ...] = ()  # empty: every variant
    sets: tuple[str, ...] = ()  # FLAG=VALUE
    trials: int = 1
    seed: int = 0
    policy: Policy = "block"
    require_all: bool = True
    allow_new: bool = False
    line: int = 0


class Output(msgspec.Struct, frozen=True):
    """One file that a suite writes."""

    format: str  # `junit`, `summary`, ...
    path: str  # as written; below the folder of the suite's results
    line: int = 0


class Suite(msgspec.Struct, frozen=True):
    """One suite file."""

    name: str  # the file's stem
    path: str  # as the user would open it
    title: str
    entries: tuple[SuiteEntry, ...]
    quarantine: tuple[Quarantine, ...] = ()
    outputs: tuple[Output, ...] = ()
    budget_s: float | None = None  # seconds after which no further run is begun; None: no limit


class SuiteRun(msgspec.Struct, frozen=True):
    """What came of one scenario on one deployment."""

    scenario: str
    deployment: str
    variants: tuple[str, ...]  # as asked for
    sets: tuple[str, ...]
    trials: int
    seed: int
    policy: Policy
    place: str  # `file:line` of the suite's entry
    exit_code: int  # of the run itself, whatever its policy
    outcome: str  # in words: `pass`, `server failed`, `not run`
    reason: str = ""  # the worst reason in one sentence; empty for a pass
    run: str | None = None  # id; None where there is no record
    folder: str | None = None  # of the run, relative to the suite's own results
    wall_seconds: float = 0.0
    carried: bool = False  # taken over from the suite's last result, not run again

    @property
    def key(self) -> tuple[object, ...]:
        """What makes it the same run of another result of the suite."""
        return (self.scenario, self.deployment, self.variants, self.sets, self.trials, self.seed)

    @property
    def counted_code(self) -> int:
        """The exit code that it adds: what gates decide adds none where the policy is to advise."""
        return 0 if self.policy == "advise" and self.exit_code in (1, 3) else self.exit_code


class SuiteResult(msgspec.Struct, frozen=True):
    """What came of a suite."""

    schema_version: int
    suite: str
    path: str  # of the suite file, as the user would open it
    title: str
    started_at: str  # UTC, ISO 8601
    wall_seconds: float
    commit: str | None  # of the user's repository
    runs: tuple[SuiteRun, ...]
    exit_code: int
    # what the command line asked of every run: `--server PATH`, `--set FLAG=VALUE`, ...
    asked: tuple[str, ...] = ()
