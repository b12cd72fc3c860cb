"""Known issues: failures that are expected become `xfail`, their absence `xpass`; pure.

An entry is considered where its conditions hold. What fails in another way than expected stays
what it is.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Literal

import msgspec

from benchsuite.gate.seen import Seen, backend_of
from benchsuite.model.record import Failure, Launch, RunRecord
from benchsuite.model.scenario import KnownIssue, Scenario
from benchsuite.model.verdict import GateResult, IssueResult
from benchsuite.patterns import SlowExpressionError, found
from benchsuite.units import build_number

WARN_DAYS = 14
"""So long before its date an entry is said to expire soon."""

_Outcome = Literal["xfail", "xpass", "other failure", "not considered"]

_DEATHS = ("crash", "start")
"""Kinds of failure that `expect: crash` covers: died once healthy, died while loading."""


class Settled(msgspec.Struct, frozen=True):
    """Gate results in which known issues are told apart, and what became of each entry."""

    gates: tuple[GateResult, ...]
    issues: tuple[IssueResult, ...]


def settle(
    scenario: Scenario, record: RunRecord, gates: Sequence[GateResult], *, today: dt.date
) -> Settled:
    """Hold a run against the known issues of its scenario.

    Args:
        scenario: With its `known_issues`.
        record: What was seen.
        gates: As `judge` gave them.
        today: For entries that expire.

    Returns:
        The gates in their order and one result for each entry, in the scenario's order.
    """
    if not scenario.known_issues:
        return Settled(tuple(gates), ())
    return _Settling(scenario, record, gates, today).settle()


def expiry_of(issue: KnownIssue, today: dt.date) -> tuple[str, bool]:
    """A sentence on an entry that has expired or soon will, and whether it has; else nothing."""
    if issue.expires is None:
        return "", False
    left = (dt.date.fromisoformat(issue.expires) - today).days
    what = f"the known issue {issue.issue} of variant {issue.variant}"
    if left <= 0:
        words = f"{what} expired on {issue.expires}; see whether it is fixed, then delete the entry"
        return f"{words} or give it a later date", True
    if left <= WARN_DAYS:
        days = "tomorrow" if left == 1 else f"in {left} days"
        return f"{what} expires {days}, on {issue.expires}; then `benchsuite ci` fails", False
    return "", False


def shows(signature: str, failure: Failure) -> bool:
    """Whether a signature is found in what tells a failure.

    Where an assertion or an error with its place is known, that one and nothing else: a harmless
    line printed before it must not excuse it. Else the sentence and the lines that report errors,
    and where there are none of those, the last lines.
    """
    seen = failure.forensics
    lines = (*failure.last_lines, *(() if seen is None else seen.errors))
    if seen is not None and seen.crash:
        place = f"{seen.file}:{seen.line}"
        told = [seen.crash, *(line for line in lines if seen.file and place in line)]
    else:
        told = [failure.message, failure.hint or ""]
        told += failure.last_lines if seen is None or not seen.errors else seen.errors
    return any(_is_in(signature, text) for text in told)


def _is_in(signature: str, text: str) -> bool:
    """Whether a signature is in a text; one that is not decided in time excuses nothing."""
    try:
        return found(signature, text)
    except SlowExpressionError:
        return False


class _Settling:
    """One run's known issues being settled."""

    def __init__(
        self, scenario: Scenario, record: RunRecord, gates: Sequence[GateResult], today: dt.date
    ) -> None:
        self._scenario = scenario
        self._record = record
        self._seen = Seen(record)
        self._gates = list(gates)
        self._today = today
        self._considered: list[KnownIssue] = []

    def settle(self) -> Settled:
        untold = {id(issue): self._why_not(issue) for issue in self._scenario.known_issues}
        self._considered = [i for i in self._scenario.known_issues if not untold[id(i)]]
        results = []
        for issue in self._scenario.known_issues:
            why_not = untold[id(issue)]
            if why_not:
                results.append(self._result(issue, "not considered", why_not))
            elif issue.expect == "crash":
                results.append(self._crash(issue))
            else:
                results.append(self._fail(issue))
        return Settled(tuple(self._gates), tuple(results))

    # conditions

    def _why_not(self, issue: KnownIssue) -> str:
        """Why an entry is not considered; empty where it is."""
        reason = self._seen.not_applicable(issue.variant)
        if reason is not None:
            return f"variant {issue.variant} is not applicable: {reason}"
        launches = self._seen.launches(issue.variant)
        if not launches:
            return f"variant {issue.variant} was not run"
        if any(one.failure and one.failure.kind == "unmet" for one in launches):
            return f"the server does not meet what variant {issue.variant} needs"
        return self._wrong_place(issue) or _wrong_build(issue, launches)

    def _wrong_place(self, issue: KnownIssue) -> str:
        ours = self._record.fingerprint.deployment
        if issue.deployment is not None and issue.deployment != ours:
            return f"it is of deployment '{issue.deployment}'; this is '{ours}'"
        if issue.backend is None:
            return ""
        # one that died early may have named no device; the run's other servers stand in for it
        own = {d for one in self._seen.launches(issue.variant) for d in one.server.devices}
        devices = own or {d for one in self._record.launches for d in one.server.devices}
        names = sorted({backend_of(device) for device in devices})
        if issue.backend.lower() in (name.lower() for name in names):
            return ""
        in_use = ", ".join(names) or "none that is told"
        return f"it is of backend {issue.backend}; in use: {in_use}"

    # crashes

    def _crash(self, issue: KnownIssue) -> IssueResult:
        launches = self._seen.launches(issue.variant)
        failed = [(one, f) for one in launches if (f := _failure(one)) is not None]
        if not failed:
            if self._record.interrupted:
                return self._result(issue, "not considered", "the run was interrupted")
            return self._unexpected_pass(issue, "did not crash", self._variant_gates(issue))
        entries = [i for i in self._considered if i.variant == issue.variant]
        entries = [i for i in entries if i.expect == "crash"]
        unexplained = [f for _, f in failed if not any(_explains(i, f) for i in entries)]
        if unexplained:
            words = f"variant {issue.variant} was to fail with '{issue.signature}', and failed "
            reason = f"{words}otherwise: {unexplained[0].message}"
            return self._result(issue, "other failure", reason)
        if not any(_explains(issue, failure) for _, failure in failed):
            words = f"variant {issue.variant} failed by another known issue"
            return self._result(issue, "not considered", words)
        self._expect_failures(issue)
        return self._result(issue, "xfail", f"failed as expected: {issue.reason}")

    def _expect_failures(self, issue: KnownIssue) -> None:
        """Turn what the crash of a variant leaves unknown into `xfail`, also where another variant
        is compared with it."""
        compared = {
            (spec.metric, spec.line)
            for spec in self._scenario.gates
            if spec.same_as is not None and spec.same_as.variant == issue.variant
        }
        for i, gate in enumerate(self._gates):
            if gate.outcome != "error":
                continue
            own = gate.variant == issue.variant
            reference = (gate.metric, gate.line) in compared
            if own or (reference and self._seen.failure(gate.variant) is None):
                reason = f"known issue {issue.issue}: {issue.reason}"
                self._gates[i] = msgspec.structs.replace(gate, outcome="xfail", reason=reason)

    # failing gates

    def _fail(self, issue: KnownIssue) -> IssueResult:
        if self._seen.failure(issue.variant) is not None:
            words = f"variant {issue.variant} gave no verdict: its server failed"
            return self._result(issue, "not considered", words)
        meant = self._variant_gates(issue)
        failed = [i for i in meant if self._gates[i].outcome == "fail"]
        expected = [i for i in failed if _is_in(issue.signature, self._gates[i].reason)]
        for i in expected:
            gate = self._gates[i]
            reason = f"known issue {issue.issue}: {issue.reason}; {gate.reason}"
            self._gates[i] = msgspec.structs.replace(gate, outcome="xfail", reason=reason)
        if expected:
            return self._result(issue, "xfail", f"failed as expected: {issue.reason}")
        if failed:
            gate = self._gates[failed[0]]
            words = f"variant {issue.variant} was to fail with '{issue.signature}', and failed "
            reason = f"{words}otherwise: {gate.metric}: {gate.reason}"
            return self._result(issue, "other failure", reason)
        if not any(self._gates[i].outcome == "pass" for i in meant):
            words = "none of its gates was decided"
            return self._result(issue, "not considered", words)
        return self._unexpected_pass(issue, "did not fail", meant)

    # both

    def _variant_gates(self, issue: KnownIssue) -> list[int]:
        return [
            i
            for i, gate in enumerate(self._gates)
            if gate.variant == issue.variant and issue.gate in (None, gate.metric)
        ]

    def _unexpected_pass(self, issue: KnownIssue, what: str, meant: Sequence[int]) -> IssueResult:
        place = self._place(issue)
        reason = f"known issue {issue.issue}: variant {issue.variant} was to {issue.expect} and "
        reason += f"{what}; delete the entry at {place}"
        for i in meant:
            gate = self._gates[i]
            if gate.outcome == "pass":
                self._gates[i] = msgspec.structs.replace(
                    gate, outcome="xpass", level="block", reason=reason
                )
        return self._result(issue, "xpass", reason)

    def _place(self, issue: KnownIssue) -> str:
        return f"{self._scenario.path}:{issue.line}"

    def _result(self, issue: KnownIssue, outcome: _Outcome, reason: str) -> IssueResult:
        considered = outcome != "not considered"
        expiry, expired = expiry_of(issue, self._today) if considered else ("", False)
        return IssueResult(
            issue=issue.issue,
            variant=issue.variant,
            expect=issue.expect,
            outcome=outcome,
            reason=reason,
            place=self._place(issue),
            expiry=f"{self._place(issue)}: {expiry}" if expiry else "",
            expired=expired,
        )


def _failure(launch: Launch) -> Failure | None:
    failure = launch.failure
    return None if failure is None or failure.kind == "interrupted" else failure


def _explains(issue: KnownIssue, failure: Failure) -> bool:
    return failure.kind in _DEATHS and shows(issue.signature, failure)


def _wrong_build(issue: KnownIssue, launches: Sequence[Launch]) -> str:
    """Why the builds meant leave these servers out; empty where they do not."""
    for launch in launches:
        told = launch.server.build or "unknown"
        digits = told.rpartition("-")[2] or "unknown"
        wanted = issue.commit
        same = wanted is None or digits.startswith(wanted) or wanted.startswith(digits)
        if not same:
            return f"it is of commit {wanted}; this build is {told}"
    builds = issue.builds
    if builds.first is None and builds.last is None:
        return ""
    first = "" if builds.first is None else f"b{builds.first}"
    last = "" if builds.last is None else f"b{builds.last}"
    for launch in launches:
        number = build_number(launch.server.build)
        if number is None:
            return f"it is of builds {first}..{last}; this server does not tell its build"
        low = builds.first is not None and number < builds.first
        high = builds.last is not None and number > builds.last
        if low or high:
            return f"it is of builds {first}..{last}; this is b{number}"
    return ""
