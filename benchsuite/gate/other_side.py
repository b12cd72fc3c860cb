"""Two sides of one run: every comparison of the candidate with the baseline, and the verdict.

Pure: all it needs is the scenario and the record, so a verdict can be made anew from saved files.
Stored baselines are not looked at: `baseline` is the other side.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Iterator, Sequence

import msgspec

from benchsuite.errors import ExitCode
from benchsuite.gate.client_health import client_doubt
from benchsuite.gate.compared import OTHER_SIDE, default_gates
from benchsuite.gate.differs import differences
from benchsuite.gate.judge import SEVERITY, bar_of, judge, subject_of
from benchsuite.gate.known_issues import settle
from benchsuite.gate.machine import machine_warnings, with_machine_state
from benchsuite.gate.racing import Racing
from benchsuite.gate.rules import Finding, Subject, against_limits, against_stored
from benchsuite.gate.seen import Seen
from benchsuite.gate.sides import (
    NEVER,
    Answer,
    Question,
    answer,
    is_noisy,
    logs_words,
    pairs_words,
)
from benchsuite.gate.verdict import code_of, conclude, failures_of, verdict
from benchsuite.gate.words import rule_words
from benchsuite.model.ab import (
    BASELINE,
    CANDIDATE,
    SIDES,
    AbRecord,
    Side,
    left_out_words,
    opposite,
)
from benchsuite.model.record import RunRecord
from benchsuite.model.scenario import STORED, GateSpec, KnownIssue, Regression, Scenario
from benchsuite.model.verdict import GateResult, Level, Verdict
from benchsuite.store.baselines import SCOPES, Baselines, ScopeBaseline

_STORED_LABEL = re.compile(rf'\bagainst\s*=\s*"{STORED}"')


class Judged(msgspec.Struct, frozen=True):
    """What two sides come to so far."""

    record: AbRecord  # with the gates of the whole and of each side, what differs, the verdict
    waits_for: int = NEVER  # pairs after which more will be decided; 0: everything is
    settled_by: str = ""  # a metric that fails whatever more pairs say


def judge_sides(
    scenario: Scenario,
    record: AbRecord,
    *,
    platform: str = sys.platform,
    today: dt.date | None = None,
) -> Judged:
    """Judge the candidate against the baseline side, and both by the scenario's own limits.

    Args:
        scenario: Checked; its gates name known metrics.
        record: What was seen; gates and verdict in it are not looked at.
        platform: As in `sys.platform`.
        today: For known issues that expire; None is today.

    Raises:
        ScenarioError: A gate is impossible, in a scenario that was not checked.
    """
    day = today or dt.datetime.now(dt.UTC).date()
    sides = {side: _by_itself(scenario, record.side(side), platform, day) for side in SIDES}
    own = _own_limits(sides[BASELINE], sides[CANDIDATE])
    differs = side_differences(sides[BASELINE], sides[CANDIDATE])
    judging = _Judging(scenario, record, sides, platform)
    compared = list(judging.results())
    gates = (*own, *(result for result, _ in compared))
    judged = msgspec.structs.replace(
        record,
        baseline=sides[BASELINE],
        candidate=sides[CANDIDATE],
        differs=differs,
        gates=gates,
        warnings=tuple(
            dict.fromkeys(
                (
                    *record.warnings,
                    *judging.notes(),
                    *machine_warnings(sides[CANDIDATE].machine_state, gates),
                )
            )
        ),
    )
    judged = msgspec.structs.replace(judged, verdict=side_verdict(judged))
    settled = [g for g in own if g.outcome in ("fail", "error") and g.level == "block"]
    settled += [
        gate
        for gate, one in compared
        if gate.outcome in ("fail", "error") and gate.level == "block" and one.estimate is None
    ]
    return Judged(
        judged,
        max((one.waits_for for _, one in compared), default=NEVER),
        settled[0].metric if settled else "",
    )


def why_end(judged: Judged) -> str:
    """Why no further pair is to be run, in words; empty where one is."""
    record, pairs = judged.record, judged.record.pairs
    if record.rules.pairs is not None:
        if pairs < record.rules.pairs:
            return ""
        return f"{pairs_words(pairs)} {'was' if pairs == 1 else 'were'} asked for"
    if judged.settled_by:
        return f"{judged.settled_by} decides it after {pairs_words(pairs)}; --pairs 10 runs on"
    if judged.waits_for > pairs:
        return ""
    return f"{pairs_words(pairs)} decided everything that pairs decide"


def side_verdict(record: AbRecord) -> Verdict:
    """The worst of all gates and of the launches of both sides, with reasons."""
    found: list[tuple[ExitCode, str]] = []
    if record.interrupted:
        found.append((ExitCode.INTERRUPTED, "the run was interrupted"))
    for side in (CANDIDATE, BASELINE):
        for launch, failure in failures_of(record.side(side)):
            place = f"{side}, variant {launch.variant}, pair {launch.trial}"
            found.append((code_of(failure), f"{place}: {failure.message}"))
    found += _on_one_side(record)
    gone = [i for i in record.candidate.known_issues if i.outcome == "xpass"]
    found += [(ExitCode.GATE_FAILED, issue.reason) for issue in gone]
    told = {issue.reason for issue in gone}
    return conclude(found, record.gates, told, unexpected=len(gone))


def _on_one_side(record: AbRecord) -> Iterator[tuple[ExitCode, str]]:
    """Variants that one side alone could run or kept alive: nothing of them was compared."""
    for side, code in ((CANDIDATE, ExitCode.GATE_FAILED), (BASELINE, ExitCode.INCONCLUSIVE)):
        elsewhere = {(n.variant, n.reason) for n in record.side(opposite(side)).not_applicable}
        for one in record.side(side).not_applicable:
            if (one.variant, left_out_words(opposite(side), one.reason)) in elsewhere:
                yield code, f"variant {one.variant} cannot run on the {side} side: {one.reason}"
    theirs = {_key(gate): gate for gate in record.baseline.gates}
    for gate in record.candidate.gates:
        other = theirs.get(_key(gate))
        if gate.outcome == "xfail" and other is not None and other.outcome in ("pass", "xpass"):
            words = f"variant {gate.variant}: {gate.metric} ({gate.rule}) fails on the candidate "
            words += "side as a known issue expects, and not on the baseline side"
            yield ExitCode.GATE_FAILED, f"{words}; {gate.reason}"
    for side, code in ((CANDIDATE, ExitCode.SERVER_FAILED), (BASELINE, ExitCode.INCONCLUSIVE)):
        launches = record.side(opposite(side)).launches
        healthy = {one.variant for one in launches if one.failure is None}
        for variant in sorted(record.side(side).excused & healthy):
            words = (
                f"variant {variant} failed on the {side} side as a known issue expects, and not "
            )
            yield code, f"{words}on the {opposite(side)} side"


def side_differences(baseline: RunRecord, candidate: RunRecord) -> tuple[str, ...]:
    """What differs between the sides, in words; empty for an A/A run."""
    found = list(differences(baseline.info, candidate.info))
    before, after = baseline.info.server, candidate.info.server
    if before != after and not any(words.startswith("server ") for words in found):
        found.append(f"server {before} -> {after}")
    devices = [
        ", ".join(sorted({d for one in side.launches for d in one.server.devices}))
        for side in (baseline, candidate)
    ]
    if devices[0] and devices[1] and devices[0] != devices[1]:
        found.append(f"devices {devices[0]} -> {devices[1]}")
    return tuple(found)


def _by_itself(scenario: Scenario, side: RunRecord, platform: str, today: dt.date) -> RunRecord:
    """One side with the gates that need no other side, known issues told apart.

    That a known issue no longer shows is no finding where it may be one of a gate against a
    stored baseline, which is not judged here.
    """
    within = tuple(spec for spec in scenario.gates if not _compares(scenario, spec))
    alone = msgspec.structs.replace(scenario, gates=within)
    nothing = Baselines("", scenario.name, {s: ScopeBaseline(s, "none") for s in SCOPES})
    gates = judge(alone, side, nothing, platform=platform)
    settled = settle(scenario, side, gates, today=today)
    issues = tuple(
        msgspec.structs.replace(found, outcome="not considered", reason=_ELSEWHERE, expiry="")
        if found.outcome == "xpass" and _may_show_elsewhere(scenario, issue)
        else found
        for issue, found in zip(scenario.known_issues, settled.issues, strict=True)
    )
    gone = {issue.reason for issue in issues if issue.outcome == "xpass"}
    kept = tuple(
        before if after.outcome == "xpass" and after.reason not in gone else after
        for before, after in zip(gates, settled.gates, strict=True)
    )
    found = msgspec.structs.replace(side, gates=kept, known_issues=issues)
    return msgspec.structs.replace(found, verdict=verdict(found, kept))


_ELSEWHERE = "it may be one of a gate against a stored baseline, which `ab` does not judge"


def _may_show_elsewhere(scenario: Scenario, issue: KnownIssue) -> bool:
    """Whether a known failure may be that of a gate which is compared with the other side here."""
    return issue.expect == "fail" and any(
        _compares(scenario, spec)
        and issue.gate in (None, spec.metric)
        and (spec.variants is None or issue.variant in spec.variants)
        for spec in scenario.gates
    )


def _compares(scenario: Scenario, spec: GateSpec) -> bool:
    """Whether a gate is one against a baseline, which here is the other side."""
    if spec.equals_baseline or spec.regression is not None:
        return True
    return against_stored(subject_of(scenario, spec).selector)


def _own_limits(baseline: RunRecord, candidate: RunRecord) -> list[GateResult]:
    """The candidate's own gates, with a word on the baseline side where one fails."""
    theirs = {_key(gate): gate for gate in baseline.gates}
    results = []
    for gate in candidate.gates:
        other = theirs.get(_key(gate))
        reason = gate.reason
        if other is not None and gate.outcome == "fail":
            verb = "fails it too" if other.outcome == "fail" else "keeps it"
            if other.outcome in ("fail", "pass"):
                reason += f"; the baseline side {verb}: {other.observed}"
        elif other is not None and gate.outcome == "pass" and other.outcome == "fail":
            reason += f"; the baseline side fails it: {other.observed}"
        results.append(msgspec.structs.replace(gate, reason=reason))
    return results


def _key(gate: GateResult) -> tuple[int, str, str, str]:
    """What tells which gate of the scenario a result is of, on either side."""
    return gate.line, gate.metric, gate.rule, gate.variant


class _Judging:
    """The comparisons of one record."""

    def __init__(
        self,
        scenario: Scenario,
        record: AbRecord,
        sides: dict[Side, RunRecord],
        platform: str,
    ) -> None:
        self._scenario = scenario
        self._rules = record.rules
        self._platform = platform
        self._racing = Racing(scenario)
        self._seen = {side: Seen(sides[side]) for side in SIDES}
        self._excused = {side: sides[side].excused for side in SIDES}
        self._infos = {side: sides[side].info for side in SIDES}
        self._raced: dict[str, None] = {}

    def results(self) -> Iterator[tuple[GateResult, Answer]]:
        """The scenario's comparing gates and then everything else that was measured."""
        present = self._seen[BASELINE].variants() | self._seen[CANDIDATE].variants()
        order = [v for v in self._scenario.variants if v in present]
        for variant in order:
            judged: set[str] = set()
            held: set[str] = set()  # metrics of vectors that gates hold limits to
            for spec in self._scenario.gates:
                if not _compares(self._scenario, spec):
                    continue
                if spec.variants is not None and variant not in spec.variants:
                    continue
                question = self._question(_on_other_side(spec), variant)
                bar = self._bar(question)
                if bar is None or bar.outcome != "not applicable":
                    # what a gate leaves out here or there is compared by default all the same
                    judged |= {*question.series(BASELINE), *question.series(CANDIDATE)}
                    limited = _limits(question.subject.spec)
                    held |= {question.subject.metric.name} if limited else set()
                yield self._result(question)
            measured = [one for side in SIDES for one in self._seen[side].all(variant)]
            for spec in default_gates(measured, self._rules):
                question = self._question(spec, variant)
                left_out = frozenset(judged | self._raced_series(question))
                rest = msgspec.structs.replace(question, left_out=left_out)
                if _limits(spec):
                    wanted = question.subject.metric.name not in held
                else:
                    wanted = bool(rest.series(BASELINE) or rest.series(CANDIDATE))
                if wanted:
                    yield self._result(rest)

    def notes(self) -> list[str]:
        """What was not compared, in words."""
        if not self._raced:
            return []
        return [
            (
                f"not compared by default, since requests run at the same time: "
                f"{', '.join(self._raced)} of those requests and of what follows them"
            )
        ]

    def _raced_series(self, question: Question) -> set[str]:
        """Series of exact values that the order of concurrent requests decides."""
        if question.tolerance is not None:
            return set()
        found = {**question.series(BASELINE), **question.series(CANDIDATE)}
        raced = {t for t, one in found.items() if self._racing.leaves_out(one.name, one.labels)}
        if raced:
            self._raced[question.subject.metric.name] = None
        return raced

    def _question(self, spec: GateSpec, variant: str) -> Question:
        subject = subject_of(self._scenario, spec)
        series = tuple(self._seen[CANDIDATE].select(variant, subject.selector))
        subject = msgspec.structs.replace(subject, variant=variant, series=series)
        return Question(
            subject,
            spec.regression or self._tolerance(subject),
            self._seen[BASELINE],
            self._seen[CANDIDATE],
            differences(self._infos[BASELINE], self._infos[CANDIDATE], variant),
            self._rules.pairs,
            self._rules.exact,
        )

    def _tolerance(self, subject: Subject) -> Regression | None:
        """The tolerance of noisy values for which a gate gives none."""
        if subject.metric.assume == "latency":
            return Regression(self._rules.latency_percent)
        if subject.metric.assume == "memory":
            return Regression(self._rules.memory_percent, self._rules.memory_mib)
        return None

    def _result(self, question: Question) -> tuple[GateResult, Answer]:
        bar = self._bar(question)
        if bar is not None:
            answers = [Answer(bar)]
        elif _limits(question.subject.spec):
            answers = _likeness(question)
        else:
            answers = [_doubted(question, one) for one in answer(question)]
        worst = min(answers, key=lambda one: SEVERITY.index(one.finding.outcome))
        waits = max(one.waits_for for one in answers)
        result = self._told(question, worst, answers)
        return result, msgspec.structs.replace(worst, waits_for=waits)

    def _bar(self, question: Question) -> Finding | None:
        """Why a side cannot be judged in this variant at all; None where both can."""
        variant = question.subject.variant
        bars = {s: bar_of(question.subject, self._seen[s], self._platform) for s in SIDES}
        for side in (CANDIDATE, BASELINE):
            if variant in self._excused[side]:
                words = f"the {side} side failed as a known issue of variant {variant} expects"
                return Finding("xfail", words)
        for side in (CANDIDATE, BASELINE):
            found = bars[side]
            if found is None:
                continue
            both = bars[BASELINE] is not None and bars[CANDIDATE] is not None
            same = both and bars[BASELINE] == bars[CANDIDATE]
            reason = found.reason.replace("(trial ", "(pair ")
            if found.outcome == "error":
                metric = question.subject.spec.metric
                reason = reason.removeprefix(f"{metric} is ").removeprefix("unknown: ")
                place = "both sides" if same else f"the {side} side"
                reason = f"{metric} is unknown: on {place} {reason}"
            elif not same:
                reason = f"on the {side} side: {reason}"
            return msgspec.structs.replace(found, reason=reason)
        return None

    def _told(self, question: Question, worst: Answer, answers: Sequence[Answer]) -> GateResult:
        """The gate's result: its worst answer decides, and it says of how many that is one."""
        subject, finding = question.subject, worst.finding
        spec = subject.spec
        alike = [a.finding for a in answers if a.finding.outcome == finding.outcome]
        reason, expected, observed = finding.reason, finding.expected, finding.observed
        if finding.outcome == "pass" and len(alike) > 1:
            expected, observed = (
                _common([f.expected for f in alike]),
                _common([f.observed for f in alike]),
            )
        elif len(answers) > 1 and finding.series:
            count = f"{len(alike)} of {len(answers)}; the first: " if len(alike) > 1 else ""
            reason = f"{count}{finding.series}: {reason}"
        return GateResult(
            metric=spec.metric,
            variant=subject.variant,
            rule=self._rule(spec, subject.metric.unit),
            outcome=finding.outcome,
            level=self._level(subject, finding),
            expected=expected,
            observed=observed,
            reason=reason,
            state=finding.state,
            line=spec.line,
            why=spec.why,
            differs=finding.differs,
            against="other side",
            estimate=worst.estimate,
        )

    def _level(self, subject: Subject, finding: Finding) -> Level:
        """Everything blocks where no gate says otherwise, but what --exact leaves out."""
        if self._rules.exact and is_noisy(subject) and finding.outcome == "inconclusive":
            return "advise"
        return subject.spec.level or "block"

    def _rule(self, spec: GateSpec, unit: str) -> str:
        """The rule in words; of what no gate asks for, the default is said."""
        words = rule_words(spec, unit)
        if spec.line:
            return words
        if _limits(spec):
            return words
        return "equal on both sides" if spec.equals_baseline else f"{words} side"


def _doubted(question: Question, one: Answer) -> Answer:
    """The answer, inconclusive where our own client or the machine's state made it what it is."""
    subject, finding = question.subject, one.finding
    if finding.outcome not in ("pass", "fail") or finding.state == "missing":
        return one
    for side, seen in ((BASELINE, question.baseline), (CANDIDATE, question.candidate)):
        for series in question.series(side).values():
            measured = seen.record.measurements
            doubt = client_doubt(measured, series.name, series.labels, subject.variant)
            if doubt is not None:
                reason = (
                    f"on the {side} side {doubt}; measure again with less beside it (without "
                    f"that: {finding.reason})"
                ).replace(" in trial ", " in pair ")
                doubted = msgspec.structs.replace(
                    finding, outcome="inconclusive", state="inconclusive", reason=reason
                )
                return msgspec.structs.replace(one, finding=doubted)
    found = with_machine_state(finding, subject, question.candidate)
    return msgspec.structs.replace(one, finding=found)


def _on_other_side(spec: GateSpec) -> GateSpec:
    """A gate against stored vectors as one against those of the baseline side."""
    other = _STORED_LABEL.sub(f'against="{OTHER_SIDE}"', spec.metric)
    return msgspec.structs.replace(spec, metric=other)


def _limits(spec: GateSpec) -> bool:
    """Whether a comparing gate holds limits: one on the likeness of vectors."""
    return not spec.equals_baseline and spec.regression is None


def _likeness(question: Question) -> list[Answer]:
    """Limits on how alike the candidate's vectors are to the baseline side's."""
    subject = question.subject
    if subject.series:
        found = against_limits(subject)
        if question.differs:
            found = [msgspec.structs.replace(f, differs=question.differs) for f in found]
        return [Answer(one) for one in found]
    why = question.candidate.unmeasured(subject.variant, subject.selector)
    if question.interrupted:
        words = "the run was interrupted before this was measured; run it again"
        return [Answer(Finding("inconclusive", words, state="inconclusive"))]
    if why is not None and why.outcome == "not_applicable":
        return [Answer(Finding("not applicable", why.reason))]
    reason = "missing: nothing was measured that this selects" if why is None else why.reason
    reason += f"; {logs_words(question, [BASELINE, CANDIDATE])}"
    return [Answer(Finding("fail", reason, state="missing"))]


def _common(shown: Sequence[str]) -> str:
    return shown[0] if len(set(shown)) == 1 else f"{len(shown)} values"
