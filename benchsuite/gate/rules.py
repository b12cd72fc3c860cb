"""The rules a gate can hold: limits, another place of the same run, a baseline.

Each gives one finding for each series that its selector selects or should have selected.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec

from benchsuite.gate.differs import cause_words, differences
from benchsuite.gate.kinds import KINDS, Comparison, Kind
from benchsuite.gate.kinds.comparison import Limits, held, number_of, plural
from benchsuite.gate.kinds.memory import ADVICE_ONLY, BLOCKING_LAUNCHES, TolerantKind
from benchsuite.gate.seen import Seen, Series, usable
from benchsuite.gate.words import number_words, rule_words
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.metrics.metric import Metric
from benchsuite.metrics.select import Selector, format_series, parse_selector
from benchsuite.model.scenario import STORED, GateSpec
from benchsuite.model.verdict import Estimate, Level, Outcome, State
from benchsuite.stats.numbers import finite
from benchsuite.store.baselines import BaselineFile, Baselines, Sample, file_name, unit_of
from benchsuite.units import format_number

_MORE_TRIALS = 5  # launches from which an interval can be given
_TOLERANT: Kind = TolerantKind()


class Finding(msgspec.Struct, frozen=True):
    """What a rule found for one series."""

    outcome: Outcome
    reason: str
    series: str = ""
    expected: str = ""
    observed: str = ""
    state: State | None = None
    differs: tuple[str, ...] = ()
    level: Level | None = None  # None leaves the gate's own
    estimate: Estimate | None = None  # of noisy values


class Subject(msgspec.Struct, frozen=True):
    """One gate in one variant, with what was selected for it."""

    spec: GateSpec
    selector: Selector
    metric: Metric
    variant: str
    series: tuple[Series, ...]
    place: str  # file:line of the gate

    @property
    def kind(self) -> Kind:
        """How the metric's values compare; tolerances are for noisy values."""
        if self.spec.regression is not None and self.metric.assume in ("exact", "quantised"):
            return _TOLERANT
        return KINDS[self.metric.assume]


def against_limits(subject: Subject) -> list[Finding]:
    """Compare with `equals`, `min` and `max`."""
    spec, kind, unit = subject.spec, subject.kind, subject.metric.unit
    if spec.equals is not None:
        expected = number_words(spec.equals, unit)
    else:
        bounds = ((">=", spec.min), ("<=", spec.max))
        expected = ", ".join(f"{sign} {format_number(n)}" for sign, n in bounds if n is not None)
    mended = "the source" if subject.metric.source == "files" else "the server or its flags"
    findings = []
    for series in subject.series:
        if kind.advises and not all(finite(number_of(s)) for s in series.samples):
            found = Limits(
                "inconclusive", sentence="not every launch gave a value that can be judged"
            )
        elif spec.equals is not None:
            found = held(kind.equals(series.samples, spec.equals))
        else:
            found = kind.limits(series.samples, spec.min, spec.max, unit)
        observed = kind.show(series.samples, unit)
        rule = rule_words(spec, unit)
        state: State | None = None
        reason = rule
        if found.outcome == "fail":
            reason = (
                f"is {observed}, but must be {rule.removeprefix('equals ')}; mend {mended}, or "
                f"change the limit at {subject.place}"
            )
            state = "regressed" if against_stored(subject.selector) else None
        elif found.outcome == "inconclusive":
            reason = (
                f"is {observed}, must be {rule}, and {found.sentence}; measure more with --trials"
            )
        findings.append(
            Finding(
                found.outcome,
                reason,
                series.text,
                expected,
                observed,
                state,
                estimate=_sourced(found.estimate, series),
            )
        )
    return findings


def against_stored(selector: Selector) -> bool:
    """Whether a selector asks for a comparison with stored vectors."""
    return any(
        m.label == "against" and m.operator == "=" and m.value == STORED for m in selector.matchers
    )


def against_run(subject: Subject, seen: Seen) -> list[Finding]:
    """Compare with another variant or session of the same run (`same_as`)."""
    same_as = subject.spec.same_as
    assert same_as is not None
    other_variant = same_as.variant or subject.variant
    if other_variant != subject.variant:
        blocked = _blocked_reference(seen, other_variant)
        if blocked is not None:
            return [blocked]
    words = rule_words(subject.spec, subject.metric.unit)
    findings, counterparts = [], set()
    for series in subject.series:
        labels = dict(series.labels)
        if same_as.label is not None:
            name, value = same_as.label
            labels[name] = value
        text = format_series(series.name, labels)
        if other_variant == subject.variant and text == series.text:
            continue  # the reference itself
        counterparts.add(text)
        found = seen.select(other_variant, parse_selector(text))
        if not found:
            place = words.removeprefix("same as ")
            reason = f"{place} has no {text} to compare with; {_look(subject, seen)}"
            observed = subject.kind.show(series.samples, subject.metric.unit)
            findings.append(
                Finding("fail", reason, series.text, "nothing", observed, state="missing")
            )
            continue
        findings.append(_compare_within(subject, series, found[0], words, other_variant))
    if same_as.label is None:
        for reference in seen.select(other_variant, subject.selector):
            if reference.text not in counterparts:
                expected = subject.kind.show(reference.samples, subject.metric.unit)
                reason = f"variant {other_variant} has it, this one lacks it"
                reason += f"; {_look(subject, seen)}"
                findings.append(
                    Finding("fail", reason, reference.text, expected, "nothing", state="missing")
                )
    if not findings:
        return [Finding("inconclusive", f"nothing but the reference itself is {words}")]
    return findings


def against_baseline(
    subject: Subject, seen: Seen, baselines: Baselines, *, allow_new: bool
) -> list[Finding]:
    """Compare with the stored baseline (`equals: baseline` and `regression`)."""
    scope = subject.metric.scope_of(subject.selector.label_names)
    found = baselines.of(scope)
    record = seen.record
    anew = f"benchsuite accept {record.id} --reason WHY"
    observed = _show_all(subject)
    here = f"{baselines.deployment}/{baselines.scenario}"
    if found.state == "none":
        reason = f"no baseline of {scope} scope for {here}; make this run one: {anew}"
        level: Level | None = None if scope == "config" else "advise"
        return [_undecided(reason, observed, "no baseline", level)]
    if found.file is None:
        reason = f"the baseline was measured under other keys ({'; '.join(found.mismatches)})"
        if file_name(scope, record.fingerprint) is None:
            reason += "; of this server they cannot be known"
        else:
            reason += f"; run with the baseline's, or accept one for these: {anew}"
        return [_undecided(reason, observed, "other keys")]
    file = found.file
    theirs, ours = file.scenario_digest.get(subject.variant), record.digests.get(subject.variant)
    if theirs is None and subject.variant in file.metrics:
        reason = (
            f"{file.where} lacks the scenario's digest of variant {subject.variant}, so nobody "
        )
        reason += f"knows whether they may be compared; restore it, or accept anew: {anew}"
        return [_undecided(reason, observed, "other scenario")]
    if theirs is not None and theirs != ours:
        reason = "what the scenario does, or a file that it sends, was changed since the baseline "
        reason += f"was accepted, so they cannot be compared; accept anew: {anew}"
        return [_undecided(reason, observed, "other scenario")]
    return _against_file(subject, seen, file, allow_new=allow_new)


def _against_file(
    subject: Subject, seen: Seen, file: BaselineFile, *, allow_new: bool
) -> list[Finding]:
    rows = file.metrics.get(subject.variant, {})
    findings = []
    for series in subject.series:
        if series.text in rows:
            stored = usable(series.name, rows[series.text])
            findings.append(_compare_stored(subject, seen, series, stored, file))
        else:
            findings.append(_new_finding(subject, seen, series, file, allow_new=allow_new))
    present = {series.text for series in subject.series}
    for text, samples in rows.items():
        if text not in present and _selects(subject.selector, text):
            findings.append(_lost_finding(subject, seen, text, samples, file))
    return findings


def missing(subject: Subject, seen: Seen, baselines: Baselines) -> list[Finding]:
    """What to say where a selector selects nothing."""
    selector, variant = subject.selector, subject.variant
    why = seen.unmeasured(variant, selector)
    stored = against_stored(selector)
    expected, differs = _stored_words(subject, seen, baselines)
    if why is not None and why.outcome == "not_applicable":
        return [Finding("not applicable", why.reason)]
    if why is not None and why.outcome == "inconclusive":
        mend = (
            f"benchsuite accept {seen.record.id} --reason WHY" if stored else _look(subject, seen)
        )
        reason = f"could not be measured: {why.reason}; {mend}"
        level: Level | None = "advise" if why.advises else None
        return [
            Finding("inconclusive", reason, "", expected, "nothing", "inconclusive", differs, level)
        ]
    if seen.record.interrupted:
        reason = "the run was interrupted before this was measured; run it again"
        return [Finding("inconclusive", reason, "", expected, "nothing", "inconclusive")]
    if why is not None:
        reason = f"missing: {why.reason}; {_look(subject, seen)}"
    else:
        sets = seen.label_sets(variant, selector.name)
        known = f" ({selector.name} was measured with {' or '.join(sets)})" if sets else ""
        reason = f"missing: nothing was measured that this selects{known}; {_look(subject, seen)}"
    return [Finding("fail", reason, "", expected, "nothing", "missing", differs)]


def incomplete(subject: Subject, seen: Seen) -> list[Finding]:
    """Findings for series that some trial lacks; none while a run is cut short."""
    trials = len(seen.launches(subject.variant))
    findings = []
    for series in subject.series:
        lacking = trials - len(series.samples)
        if lacking > 0:
            observed = subject.kind.show(series.samples, subject.metric.unit)
            reason = f"missing in {lacking} of {trials} trials; {_look(subject, seen)}"
            outcome: Outcome = "inconclusive" if seen.record.interrupted else "fail"
            findings.append(Finding(outcome, reason, series.text, "", observed, state="missing"))
    return findings


def _compare_within(
    subject: Subject, series: Series, reference: Series, words: str, other_variant: str
) -> Finding:
    comparison = subject.kind.compare(
        reference.samples,
        series.samples,
        unit=subject.metric.unit,
        better="equal",
        tolerance=None,
    )
    holds = comparison.state == "same"
    if holds:
        return _finding("pass", words, series.text, comparison)
    if comparison.state == "inconclusive":
        return _finding("inconclusive", f"{words}: {comparison.sentence}", series.text, comparison)
    sentence = comparison.sentence.replace("changed", "differs", 1).replace(" from ", ": ", 1)
    reason = f"must be the {words}, but {sentence}"
    if other_variant != subject.variant:
        reason += f"; compare the logs of variants {other_variant} and {subject.variant}"
    else:
        reason += "; look at the two requests in samples.jsonl of the run's folder"
    return _finding("fail", reason, series.text, comparison)


def _compare_stored(
    subject: Subject,
    seen: Seen,
    series: Series,
    reference: Sequence[Sample],
    file: BaselineFile,
) -> Finding:
    comparison = subject.kind.compare(
        reference,
        series.samples,
        unit=subject.metric.unit,
        better=subject.metric.better,
        tolerance=subject.spec.regression,
    )
    estimate = _sourced(comparison.estimate, series)
    comparison = msgspec.structs.replace(comparison, estimate=estimate)
    info = file.info_for(subject.variant, series.text)
    differs = differences(info.seen, seen.record.info, subject.variant)
    # latency of another day, and memory of few launches, block only where the scenario asks for it
    level: Level | None = None
    if comparison.advises and subject.spec.level != "block":
        level = "advise"
    few = few_launches(subject, len(reference), len(series.samples), seen)
    if few and comparison.advises and subject.metric.assume == "memory" and level is None:
        reason = f"{comparison.sentence.replace(ADVICE_ONLY, '')}; not decided: {few}"
        undecided = msgspec.structs.replace(comparison, state="inconclusive", holds=False)
        return _finding("inconclusive", reason, series.text, undecided, differs)
    if comparison.state == "inconclusive":
        remedy = "accept a run whose trials agree"
        if subject.kind.advises:
            again = f"repeat it with --trials {_MORE_TRIALS}"
            remedy = f"{few or again}, or compare both builds with ab"
        reason = f"{comparison.sentence}; {remedy}"
        return _finding("inconclusive", reason, series.text, comparison, differs, level)
    if comparison.holds:
        words = rule_words(subject.spec, subject.metric.unit)
        reason = comparison.sentence if subject.kind.advises else words
        return _finding("pass", reason, series.text, comparison, level=level)
    if comparison.advises:
        remedy = few or f"repeat it with --trials {_MORE_TRIALS} before believing it"
    else:
        remedy = f"if that is meant: {_accept_command(seen, series.text)}"
    reason = f"{comparison.sentence}{cause_words(differs)}; {remedy}"
    return _finding("fail", reason, series.text, comparison, differs, level)


def few_launches(subject: Subject, stored: int, ours: int, seen: Seen) -> str:
    """What to do where a side has too few launches to decide; empty where both have enough."""
    needed = BLOCKING_LAUNCHES if subject.metric.assume == "memory" else _MORE_TRIALS
    if subject.metric.assume not in ("memory", "latency") or min(stored, ours) >= needed:
        return ""
    run = f"benchsuite run {seen.record.scenario} --trials {needed}"
    if stored >= needed:
        return f"repeat it with {needed} launches or more ({run})"
    accept = "benchsuite accept last --reason WHY"
    words = f"the baseline has {plural(stored, 'launch')}; accept a baseline of {needed} or more "
    words += f"launches ({run} with the baseline's server, then {accept})"
    return words if ours >= needed else f"{words}, then run this one with --trials {needed} too"


def _sourced(estimate: Estimate | None, series: Series) -> Estimate | None:
    """The estimate; of medians over a launch's requests it says which those are."""
    if estimate is None or "median of" not in series.source:
        return estimate
    warnings = (*estimate.warnings, f"of each launch {series.source}")
    return msgspec.structs.replace(estimate, warnings=warnings)


def _new_finding(
    subject: Subject, seen: Seen, series: Series, file: BaselineFile, *, allow_new: bool
) -> Finding:
    observed = subject.kind.show(series.samples, subject.metric.unit)
    command = _accept_command(seen, series.text)
    if allow_new:
        reason = f"new, let through by --allow-new; to keep it: {command}"
        return Finding("pass", reason, series.text, "nothing", observed, state="new")
    reason = f"new: the baseline has no such value; accept it ({command}) or pass --allow-new"
    differs = differences(file.info.seen, seen.record.info, subject.variant)
    return Finding("fail", reason, series.text, "nothing", observed, "new", differs)


def _lost_finding(
    subject: Subject, seen: Seen, text: str, samples: Sequence[Sample], file: BaselineFile
) -> Finding:
    info = file.info_for(subject.variant, text)
    differs = differences(info.seen, seen.record.info, subject.variant)
    reason = f"missing: the baseline has {text}, this run does not{cause_words(differs)}; "
    reason += _look(subject, seen)
    expected = subject.kind.show(samples, unit_of(text))
    return Finding("fail", reason, text, expected, "nothing", "missing", differs)


def _blocked_reference(seen: Seen, variant: str) -> Finding | None:
    """Why a variant cannot serve as a reference; None where it can."""
    reason = seen.not_applicable(variant)
    if reason is not None:
        words = f"variant {variant}, which it is compared with, is not applicable: {reason}"
        return Finding("not applicable", words)
    if seen.failure(variant) is not None:
        return Finding("error", f"variant {variant}, which it is compared with, failed; see there")
    if not seen.launches(variant):
        words = f"variant {variant}, which it is compared with, was not run"
        return Finding("inconclusive", f"{words}; run it with --variant {variant}")
    return None


def _stored_words(
    subject: Subject, seen: Seen, baselines: Baselines
) -> tuple[str, tuple[str, ...]]:
    """What the baseline has for a selector that selects nothing in the run, and what differs."""
    if not (subject.spec.equals_baseline or subject.spec.regression):
        return "", ()
    file = baselines.of(subject.metric.scope_of(subject.selector.label_names)).file
    rows = {} if file is None else file.metrics.get(subject.variant, {})
    for text, samples in rows.items():
        if file is not None and _selects(subject.selector, text):
            info = file.info_for(subject.variant, text)
            differs = differences(info.seen, seen.record.info, subject.variant)
            return subject.kind.show(samples, subject.metric.unit), differs
    return "", ()


def _selects(selector: Selector, series: str) -> bool:
    parsed = parse_selector(series)
    return selector.accepts(parsed.name, {m.label: m.value for m in parsed.matchers})


def _undecided(reason: str, observed: str, expected: str, level: Level | None = None) -> Finding:
    return Finding("inconclusive", reason, "", expected, observed, "inconclusive", level=level)


def _finding(
    outcome: Outcome,
    reason: str,
    series: str,
    comparison: Comparison,
    differs: tuple[str, ...] = (),
    level: Level | None = None,
) -> Finding:
    return Finding(
        outcome,
        reason,
        series,
        comparison.expected,
        comparison.observed,
        comparison.state,
        differs,
        level,
        comparison.estimate,
    )


def _show_all(subject: Subject) -> str:
    shown = [subject.kind.show(s.samples, subject.metric.unit) for s in subject.series]
    return shown[0] if len(set(shown)) == 1 else f"{len(shown)} values"


def _accept_command(seen: Seen, series: str) -> str:
    return f"benchsuite accept {seen.record.id} --metric {shlex.quote(series)} --reason WHY"


def _look(subject: Subject, seen: Seen) -> str:
    """Where to look for what was not measured."""
    logs = [launch.log for launch in seen.launches(subject.variant) if launch.log]
    if subject.metric.source == "log" and logs:
        return f"look into {logs[0]} in the run's folder"
    if subject.metric.source == "log":
        return "no log of this server was seen"
    if subject.metric.source == "http":
        return "see whether this build's replies hold it: samples.jsonl in the run's folder"
    if subject.metric.source == "files":
        return "mend the step or the deployment's source folder"
    return "see the run's warnings"


def metric_of(selector: Selector) -> Metric | None:
    """The declared metric that a selector names."""
    return CATALOGUE.get(selector.name)
