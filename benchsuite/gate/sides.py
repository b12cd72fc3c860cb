"""One metric of one variant on two sides: how the candidate's values compare with the baseline's.

Pure. Which metrics are asked for, and what a run makes of the answers, is `other_side`'s to say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median

import msgspec

from benchsuite.gate.causes import with_cause
from benchsuite.gate.differs import cause_words
from benchsuite.gate.kinds import KINDS, Comparison
from benchsuite.gate.kinds.latency import effective_percent
from benchsuite.gate.kinds.noisy import change_words
from benchsuite.gate.rules import Finding, Subject
from benchsuite.gate.seen import Seen, Series
from benchsuite.model.ab import BASELINE, CANDIDATE, MEMORY_PAIRS, Side
from benchsuite.model.record import Value
from benchsuite.model.scenario import Regression
from benchsuite.model.verdict import Estimate, Outcome, State
from benchsuite.stats.paired import LOOKS, Look, look
from benchsuite.units import format_number, format_value

LookAt = Callable[[Sequence[float], Sequence[float]], Look]
"""Looks at one value a pair of either side."""

NEVER = 0
"""Of an answer that no further pair changes."""


class Answer(msgspec.Struct, frozen=True):
    """What the values of one series, or of one metric, say."""

    finding: Finding
    estimate: Estimate | None = None
    waits_for: int = NEVER  # pairs after which more will be known


class Question(msgspec.Struct, frozen=True):
    """One metric of one variant, and what is allowed of it."""

    subject: Subject  # its series are the candidate's
    tolerance: Regression | None  # None of values that must be equal
    baseline: Seen
    candidate: Seen
    differs: tuple[str, ...]
    pairs: int | None  # as of `AbRules`
    exact: bool = False  # as of `AbRules`
    left_out: frozenset[str] = frozenset()  # series that other gates judge, or nothing can

    @property
    def interrupted(self) -> bool:
        """Whether what is missing may be so because the run was cut short."""
        return self.candidate.record.interrupted

    def series(self, side: Side) -> dict[str, Series]:
        """The series asked for, as one side has them."""
        seen = self.baseline if side == BASELINE else self.candidate
        found = seen.select(self.subject.variant, self.subject.selector)
        return {one.text: one for one in found if one.text not in self.left_out}


def answer(question: Question) -> list[Answer]:
    """Compare the two sides, one answer a series; of latency one for them all."""
    ours, theirs = question.series(CANDIDATE), question.series(BASELINE)
    if not ours and not theirs:
        return [_nothing(question)]
    lacking = [
        found
        for text in dict.fromkeys([*theirs, *ours])
        if (found := _lacking(question, text, theirs.get(text), ours.get(text))) is not None
    ]
    if lacking:
        return lacking
    if question.exact and is_noisy(question.subject):
        return [_not_asked(question, list(theirs.values()), list(ours.values()))]
    if question.subject.metric.assume == "latency":
        return [_latency(question, list(theirs.values()), list(ours.values()))]
    if question.tolerance is not None and question.subject.metric.assume == "memory":
        return [_memory(question, theirs[text], one) for text, one in ours.items()]
    return [_steady(question, theirs[text], one) for text, one in ours.items()]


def is_noisy(subject: Subject) -> bool:
    """Whether values of one pair do not decide: memory and latency."""
    return subject.metric.assume in ("latency", "memory")


def _not_asked(question: Question, theirs: Sequence[Series], ours: Sequence[Series]) -> Answer:
    """What --exact leaves out, with the medians that were seen."""
    unit = question.subject.metric.unit
    shown = _middle(per_launch(theirs), unit), _middle(per_launch(ours), unit)
    words = f"not judged, since --exact was given: {shown[0]} against {shown[1]}; "
    words += f"`{ab_words(question.candidate.record.scenario)}` without --exact judges it"
    text = ours[0].text if len(ours) == 1 else ""
    return Answer(_finding("inconclusive", words, text, *shown, "inconclusive"))


def ab_words(scenario: str) -> str:
    """The command that decides everything, but for the sides, which only its caller knows."""
    return f"benchsuite ab {scenario} ..."


def _nothing(question: Question) -> Answer:
    reason = "neither side measured anything that this selects"
    for seen in (question.candidate, question.baseline):
        why = seen.unmeasured(question.subject.variant, question.subject.selector)
        if why is not None and why.outcome == "not_applicable":
            return Answer(Finding("not applicable", why.reason))
        if why is not None:
            reason += f": {why.reason}"
            break
    if question.interrupted:
        words = "the run was interrupted before this was measured; run it again"
        return Answer(Finding("inconclusive", words, state="inconclusive"))
    return Answer(
        Finding("fail", f"missing: {reason}; see the run's warnings and logs", state="missing")
    )


def _lacking(
    question: Question, text: str, theirs: Series | None, ours: Series | None
) -> Answer | None:
    """What to say of a series that a side lacks, or lacks in some launches; None of a whole one."""
    show, unit = question.subject.kind.show, question.subject.metric.unit
    expected = "nothing" if theirs is None else show(theirs.samples, unit)
    observed = "nothing" if ours is None else show(ours.samples, unit)
    for side, seen, series in (
        (BASELINE, question.baseline, theirs),
        (CANDIDATE, question.candidate, ours),
    ):
        launches = len(seen.launches(question.subject.variant))
        count = 0 if series is None else len(series.samples)
        if count >= launches and count:
            continue
        if question.interrupted:
            if count and count >= launches - 1:
                continue  # the last launch was cut short; what it lacks is left out
            words = f"the run was interrupted before the {side} measured it; run it again"
            return Answer(_finding("inconclusive", words, text, expected, observed))
        reason = f"missing on the {side} side"
        if count:
            reason += f" in {launches - count} of {launches} launches"
        why = seen.unmeasured(question.subject.variant, question.subject.selector)
        if why is not None and why.outcome == "not_applicable":
            words = f"on the {side} side: {why.reason}"
            return Answer(Finding("not applicable", words, text, expected, observed))
        if why is not None:
            reason += f": {why.reason}"
        reason += f"{_cause(question)}; {logs_words(question, [side])}"
        finding = _finding("fail", reason, text, expected, observed, "missing", question.differs)
        return Answer(finding)
    return None


def _steady(question: Question, theirs: Series, ours: Series) -> Answer:
    """Values that must be equal in every launch, or exact ones within a scenario's tolerance."""
    subject = question.subject
    found = subject.kind.compare(
        theirs.samples,
        ours.samples,
        unit=subject.metric.unit,
        better=subject.metric.better,
        tolerance=question.tolerance,
    )
    if found.state == "inconclusive":
        reason = f"{found.sentence}; a value that changes from launch to launch cannot be compared"
        return Answer(_of(found, "inconclusive", reason, ours.text), found.estimate)
    if found.holds:
        words = found.sentence if question.tolerance is not None else "equal"
        return Answer(_of(found, "pass", words, ours.text), found.estimate)
    reason = f"{found.sentence}{_cause(question)}; {logs_words(question, [BASELINE, CANDIDATE])}"
    finding = _of(found, "fail", reason, ours.text, question.differs)
    return Answer(with_cause(finding, subject, question.candidate), found.estimate)


def _memory(question: Question, theirs: Series, ours: Series) -> Answer:
    """Memory by the difference of medians; decided with three launches a side."""
    subject, tolerance = question.subject, question.tolerance
    found = KINDS["memory"].compare(
        theirs.samples,
        ours.samples,
        unit=subject.metric.unit,
        better=subject.metric.better,
        tolerance=tolerance,
    )
    estimate = found.estimate
    count = min(len(theirs.samples), len(ours.samples))
    if count < MEMORY_PAIRS:
        change = change_words(theirs.samples, ours.samples, subject.metric.unit)
        reason = f"not decided: from {change}; memory takes {MEMORY_PAIRS} pairs"
        reason += _short_of(question, MEMORY_PAIRS)
        finding = _of(found, "inconclusive", reason, ours.text)
        return Answer(finding, estimate, _planned(question, MEMORY_PAIRS, count))
    if found.holds:
        return Answer(_of(found, "pass", found.sentence, ours.text), estimate)
    if found.state == "inconclusive":
        reason = f"{found.sentence}; run more with --pairs {3 * count}"
        return Answer(_of(found, "inconclusive", reason, ours.text), estimate)
    reason = f"{found.sentence}{_cause(question)}; {logs_words(question, [BASELINE, CANDIDATE])}"
    return Answer(_of(found, "fail", reason, ours.text, question.differs), estimate)


def _latency(question: Question, theirs: Sequence[Series], ours: Sequence[Series]) -> Answer:
    """Latency by paired launches: each launch counts with the median of its requests."""
    subject = question.subject
    unit = subject.metric.unit
    before, after = per_launch(theirs), per_launch(ours)
    count = min(len(before), len(after))
    before, after = before[:count], after[:count]
    tolerance = effective_percent(question.tolerance, before)
    quantum = max((s.quantum for one in (*theirs, *ours) for s in one.samples), default=0.0)
    found, waits = decide(
        before,
        after,
        question.pairs,
        lambda a, b: look(
            a,
            b,
            tolerance_percent=tolerance,
            better=subject.metric.better,
            quantum=quantum,
        ),
    )
    expected, observed = _middle(before, unit), _middle(after, unit)
    estimate = found.estimate
    words = f"{worse_words(estimate)} in {pairs_words(estimate.candidate_n)}"
    text = ours[0].text if len(ours) == 1 else ""
    if found.decision == "within":
        better = estimate.high is not None and estimate.high < 0
        state: State = "improved" if better else "same"
        return Answer(_finding("pass", words, text, expected, observed, state), estimate)
    allowed = f"the {format_number(tolerance)}% allowed"
    if found.decision == "worse":
        reason = f"{words}, more than {allowed}{_cause(question)}; "
        reason += "if the machine was busy meanwhile, run it again on a quiet one"
        finding = _finding("fail", reason, text, expected, observed, "regressed", question.differs)
        return Answer(finding, estimate)
    reason = _undecided_words(question, estimate, count, waits, words, allowed)
    finding = _finding("inconclusive", reason, text, expected, observed, "inconclusive")
    return Answer(finding, estimate, waits)


def _undecided_words(
    question: Question, estimate: Estimate, count: int, waits: int, words: str, allowed: str
) -> str:
    if count < LOOKS[0]:
        told = f"not decided: {words}; latency takes {LOOKS[0]} pairs"
        return told + _short_of(question, LOOKS[0])
    if waits:
        return f"not decided: {words} leaves open whether it keeps {allowed}; more pairs tell"
    told = "".join(f"; {warning}" for warning in estimate.warnings)
    more = max(3 * count, LOOKS[-1] + 1)
    return (
        f"cannot be told: {words} leaves open whether it keeps {allowed}{told}; measure on a "
        f"quieter machine, or with --pairs {more}"
    )


def _short_of(question: Question, needed: int) -> str:
    """What to do where fewer pairs were asked for than it takes; empty where more will come."""
    if question.pairs is None or question.pairs >= needed:
        return ""
    command = ab_words(question.candidate.record.scenario)
    return f": leave --pairs out (`{command}`), or ask for exact values only with --exact"


def decide(
    before: Sequence[float],
    after: Sequence[float],
    planned: int | None,
    look_at: LookAt,
) -> tuple[Look, int]:
    """The first look that decides, else the last one, and after how many pairs the next comes.

    Only these counts decide, whatever number was reached: an interrupted run has the looks that
    lie behind it, and a decided one is not looked at again.

    Args:
        before: One value a pair, of the baseline.
        after: Likewise of the candidate.
        planned: Pairs asked for; None is up to the last fixed look. More than that are looked at
            once, when they are complete.
        look_at: Looks at so many pairs.

    Returns:
        The look, and the count of the next one, 0 where there is none.
    """
    count = len(before)
    if planned is not None and planned > LOOKS[-1]:
        looks: tuple[int, ...] = (planned,)
    else:
        looks = tuple(n for n in LOOKS if planned is None or n <= planned)
    last: Look | None = None
    for at in looks:
        if count < at:
            break
        last = look_at(before[:at], after[:at])
        if last.decision != "undecided":
            return last, NEVER
    upcoming = next((at for at in looks if at > count), NEVER)
    if last is None or count not in looks:
        shown = look_at(before, after)
        last = msgspec.structs.replace(shown, decision="undecided")
    return last, upcoming


def per_launch(series: Sequence[Series]) -> list[float]:
    """One value a launch: the median over the series, in the order of the launches.

    Of series that not every launch has, the launches that all have count.
    """
    launches = min((len(one.samples) for one in series), default=0)
    return [
        median(number for one in series if (number := _number(one.samples[at].value)) is not None)
        if any(_number(one.samples[at].value) is not None for one in series)
        else math.nan
        for at in range(launches)
    ]


def pairs_words(count: int) -> str:
    """A number of pairs: `1 pair`, `5 pairs`."""
    return f"{count} pair{'' if count == 1 else 's'}"


def worse_words(estimate: Estimate) -> str:
    """An estimate in words: `4.1% worse (1.2% to 7%)`, `0.3% better (-2.1% to 1.5%)`."""
    if estimate.value is None:
        return "no estimate"
    size = f"{format_number(abs(estimate.value), 1)}{_unit(estimate.unit)}"
    words = "no change" if not estimate.value else size
    if estimate.value:
        words += " worse" if estimate.value > 0 else " better"
    if estimate.low is None or estimate.high is None:
        return words
    low, high = format_number(estimate.low, 1), format_number(estimate.high, 1)
    return f"{words} ({low}{_unit(estimate.unit)} to {high}{_unit(estimate.unit)})"


def logs_words(question: Question, sides: Sequence[Side]) -> str:
    """Where to look: the logs of the first launch that has one, by side."""
    places = []
    for side in sides:
        seen = question.baseline if side == BASELINE else question.candidate
        logs = [one.log for one in seen.launches(question.subject.variant) if one.log]
        places += [f"{side}/{log}" for log in logs[:1]]
    if not places:
        return "see the run's folder"
    verb = "look into" if len(places) == 1 else "compare"
    return f"{verb} {' and '.join(places)} in the run's folder"


def _planned(question: Question, needed: int, count: int) -> int:
    if question.pairs is not None and question.pairs < needed:
        return NEVER
    return needed if count < needed else NEVER


def _cause(question: Question) -> str:
    if question.differs:
        return cause_words(question.differs)
    return ", though build, model, flags and environment are the same on both sides"


def _number(value: Value) -> float | None:
    return None if isinstance(value, str) else float(value)


def _middle(values: Sequence[float], unit: str) -> str:
    finite = [value for value in values if math.isfinite(value)]
    return format_value(median(finite), unit) if finite else "no number"


def _unit(unit: str) -> str:
    return unit if unit == "%" else f" {unit}"


def _of(
    found: Comparison,
    outcome: Outcome,
    reason: str,
    series: str,
    differs: tuple[str, ...] = (),
) -> Finding:
    shown = found.expected, found.observed
    return _finding(outcome, reason, series, *shown, found.state, differs)


def _finding(
    outcome: Outcome,
    reason: str,
    series: str,
    expected: str,
    observed: str,
    state: State | None = None,
    differs: tuple[str, ...] = (),
) -> Finding:
    return Finding(outcome, reason, series, expected, observed, state, differs)
