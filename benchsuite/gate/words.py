"""Rules of gates in words, for results and for plans."""

from __future__ import annotations

from benchsuite.model.scenario import GateSpec, Regression
from benchsuite.units import format_number


def rule_words(spec: GateSpec, unit: str) -> str:
    """A gate's rule in words: `equals baseline`, `at most 96 MiB`, `same as variant B`."""
    if spec.equals_baseline:
        return "equals baseline"
    if spec.equals_analytic:
        return "equals analytic"
    if spec.same_as is not None:
        parts = [
            f"{noun} {name}"
            for noun, name in (
                ("variant", spec.same_as.variant),
                ("session", spec.same_as.session),
                ("request", spec.same_as.request),
            )
            if name is not None
        ]
        return f"same as {' and '.join(parts)}"
    if spec.regression is not None:
        return f"at most {_tolerance_words(spec.regression, unit)} worse than baseline"
    if spec.equals is not None:
        return f"equals {number_words(spec.equals, unit)}"
    limits = [
        f"at {word} {number_words(limit, unit)}"
        for word, limit in (("least", spec.min), ("most", spec.max))
        if limit is not None
    ]
    return " and ".join(limits)


def _tolerance_words(tolerance: Regression, unit: str) -> str:
    words = f"{format_number(tolerance.worse_than_percent)}%"
    if tolerance.and_by is not None:
        words += f" and {number_words(tolerance.and_by, unit)}"
    return words


def number_words(value: float | str, unit: str) -> str:
    """A number of a scenario with its unit, or a text in quotes."""
    if isinstance(value, str):
        return repr(value)
    return f"{format_number(value)} {unit}".rstrip()
