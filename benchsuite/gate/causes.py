"""What a gate on cached tokens says of its cause: why the prompt was evaluated again."""

from __future__ import annotations

import msgspec

from benchsuite.gate.rules import Finding, Subject
from benchsuite.gate.seen import Seen
from benchsuite.model.record import Reevaluation

_EXPLAINED = ("cached_tokens", "evaluated_tokens")


def with_cause(finding: Finding, subject: Subject, seen: Seen) -> Finding:
    """The finding, its reason followed by the cause where fewer tokens were cached than expected.

    A finding that is no failure, or of a request that nothing was found out about, stays as it is.
    """
    if finding.outcome != "fail" or subject.selector.name not in _EXPLAINED:
        return finding
    series = next((s for s in subject.series if s.text == finding.series), None)
    if series is None or _is_better(finding, subject.selector.name):
        return finding
    cause = reevaluation_of(seen, subject.variant, series.labels)
    if cause is None:
        return finding
    what, stop, remedy = finding.reason.partition("; ")
    return msgspec.structs.replace(finding, reason=f"{what}: {cause.sentence}{stop}{remedy}")


def reevaluation_of(seen: Seen, variant: str, labels: dict[str, str]) -> Reevaluation | None:
    """What was found out about a request, in the first trial that tells."""
    for launch in seen.launches(variant):
        for found in launch.reevaluations:
            if found.labels == labels:
                return found
    return None


def _is_better(finding: Finding, name: str) -> bool:
    """Whether the change is towards more reuse, which no re-evaluation explains."""
    expected, observed = _number(finding.expected), _number(finding.observed)
    if expected is None or observed is None:
        return False
    return observed > expected if name == "cached_tokens" else observed < expected


def _number(shown: str) -> float | None:
    try:
        return float(shown.split()[0].replace(",", ""))
    except (IndexError, ValueError):
        return None  # a bound such as `>= 200`, several values, or nothing
