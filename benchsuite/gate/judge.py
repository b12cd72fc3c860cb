"""Every gate of a scenario over a run's record: what applies, what holds, and why not.

Pure: all it needs is the scenario, the record and the baselines, so a verdict can be made anew
from saved files.
"""

from __future__ import annotations

import sys

import msgspec

from benchsuite.errors import ScenarioError
from benchsuite.gate.analytic import against_analytic, unjudgeable, without_memory
from benchsuite.gate.causes import with_cause
from benchsuite.gate.client_health import with_client_health
from benchsuite.gate.growth import against_snapshot
from benchsuite.gate.machine import with_machine_state
from benchsuite.gate.rules import (
    Finding,
    Subject,
    against_baseline,
    against_limits,
    against_run,
    against_stored,
    incomplete,
    metric_of,
    missing,
)
from benchsuite.gate.seen import Seen
from benchsuite.gate.words import rule_words
from benchsuite.metrics.select import Selector, parse_selector
from benchsuite.model.record import Failure, Launch, RunRecord
from benchsuite.model.scenario import GateSpec, Scenario
from benchsuite.model.verdict import Against, Estimate, GateResult, Level, Outcome
from benchsuite.patterns import SlowExpressionError
from benchsuite.store.baselines import Baselines

SEVERITY: tuple[Outcome, ...] = (
    "error",
    "fail",
    "xpass",
    "inconclusive",
    "xfail",
    "pass",
    "not applicable",
)
"""Worst first: of several series, the worst is the gate's outcome."""

_FAILED: dict[str, str] = {
    "start": "the server did not start",
    "crash": "the server crashed",
    "hang": "the server hung",
    "lied": "the server contradicted itself",
    "connection": "the connection to the server was lost",
    "refused": "the server refused a request",
    "machine": "the machine failed",
}


def judge(
    scenario: Scenario,
    record: RunRecord,
    baselines: Baselines,
    *,
    allow_new: bool = False,
    platform: str = sys.platform,
) -> tuple[GateResult, ...]:
    """Judge every gate in every variant that it applies to.

    Args:
        scenario: Checked; its gates name known metrics.
        record: What was seen; its own `gates` are not looked at.
        baselines: What stored-baseline gates compare with.
        allow_new: Let values through that an existing baseline file lacks.
        platform: As in `sys.platform`, for gates that need Linux.

    Returns:
        Results in the order of the scenario's gates and, within one, of its variants.

    Raises:
        ScenarioError: A gate is impossible, in a scenario that was not checked.
    """
    seen = Seen(record)
    present = seen.variants()
    order = [v for v in scenario.variants if v in present]
    order += sorted(present.difference(order))
    results = []
    for spec in scenario.gates:
        subject = subject_of(scenario, spec)
        for variant in order:
            if spec.variants is not None and variant not in spec.variants:
                continue
            if spec.same_as is not None and spec.same_as.variant == variant:
                continue  # its own reference
            own = msgspec.structs.replace(subject, variant=variant)
            try:
                if _is_own_reference(subject.selector, variant, seen):
                    continue
                chosen = tuple(seen.select(variant, subject.selector))
                own = msgspec.structs.replace(own, series=chosen)
                findings = _findings(own, seen, baselines, allow_new=allow_new, platform=platform)
                if record.interrupted:
                    findings = [_unreached(finding) for finding in findings]
                findings = [_explained(f, own, seen) for f in findings]
            except SlowExpressionError as error:
                reason = f"{error.message}; {error.hint}"
                findings = [Finding("inconclusive", reason, state="inconclusive")]
            results.append(_result(own, findings))
    return tuple(results)


def _unreached(finding: Finding) -> Finding:
    """What an interrupted run lacks, it may only not have come to."""
    if finding.outcome != "fail" or finding.state != "missing":
        return finding
    reason = "the run was interrupted before this was measured; run it again"
    return msgspec.structs.replace(
        finding, outcome="inconclusive", reason=reason, state="inconclusive"
    )


def _explained(finding: Finding, subject: Subject, seen: Seen) -> Finding:
    """A finding with its cause, and with what makes it doubtful."""
    doubted = with_machine_state(with_client_health(finding, subject, seen), subject, seen)
    return with_cause(doubted, subject, seen)


def _is_own_reference(selector: Selector, variant: str, seen: Seen) -> bool:
    """Whether a gate asks a variant for a comparison of vectors with itself that is not made."""
    itself = any(
        m.label == "against" and m.operator == "=" and m.value == variant for m in selector.matchers
    )
    return (
        itself and not seen.select(variant, selector) and seen.unmeasured(variant, selector) is None
    )


def subject_of(scenario: Scenario, spec: GateSpec) -> Subject:
    """A gate with its selector and metric; of no variant yet.

    Raises:
        ScenarioError: The gate is impossible.
    """
    place = f"{scenario.path}:{spec.line}"
    try:
        selector = parse_selector(spec.metric)
    except ValueError as error:
        raise ScenarioError([f"{place}: {error}"]) from error
    metric = metric_of(selector)
    if metric is None:
        raise ScenarioError([f"{place}: unknown metric '{selector.name}'"])
    if spec.equals_analytic and (not metric.analytic or selector.label_names):
        raise ScenarioError([f"{place}: '{spec.metric}' cannot be told from the model file"])
    if metric.assume == "text" and (
        spec.regression or spec.min is not None or spec.max is not None
    ):
        raise ScenarioError(
            [f"{place}: '{selector.name}' is text and has neither limits nor worse"]
        )
    return Subject(spec, selector, metric, "", (), place)


def _findings(
    subject: Subject, seen: Seen, baselines: Baselines, *, allow_new: bool, platform: str
) -> list[Finding]:
    bar = bar_of(subject, seen, platform)
    if bar is not None:
        return [bar]
    if subject.spec.equals_analytic:
        bar = unjudgeable(subject, seen)
        if bar is not None:
            return [bar]
    if not subject.series:
        none = without_memory(subject, seen)
        found = missing(subject, seen, baselines)
        return found if none is None or found[0].expected else [none]
    findings = incomplete(subject, seen)
    if findings:
        return findings
    if subject.spec.equals_analytic:
        return against_analytic(subject, seen)
    if subject.spec.same_as is not None:
        return against_run(subject, seen)
    if subject.spec.growth is not None:
        return against_snapshot(subject, subject.spec.growth, seen)
    if subject.spec.equals_baseline or subject.spec.regression is not None:
        return against_baseline(subject, seen, baselines, allow_new=allow_new)
    return against_limits(subject)


def bar_of(subject: Subject, seen: Seen, platform: str) -> Finding | None:
    """Why a gate cannot be judged in this variant at all; None where it can."""
    variant, spec = subject.variant, subject.spec
    reason = seen.not_applicable(variant)
    if reason is not None:
        return Finding("not applicable", f"variant {variant} does not apply here: {reason}")
    attached = seen.attached(variant)
    if spec.needs == "launched" and attached:
        return Finding("not applicable", "needs a server that benchsuite launched itself")
    if spec.needs == "linux" and not platform.startswith("linux"):
        return Finding("not applicable", f"needs Linux; this is {platform}")
    condition = seen.condition(variant, spec.when)
    if condition.holds is False:
        return Finding("not applicable", condition.reason)
    failed = seen.failure(variant)
    if failed is not None and failed[1].kind == "unmet":
        return Finding("inconclusive", failed[1].message)
    if failed is not None:
        return _error(subject, *failed)
    if not seen.launches(variant):
        if seen.record.interrupted:
            words = f"the run was interrupted before variant {variant}; run it again"
            return Finding("inconclusive", words)
        return Finding("error", f"{spec.metric} is unknown: variant {variant} was not started")
    if condition.holds is None:
        if attached:
            return Finding("not applicable", f"{condition.reason} on an attached server")
        return Finding("inconclusive", f"{condition.reason}, so it is unknown whether this applies")
    return None


def _error(subject: Subject, launch: Launch, failure: Failure) -> Finding:
    at = f" in {failure.step}" if failure.step and failure.kind != "start" else ""
    trial = f" (trial {launch.trial})" if launch.trial > 1 else ""
    what = _FAILED.get(failure.kind, failure.kind)
    return Finding("error", f"{subject.spec.metric} is unknown: {what}{at}{trial}")


def _result(subject: Subject, findings: list[Finding]) -> GateResult:
    """One result of a gate's findings: the worst decides, and says of how many it is one."""
    spec = subject.spec
    worst = min(findings, key=lambda f: SEVERITY.index(f.outcome))
    alike = [f for f in findings if f.outcome == worst.outcome]
    reason, observed, expected = worst.reason, worst.observed, worst.expected
    if worst.outcome == "pass" and len(alike) > 1:
        expected = _common([f.expected for f in alike])
        observed = _common([f.observed for f in alike])
    elif len(findings) > 1:
        count = f"{len(alike)} of {len(findings)}; the first: " if len(alike) > 1 else ""
        reason = f"{count}{worst.series}: {reason}"
    against = _against(spec, subject.selector)
    return GateResult(
        metric=spec.metric,
        variant=subject.variant,
        rule=rule_words(spec, subject.metric.unit),
        outcome=worst.outcome,
        level=_level(subject, against, worst),
        expected=expected,
        observed=observed,
        reason=reason,
        state=worst.state,
        line=spec.line,
        why=spec.why,
        differs=worst.differs,
        against=against,
        estimate=_estimate(alike),
    )


def _estimate(findings: list[Finding]) -> Estimate | None:
    """What the findings that decided stand on: of several, the one that is worst off."""
    found = [f for f in findings if f.estimate is not None]
    if not found:
        return None
    worst = max(found, key=lambda f: _badness(f.estimate))
    if worst.estimate is None or len(findings) == 1:
        return worst.estimate
    words = f"the worst of {len(findings)} series, {worst.series}"
    return msgspec.structs.replace(worst.estimate, warnings=(words, *worst.estimate.warnings))


def _badness(estimate: Estimate | None) -> float:
    if estimate is None or estimate.value is None:
        return float("-inf")
    return estimate.value if estimate.high is None else estimate.high


def _common(shown: list[str]) -> str:
    return shown[0] if len(set(shown)) == 1 else f"{len(shown)} values"


def _against(spec: GateSpec, selector: Selector) -> Against:
    if against_stored(selector):
        return "baseline"
    if spec.equals_baseline or spec.regression is not None:
        return "baseline"
    if spec.equals_analytic:
        return "analytic"
    return "run" if spec.same_as is not None else "number"


def _level(subject: Subject, against: Against, worst: Finding) -> Level:
    """Whether the gate blocks; latency that is compared with a baseline does where asked to."""
    if worst.level is not None:
        return worst.level
    if against != "number" and subject.metric.assume == "latency":
        return subject.spec.level or "advise"
    return subject.spec.level or "block"
