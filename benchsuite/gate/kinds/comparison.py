"""What comparing gives, and the one interface of every kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from benchsuite.metrics.metric import Better
from benchsuite.model.record import Value
from benchsuite.model.scenario import Regression
from benchsuite.model.verdict import Estimate, State
from benchsuite.store.baselines import Sample
from benchsuite.units import format_number, format_value


class Comparison(msgspec.Struct, frozen=True):
    """How a candidate's values compare with a reference's."""

    state: State
    holds: bool  # whether a gate that asks for this comparison is met
    expected: str  # the reference, as printed
    observed: str  # the candidate, as printed
    sentence: str  # what was found, a clause without a subject: `changed from 1215 to 0`
    estimate: Estimate | None = None  # of noisy values: what the comparison stands on
    advises: bool = False  # whether too few launches stand behind it to block


class Limits(msgspec.Struct, frozen=True):
    """How a candidate's values stand to limits from a scenario."""

    outcome: Literal["pass", "fail", "inconclusive"]
    estimate: Estimate | None = None  # of noisy values
    sentence: str = ""  # why nothing can be said, where that is so


class Kind(Protocol):
    """Compares values of one metric, one a trial."""

    @property
    def advises(self) -> bool:
        """Whether values are noisy, so that a comparison of few of them only advises."""

    def compare(
        self,
        reference: Sequence[Sample],
        candidate: Sequence[Sample],
        *,
        unit: str,
        better: Better,
        tolerance: Regression | None = None,
    ) -> Comparison:
        """Compare a candidate with a reference.

        Args:
            reference: One value a trial, at least one.
            candidate: Likewise.
            unit: The metric's unit, for printing.
            better: The metric's direction.
            tolerance: How much worse is accepted; None accepts nothing. Exact kinds have none.
        """

    def equals(self, samples: Sequence[Sample], wanted: Value) -> bool:
        """Whether the values equal one from a scenario, as far as they can tell."""

    def limits(
        self, samples: Sequence[Sample], low: float | None, high: float | None, unit: str = ""
    ) -> Limits:
        """Whether the values keep limits from a scenario, both inclusive."""

    def show(self, samples: Sequence[Sample], unit: str) -> str:
        """The values as printed."""


def compare_steady(
    reference: Sequence[Sample],
    candidate: Sequence[Sample],
    unit: str,
    equal: Callable[[Sample, Sample], bool],
) -> Comparison:
    """Compare values that do not vary: every trial must equal the one value of the reference.

    Args:
        reference: One value a trial, at least one; where they disagree nothing can be said.
        candidate: Likewise; one that deviates is a change.
        unit: The metric's unit, for printing.
        equal: Whether two values stand for the same.
    """
    expected, observed = show_each(reference, unit), show_each(candidate, unit)
    wanted = reference[0]
    if not all(equal(wanted, sample) for sample in reference):
        sentence = f"the reference's own trials disagree ({expected}), so nothing can be said"
        return Comparison("inconclusive", False, expected, observed, sentence)
    off = [sample for sample in candidate if not equal(wanted, sample)]
    if not off:
        return Comparison("same", True, expected, observed, "equal")
    apart = trials_apart(len(off), len(candidate))
    change = percent(number_of(wanted), number_of(off[0]))
    sentence = f"changed{apart} from {expected} to {show_each(off, unit)}{change}"
    return Comparison("changed", False, expected, observed, sentence)


def held(holds: bool) -> Limits:
    """What limits come to for values that are certain."""
    return Limits("pass" if holds else "fail")


def show_each(samples: Sequence[Sample], unit: str) -> str:
    """Values as printed: one where all agree, else each in the order of the trials."""
    shown = [format_value(s.value) for s in samples]
    if len(set(shown)) == 1:
        return format_value(samples[0].value, unit)
    if len(shown) > 5:
        shown = [*shown[:4], "..."]
    return f"{', '.join(shown)} {unit}".rstrip()


def number_of(sample: Sample) -> float:
    """A sample's value as a number; text counts as not a number and equals nothing."""
    return float("nan") if isinstance(sample.value, str) else float(sample.value)


def trials_apart(differing: int, trials: int) -> str:
    """How many trials differ, in words; empty where there is one trial or all differ."""
    return "" if differing == trials else f" ({differing} of {trials})"


def percent(reference: float, candidate: float) -> str:
    """The relative change in words: ` (-46.9%)`; empty where it means nothing."""
    if not reference or reference != reference or candidate != candidate:
        return ""
    return f" ({(candidate - reference) / abs(reference) * 100:+.1f}%)"


def plural(count: int, noun: str) -> str:
    """A count with its noun: `1 launch`, `3 launches`."""
    ending = "" if count == 1 else "es" if noun.endswith("ch") else "s"
    return f"{format_number(count)} {noun}{ending}"
