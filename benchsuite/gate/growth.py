"""The rule `growth`: a snapshot's value above an earlier one's of the same launch."""

from __future__ import annotations

import msgspec

from benchsuite.gate.kinds.comparison import number_of
from benchsuite.gate.rules import Finding, Subject
from benchsuite.gate.seen import Seen
from benchsuite.gate.words import rule_words
from benchsuite.metrics.select import format_series, parse_selector
from benchsuite.model.scenario import Growth


def against_snapshot(subject: Subject, growth: Growth, seen: Seen) -> list[Finding]:
    """Compare each snapshot selected with the one that `growth` names, launch by launch.

    The differences of the launches are judged as the metric's values would be: of memory their
    median. The reference itself is passed over.
    """
    unit, kind = subject.metric.unit, subject.kind
    before = format_series(subject.selector.name, {"at": growth.since})
    found = seen.select(subject.variant, parse_selector(before))
    findings = []
    for series in subject.series:
        if series.text == before:
            continue
        shown = kind.show(series.samples, unit)
        if not found or len(found[0].samples) != len(series.samples):
            reason = f"there is no {before} of every trial to take off"
            findings.append(Finding("fail", reason, series.text, "", shown, state="missing"))
            continue
        pairs = zip(found[0].samples, series.samples, strict=True)
        changes = tuple(
            msgspec.structs.replace(after, value=number_of(after) - number_of(first))
            for first, after in pairs
        )
        expected, observed = rule_words(subject.spec, unit), kind.show(changes, unit)
        held = kind.limits(changes, growth.min, growth.max, unit)
        if held.outcome == "pass":
            findings.append(
                Finding("pass", expected, series.text, expected, observed, estimate=held.estimate)
            )
            continue
        if held.outcome == "inconclusive":
            reason = f"is {observed} above snapshot {growth.since}, must be {expected}, and "
            reason += f"{held.sentence}; measure more with --trials"
            findings.append(
                Finding(
                    "inconclusive",
                    reason,
                    series.text,
                    expected,
                    observed,
                    estimate=held.estimate,
                )
            )
            continue
        reason = (
            f"is {shown}, {observed} above snapshot {growth.since} "
            f"({kind.show(found[0].samples, unit)}), but must be {expected}; "
            f"see what the steps between take, or change the limit at {subject.place}"
        )
        findings.append(
            Finding("fail", reason, series.text, expected, observed, estimate=held.estimate)
        )
    if not findings:
        return [Finding("inconclusive", f"nothing but snapshot {growth.since} itself was selected")]
    return findings
