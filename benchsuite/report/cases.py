"""What a run decided, one case a gate and one a variant's server, for viewers of test results.

Pure; shared by JUnit, GitHub and the job summary, so that all three mean the same by a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from benchsuite.model.ab import AbRecord
from benchsuite.model.record import Launch, RunRecord
from benchsuite.model.suite import SuiteRun
from benchsuite.model.verdict import GateResult
from benchsuite.redact import beginning
from benchsuite.report.layout import safe
from benchsuite.report.load_table import load_warnings
from benchsuite.report.report_input import ReportInput

# fail: what was measured is not what must hold; error: nothing could be decided, or the server or
# machine failed; quiet: it did not pass, and does not count: advice, known issue, not applicable
Weight = Literal["pass", "fail", "error", "quiet"]

_LONGEST_LINE = 2000
"""Characters of one line of text that came from a server, a model or a file."""
_LAST_LINES = 20


def judged_records(given: ReportInput) -> tuple[RunRecord, ...]:
    """The run records of a report as they were judged: of two sides, the candidate against both.

    A launch of the baseline side that failed shows in the verdict, which is that of both.
    """
    return tuple(_judged(entry.record) for entry in given.entries)


def _judged(record: RunRecord | AbRecord) -> RunRecord:
    if isinstance(record, RunRecord):
        return record
    return msgspec.structs.replace(
        record.candidate,
        id=record.id,
        wall_seconds=record.wall_seconds,
        gates=record.gates,
        verdict=record.verdict,
        interrupted=record.interrupted,
    )


def unjudged(record: RunRecord | AbRecord) -> str:
    """Why there is no verdict: of a run that was cut off, what its journal tells of that."""
    notes = record.warnings if isinstance(record, RunRecord) and record.interrupted else ()
    return notes[-1] if notes else "the run was not judged"


class Case(msgspec.Struct, frozen=True):
    """One thing that holds or does not."""

    scenario: str
    deployment: str
    name: str  # unique in its run, and the same from run to run
    weight: Weight
    kind: str  # in words: `regressed`, `known issue`, `not applicable`, `crash`; empty for a pass
    message: str  # one line
    details: tuple[str, ...] = ()  # lines
    gate: GateResult | None = None  # None for a variant's server, or a run that was not made
    line: int = 0  # in the scenario file; 0 where no line is meant


def one_line(text: str, limit: int = _LONGEST_LINE) -> str:
    """Text as one harmless line of at most `limit` characters and a word on what was cut."""
    shown = safe(beginning(text, limit + 1))
    if len(text) <= limit and len(shown) <= 2 * limit:
        return shown
    return f"{shown[:limit]}... ({len(text)} characters)"


def cases_of(record: RunRecord) -> list[Case]:
    """The cases of one run: each variant's server, then the gates in their order."""
    found = [
        *_server_cases(record),
        *(_gate_case(record, gate) for gate in record.gates),
        *_issue_cases(record),
    ]
    if not found or not _explains(found, record):
        found.insert(0, _verdict_case(record))
    return _unique(found)


def unmade_case(run: SuiteRun) -> Case:
    """The case of a run that a suite did not make, or of which there is no record."""
    weight: Weight = "quiet" if run.counted_code == 0 else "error"
    return Case(
        run.scenario,
        run.deployment,
        f"the run on {one_line(run.deployment)}",
        weight,
        run.outcome,
        one_line(run.reason),
        (f"at {one_line(run.place)}",),
    )


def _explains(found: Sequence[Case], record: RunRecord) -> bool:
    """Whether a verdict that is no pass shows in one of the cases."""
    if record.verdict is None:
        return False
    passed = record.verdict.exit_code == 0
    shown = any(case.weight in ("fail", "error") for case in found)
    return passed or shown or record.policy == "advise"


def _verdict_case(record: RunRecord) -> Case:
    verdict = record.verdict
    code = 5 if verdict is None else verdict.exit_code
    weight: Weight = "fail" if code == 1 else "error"
    if record.policy == "advise" and code in (1, 3):
        weight = "quiet"
    reasons = (unjudged(record),) if verdict is None else verdict.reasons
    word = "not judged" if verdict is None else verdict.outcome
    message = one_line(reasons[0] if reasons else word)
    name = f"the run on {one_line(record.fingerprint.deployment)}"
    return _case(record, name, weight, word, message, [one_line(r) for r in reasons])


def _case(
    record: RunRecord,
    name: str,
    weight: Weight,
    kind: str,
    message: str,
    details: Sequence[str] = (),
    gate: GateResult | None = None,
) -> Case:
    deployment = record.fingerprint.deployment
    line = 0 if gate is None else gate.line
    return Case(
        record.scenario, deployment, name, weight, kind, message, tuple(details), gate, line
    )


def _server_cases(record: RunRecord) -> list[Case]:
    cases = []
    deployment = one_line(record.fingerprint.deployment)
    skipped = {absent.variant: absent.reason for absent in record.not_applicable}
    launches: dict[str, list[Launch]] = {}
    for launch in record.launches:
        launches.setdefault(launch.variant, []).append(launch)
    for variant in dict.fromkeys([*launches, *skipped, *record.digests]):
        name = f"{one_line(variant)}: the server held out (on {deployment})"
        warned = [one_line(w) for w in load_warnings(launches.get(variant, ()))]
        failed = [one for one in launches.get(variant, ()) if one.failure is not None]
        if failed:
            cases.append(_failed_case(record, name, failed[0], warned))
        elif variant in skipped:
            kind, message = "not applicable", one_line(skipped[variant])
            weight: Weight = "fail" if _is_required(record, variant) else "quiet"
            cases.append(_case(record, name, weight, kind, message))
        elif len(launches.get(variant, ())) >= (record.trials if record.interrupted else 1):
            cases.append(_case(record, name, "pass", "", "", warned))
        else:
            trial = f"trial {len(launches[variant]) + 1} of " if variant in launches else ""
            words = f"the run ended before {trial}this variant was {'over' if trial else 'started'}"
            cases.append(_case(record, name, "error", "not run", words))
    return cases


def _is_required(record: RunRecord, variant: str) -> bool:
    """Whether what is not applicable in a variant failed the run."""
    reasons = () if record.verdict is None else record.verdict.reasons
    return record.policy == "block" and any(
        reason.startswith(f"variant {variant}: ") and reason.endswith("(--require-all)")
        for reason in reasons
    )


def _failed_case(record: RunRecord, name: str, launch: Launch, warned: Sequence[str] = ()) -> Case:
    failure = launch.failure
    assert failure is not None
    details = [one_line(failure.message)]
    details += [one_line(failure.hint)] if failure.hint else []
    if failure.forensics is not None and failure.forensics.crash:
        details.append(one_line(failure.forensics.crash))
    details += [one_line(line) for line in failure.last_lines[-_LAST_LINES:]]
    details += warned
    if launch.variant in record.excused:
        message = "known issue: the server failed as expected"
        return _case(record, name, "quiet", "known issue", message, details)
    # what an attached server does not meet is inconclusive, which advice does not count
    quiet = failure.kind == "unmet" and record.policy == "advise"
    weight: Weight = "quiet" if quiet else "error"
    return _case(record, name, weight, failure.kind, one_line(failure.message), details)


def _issue_cases(record: RunRecord) -> list[Case]:
    """Known issues that no longer show, or whose expiry failed the run."""
    reasons = () if record.verdict is None else record.verdict.reasons
    cases = []
    for issue in record.known_issues:
        gone = issue.outcome == "xpass" and issue.reason in reasons
        expired = issue.expired and issue.expiry in reasons
        if not gone and not expired:
            continue
        name = f"{one_line(issue.variant)}: known issue {one_line(issue.issue)}"
        name += f" (on {one_line(record.fingerprint.deployment)})"
        weight: Weight = "fail" if record.policy == "block" else "quiet"
        kind, words = ("xpass", issue.reason) if gone else ("expired", issue.expiry)
        if weight == "quiet":
            kind = f"advice, {kind}"
        line = issue.place.rpartition(":")[2]
        case = _case(record, name, weight, kind, one_line(words), [f"at {one_line(issue.place)}"])
        found = int(line) if line.isdecimal() else 0
        cases.append(msgspec.structs.replace(case, line=found))
    return cases


def _gate_case(record: RunRecord, gate: GateResult) -> Case:
    metric, rule, variant = one_line(gate.metric), one_line(gate.rule), one_line(gate.variant)
    name = f"{variant}: {metric} {rule} (on {one_line(record.fingerprint.deployment)})"
    weight, kind = _weigh(record, gate)
    details = [f"expected: {one_line(gate.expected)}"] if gate.expected else []
    details += [f"observed: {one_line(gate.observed)}"] if gate.observed else []
    details += [f"why it matters: {one_line(gate.why)}"] if gate.why else []
    details += [f"differs: {one_line(text)}" for text in gate.differs]
    details += [f"quarantine: {one_line(gate.quarantine)}"] if gate.quarantine else []
    if gate.line:
        details.append(f"at {one_line(record.scenario_path)}:{gate.line}")
    message = "" if weight == "pass" else one_line(gate.reason)
    return _case(record, name, weight, kind, message, details, gate)


def _weigh(record: RunRecord, gate: GateResult) -> tuple[Weight, str]:
    kind = gate.state or gate.outcome
    if gate.outcome == "pass":
        return "pass", ""
    if gate.outcome == "xfail":
        return "quiet", "known issue"
    if gate.outcome == "not applicable":
        reason = f"variant {gate.variant}: {gate.metric} ({gate.rule}): {gate.reason}"
        reasons = () if record.verdict is None else record.verdict.reasons
        required = f"{reason} (--require-all)" in reasons and record.policy == "block"
        return ("fail" if required else "quiet"), "not applicable"
    if gate.outcome == "error" and gate.level == "block":
        return "error", "unknown"
    if gate.quarantine:
        return "quiet", f"quarantined, {kind}"
    if gate.level == "advise" or record.policy == "advise":
        return "quiet", f"advice, {kind}"
    return ("error" if gate.outcome == "inconclusive" else "fail"), kind


def _unique(cases: Sequence[Case]) -> list[Case]:
    """The cases, those of one name told apart by a number."""
    seen: dict[str, int] = {}
    result = []
    for case in cases:
        count = seen[case.name] = seen.get(case.name, 0) + 1
        name = case.name if count == 1 else f"{case.name} #{count}"
        result.append(msgspec.structs.replace(case, name=name))
    return result
