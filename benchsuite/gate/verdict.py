"""The verdict of a run and its exit code, from gate results and failed launches.

Codes as in `errors.ExitCode`: 5 outranks 4, 4 outranks 1, 1 outranks 3; an interrupted run is 130.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from benchsuite.errors import ExitCode
from benchsuite.model.record import Failure, Launch, RunRecord
from benchsuite.model.verdict import GateResult, IssueResult, Verdict

_Word = Literal["pass", "fail", "inconclusive", "server failed", "machine failed", "interrupted"]

_WORDS: dict[ExitCode, _Word] = {
    ExitCode.PASS: "pass",
    ExitCode.GATE_FAILED: "fail",
    ExitCode.INCONCLUSIVE: "inconclusive",
    ExitCode.SERVER_FAILED: "server failed",
    ExitCode.MACHINE_FAILED: "machine failed",
    ExitCode.INTERRUPTED: "interrupted",
}
# worst first
_RANKS = (
    ExitCode.INTERRUPTED,
    ExitCode.MACHINE_FAILED,
    ExitCode.SERVER_FAILED,
    ExitCode.GATE_FAILED,
    ExitCode.INCONCLUSIVE,
    ExitCode.PASS,
)
ADVICE = "advice"
"""The count of advising gates that do not pass."""

BISECT_GOOD = 0
BISECT_BAD = 1
BISECT_SKIP = 125
BISECT_STOP = 128


def verdict(
    record: RunRecord,
    gates: Sequence[GateResult],
    *,
    require_all: bool = False,
    refuse_expired: bool = False,
) -> Verdict:
    """The worst outcome of all blocking gates and launches, with reasons.

    Args:
        record: For its launches, its known issues and whether it was interrupted.
        gates: As `judge` and then `settle` gave them.
        require_all: Count what is not applicable as a failure.
        refuse_expired: Count a known issue that has expired as a failure, as `ci` does.
    """
    found: list[tuple[ExitCode, str]] = []
    if record.interrupted:
        found.append((ExitCode.INTERRUPTED, "the run was interrupted"))
    found += _launch_reasons(record)
    found += _issue_reasons(record.known_issues, refuse_expired=refuse_expired)
    told = {issue.reason for issue in record.known_issues}
    unexpected = sum(issue.outcome == "xpass" for issue in record.known_issues)
    return conclude(found, gates, told, unexpected=unexpected, require_all=require_all)


def conclude(
    found: Sequence[tuple[ExitCode, str]],
    gates: Sequence[GateResult],
    told: Collection[str] = (),
    *,
    unexpected: int = 0,
    require_all: bool = False,
) -> Verdict:
    """The verdict on gates, and on what went wrong beside them.

    Args:
        found: What went wrong beside the gates: codes and sentences.
        gates: Every result.
        told: Reasons of unexpected passes that `found` has already.
        unexpected: Known issues that no longer show, counted also where no gate shows it.
        require_all: Count what is not applicable as a failure.
    """
    found = list(found)
    launched_well = not any(code in _FAILURES for code, _ in found)
    for gate in gates:
        reason = _gate_reason(gate, require_all=require_all, launched_well=launched_well)
        if reason is not None and not (gate.outcome == "xpass" and gate.reason in told):
            found.append(reason)
    applicable = [g for g in gates if g.outcome != "not applicable"]
    if not applicable and not found:
        found.append((ExitCode.INCONCLUSIVE, _nothing_applied(gates)))
    if not any(g.level == "block" for g in applicable) and not found:
        words = "every gate that applies only advises, so nothing was decided"
        found.append((ExitCode.INCONCLUSIVE, words))
    found.sort(key=lambda part: _RANKS.index(part[0]))
    code = found[0][0] if found else ExitCode.PASS
    return Verdict(
        outcome=_WORDS[code],
        exit_code=int(code),
        reasons=tuple(words for _, words in found),
        counts=_counts(gates, unexpected),
    )


_FAILURES = (ExitCode.SERVER_FAILED, ExitCode.MACHINE_FAILED, ExitCode.INTERRUPTED)


def worst_code(codes: Sequence[int]) -> int:
    """The exit code of several runs: the worst of theirs; a code of no run outranks all."""
    ranks = [int(rank) for rank in _RANKS]
    return min(codes, key=lambda c: ranks.index(c) if c in ranks else -1, default=0)


def outcome_word(code: int) -> str:
    """What an exit code means in one or two words: `server failed`."""
    known = {int(one): word for one, word in _WORDS.items()}
    return known.get(code, "usage error" if code == ExitCode.USAGE else f"exit {code}")


def bisect_code(
    code: int, failures: Sequence[Failure] = (), *, flag_unknown_to_build: bool = False
) -> int:
    """What `git bisect run` is told in place of an exit code.

    Args:
        code: Of the run.
        failures: Of its launches.
        flag_unknown_to_build: Whether it was code 2 since this build lacks a flag.

    Returns:
        0 good; 1 bad: a gate failed, or the server crashed or hung after it was healthy; 125 to
        skip a build that cannot be judged; 128 and above to stop bisecting.
    """
    if code == ExitCode.PASS:
        return BISECT_GOOD
    if code in (ExitCode.GATE_FAILED, ExitCode.INTERRUPTED):
        return code
    if code == ExitCode.SERVER_FAILED:
        bad = any(f.healthy_before and f.kind in ("crash", "hang") for f in failures)
        return BISECT_BAD if bad else BISECT_SKIP
    if code == ExitCode.USAGE:
        return BISECT_SKIP if flag_unknown_to_build else BISECT_STOP
    return BISECT_SKIP


_LAUNCH_CODES = {"machine": ExitCode.MACHINE_FAILED, "unmet": ExitCode.INCONCLUSIVE}


def _launch_reasons(record: RunRecord) -> list[tuple[ExitCode, str]]:
    reasons = []
    for launch, failure in failures_of(record):
        place = f"variant {launch.variant}"
        if record.trials > 1:
            place += f", trial {launch.trial}"
        reasons.append((code_of(failure), f"{place}: {failure.message}"))
    return reasons


def failures_of(record: RunRecord) -> list[tuple[Launch, Failure]]:
    """The launches that failed otherwise than by interruption or as a known issue expects."""
    return [
        (launch, launch.failure)
        for launch in record.launches
        if launch.failure is not None
        and launch.failure.kind != "interrupted"
        and launch.variant not in record.excused
    ]


def code_of(failure: Failure) -> ExitCode:
    """The exit code of a launch that failed."""
    return _LAUNCH_CODES.get(failure.kind, ExitCode.SERVER_FAILED)


def _issue_reasons(
    issues: Sequence[IssueResult], *, refuse_expired: bool
) -> list[tuple[ExitCode, str]]:
    reasons = [(ExitCode.GATE_FAILED, i.reason) for i in issues if i.outcome == "xpass"]
    if refuse_expired:
        reasons += [(ExitCode.GATE_FAILED, i.expiry) for i in issues if i.expired]
    return reasons


def _gate_reason(
    gate: GateResult, *, require_all: bool, launched_well: bool
) -> tuple[ExitCode, str] | None:
    """The code and sentence that one gate adds; None where it adds nothing."""
    words = f"variant {gate.variant}: {gate.metric} ({gate.rule}): {gate.reason}"
    if gate.outcome == "not applicable":
        return (ExitCode.GATE_FAILED, f"{words} (--require-all)") if require_all else None
    if gate.level != "block":
        return None
    if gate.outcome in ("fail", "xpass"):
        return ExitCode.GATE_FAILED, words
    if gate.outcome == "inconclusive":
        return ExitCode.INCONCLUSIVE, words
    if gate.outcome == "error" and launched_well:
        # no failed launch explains it, so it is our own
        return ExitCode.MACHINE_FAILED, words
    return None


def _nothing_applied(gates: Sequence[GateResult]) -> str:
    if not gates:
        return "no gate concerns what ran, so nothing was judged"
    return f"none of {len(gates)} gates applies here: {gates[0].reason}"


def _counts(gates: Sequence[GateResult], unexpected: int) -> dict[str, int]:
    counts: dict[str, int] = {}
    for gate in gates:
        quiet = gate.outcome in ("pass", "not applicable", "xfail")
        key = gate.outcome if quiet or gate.level == "block" else ADVICE
        counts[key] = counts.get(key, 0) + 1
    if unexpected:
        counts["xpass"] = max(unexpected, counts.get("xpass", 0))
    return counts
