"""What comparisons of noisy values stand on: estimate, interval, launches, warnings; as text."""

from __future__ import annotations

from collections.abc import Sequence

from benchsuite.model.verdict import Estimate, GateResult
from benchsuite.report.layout import Style, safe, wrap
from benchsuite.stats.paired import METHOD as PAIRED
from benchsuite.units import format_number

_DECIMALS = 2


def estimate_words(estimate: Estimate, *, limit: bool) -> str:
    """One estimate: `+20.1% (95%: 18.2 to 22.1%), 5 launches a side, Welch's t`.

    The method is that of the interval, and its warnings follow.

    Args:
        estimate: As in a gate's result.
        limit: Whether it is a value held against a limit, and no difference from a baseline.
    """
    unit = estimate.unit if estimate.unit in ("", "%") else f" {estimate.unit}"
    if estimate.value is None:
        shown = "no value"
    elif limit:
        shown = f"{_short(estimate.value)}{unit}"
    else:
        shown = f"{'+' if estimate.value >= 0 else ''}{_short(estimate.value)}{unit}"
    how = ""
    if estimate.low is not None and estimate.high is not None:
        how = f", {estimate.method}"
        span = f"{_short(estimate.low)} to {_short(estimate.high)}{unit}"
        shown += f" ({estimate.confidence:.0%}: {span})"
    return "; ".join([f"{shown}, {_counts(estimate, limit=limit)}{how}", *estimate.warnings])


def estimate_lines(gates: Sequence[GateResult], style: Style) -> list[str]:
    """A block with a line for each gate that judged noisy values.

    Variants that came out alike share their lines; above 0 is worse, whatever the direction.
    """
    found: dict[tuple[str, int, Estimate], list[str]] = {}
    limits: set[tuple[str, int]] = set()
    for gate in gates:
        if gate.estimate is None or gate.outcome == "not applicable":
            continue
        found.setdefault((gate.metric, gate.line, gate.estimate), []).append(gate.variant)
        if gate.against == "number":
            limits.add((gate.metric, gate.line))
    if not found:
        return []
    lines = [style.paint("noisy values (of differences, above 0 is worse):", "dim")]
    for (metric, line, estimate), variants in found.items():
        words = estimate_words(estimate, limit=(metric, line) in limits)
        head = f"{','.join(variants)} {metric}: {words}"
        first, *rest = wrap(safe(head), style.width - 4)
        lines += [f"  {first}", *(f"    {line}" for line in rest)]
    return lines


def _counts(estimate: Estimate, *, limit: bool) -> str:
    left, right = estimate.baseline_n, estimate.candidate_n
    if limit or left == 0:
        return f"{right} launch{'' if right == 1 else 'es'}"
    if estimate.method == PAIRED:
        return f"{right} pair{'' if right == 1 else 's'}"
    if left == right:
        return f"{right} launch{'' if right == 1 else 'es'} a side"
    return f"{right} launch{'' if right == 1 else 'es'} against {left}"


def _short(value: float) -> str:
    """Two decimals, or three digits of what is below 1: a slope may be small and certain."""
    return f"{value:.3g}" if abs(value) < 1 else format_number(value, _DECIMALS)
