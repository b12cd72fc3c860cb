"""Outcomes of gates and of a whole run."""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["same", "improved", "regressed", "changed", "missing", "new", "inconclusive"]
"""How a measurement compares with its reference."""

Outcome = Literal["pass", "fail", "inconclusive", "not applicable", "xfail", "xpass", "error"]

Level = Literal["block", "advise"]

Against = Literal["number", "run", "baseline", "analytic", "other side"]
"""What a gate compares with: limits in the scenario, another place of the same run, a baseline,
what the model file and the flags make of it, the baseline server of an `ab`."""


class Estimate(msgspec.Struct, frozen=True):
    """What a comparison of noisy values stands on."""

    # the estimate, in `unit`: how much worse the candidate is, whatever the metric's direction;
    # against a limit the value itself. None where no value could be used
    value: float | None
    unit: str  # `%` of the baseline for a ratio, else the metric's unit
    baseline_n: int  # launches on the baseline's side; pairs in `ab`; 0 against a limit
    candidate_n: int  # launches on the candidate's side; pairs in `ab`
    low: float | None = None  # ends of the interval, in `unit`; None where values are too few
    high: float | None = None
    confidence: float = 0.95  # of the interval
    method: str = ""  # in words: `paired log ratio, Student's t`
    warnings: tuple[str, ...] = ()  # `3 launches: an interval needs 5`


class GateResult(msgspec.Struct, frozen=True):
    """What one gate found in one variant."""

    metric: str  # selector as written
    variant: str
    rule: str  # in words: `equals baseline`, `at most 96 MiB`, `same as variant B`
    outcome: Outcome
    level: Level
    expected: str  # as printed; empty where there is nothing
    observed: str
    reason: str  # one sentence: why, and for anything but a pass what to do
    state: State | None = None
    line: int = 0  # in the scenario file
    why: str = ""  # the scenario author's sentence
    differs: tuple[str, ...] = ()  # from the baseline's info: `build b1 -> b2`
    against: Against = "number"
    estimate: Estimate | None = None  # of noisy values; None for others and in older records
    # by which issue and until when a suite keeps it from blocking; empty where none does
    quarantine: str = ""


class IssueResult(msgspec.Struct, frozen=True):
    """What became of one known issue in a run."""

    issue: str
    variant: str
    expect: Literal["crash", "fail"]
    # xfail: failed as expected; xpass: did not; other failure: failed in another way;
    # not considered: a condition does not hold, or the variant did not get so far
    outcome: Literal["xfail", "xpass", "other failure", "not considered"]
    reason: str  # one sentence: what was seen, and what to do where it is not as expected
    place: str  # `file:line` of the entry
    expiry: str = ""  # a sentence where the entry has expired or soon will
    expired: bool = False  # whether it has


class Verdict(msgspec.Struct, frozen=True):
    """The worst outcome of all blocking gates and launches, with reasons."""

    outcome: Literal[
        "pass", "fail", "inconclusive", "server failed", "machine failed", "interrupted"
    ]
    exit_code: int
    reasons: tuple[str, ...]  # one sentence each, worst first; empty for a plain pass
    counts: dict[str, int]  # outcome -> number of gate results; `advice` counts advising non-passes
