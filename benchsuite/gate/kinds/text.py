"""Text: equal byte for byte; of a difference, where it begins and both sides around it."""

from __future__ import annotations

from collections.abc import Sequence

from benchsuite.gate.kinds.comparison import Comparison, Limits, held, trials_apart
from benchsuite.metrics.metric import Better
from benchsuite.model.record import Value
from benchsuite.model.scenario import Regression
from benchsuite.store.baselines import Sample

_BEFORE = 12  # characters shown before the first difference
_AFTER = 20  # and from it on
_SHORT = 24


def first_difference(a: str, b: str) -> int:
    """The index of the first differing character; where one text ends if it begins the other."""
    shorter = min(len(a), len(b))
    return next((i for i in range(shorter) if a[i] != b[i]), shorter)


def around(text: str, index: int) -> str:
    """The text around an index, quoted, with dots where it goes on."""
    start = max(0, index - _BEFORE)
    end = index + _AFTER
    cut = text[start:end]
    return f"{'...' if start else ''}{cut!r}{'...' if end < len(text) else ''}"


class TextKind:
    """Greedy output: `text`."""

    advises = False

    def compare(
        self,
        reference: Sequence[Sample],
        candidate: Sequence[Sample],
        *,
        unit: str,
        better: Better,
        tolerance: Regression | None = None,
    ) -> Comparison:
        """Every trial must be the text on which the reference's trials agree."""
        expected, observed = self.show(reference, unit), self.show(candidate, unit)
        wanted = str(reference[0].value)
        if any(s.value != wanted for s in reference):
            sentence = "the reference's own trials gave different texts, so nothing can be said"
            return Comparison("inconclusive", False, expected, observed, sentence)
        off = [str(s.value) for s in candidate if s.value != wanted]
        if not off:
            return Comparison("same", True, expected, observed, "equal")
        index = first_difference(wanted, off[0])
        expected, observed = around(wanted, index), around(off[0], index)
        sentence = (
            f"changed{trials_apart(len(off), len(candidate))} at character {index + 1}: "
            f"{observed} instead of {expected}"
        )
        return Comparison("changed", False, expected, observed, sentence)

    def equals(self, samples: Sequence[Sample], wanted: Value) -> bool:
        """Every trial is this text."""
        return all(s.value == wanted for s in samples)

    def limits(
        self, samples: Sequence[Sample], low: float | None, high: float | None, unit: str = ""
    ) -> Limits:
        """Text keeps no limits."""
        return held(low is None and high is None)

    def show(self, samples: Sequence[Sample], unit: str) -> str:
        """The beginning of the first trial's text, quoted."""
        text = str(samples[0].value)
        return repr(text) if len(text) <= _SHORT else f"{text[: _SHORT - 3]!r}..."
