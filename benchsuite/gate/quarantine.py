"""Keeping a flaky exact gate from blocking, by name, with an issue and an expiry.

Only a gate that failed or was not decided is touched, and only the one that is named: a crash, a
missing launch and every other gate count as ever.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchsuite.gate.rules import metric_of
from benchsuite.gate.words import rule_words
from benchsuite.metrics.select import parse_selector
from benchsuite.model.scenario import Scenario
from benchsuite.model.suite import Quarantine
from benchsuite.model.verdict import GateResult
from benchsuite.scenario.words import remedy

_EXACT = ("exact", "quantised", "text")


def with_quarantine(
    gates: Sequence[GateResult], entries: Sequence[Quarantine]
) -> tuple[GateResult, ...]:
    """The gates, with those that an entry names marked, and advising where they do not pass.

    Args:
        gates: Settled results of one run.
        entries: Those for the run's scenario and deployment; none has expired.
    """
    return tuple(_marked(gate, entries) for gate in gates)


def _marked(gate: GateResult, entries: Sequence[Quarantine]) -> GateResult:
    entry = next((e for e in entries if _names(e, gate)), None)
    if entry is None:
        return gate
    words = f"{entry.issue}, until {entry.expires}: {entry.reason} ({entry.place})"
    if gate.outcome not in ("fail", "inconclusive"):
        return msgspec.structs.replace(gate, quarantine=words)
    reason = f"quarantined ({entry.issue}, until {entry.expires}): {gate.reason}"
    return msgspec.structs.replace(gate, level="advise", reason=reason, quarantine=words)


def _names(entry: Quarantine, gate: GateResult) -> bool:
    rule = entry.rule is None or entry.rule == gate.rule
    return entry.variant == gate.variant and entry.gate == gate.metric and rule


def quarantine_problem(entry: Quarantine, scenario: Scenario) -> str | None:
    """Why an entry cannot be kept for this scenario, as a sentence; None where it can."""
    if entry.variant not in scenario.variants:
        hint = remedy(entry.variant, scenario.variants, "variants")
        return f"{scenario.name} has no variant '{entry.variant}'{hint}"
    meant = [gate for gate in scenario.gates if gate.metric == entry.gate]
    if not meant:
        hint = remedy(entry.gate, dict.fromkeys(gate.metric for gate in scenario.gates), "gates")
        return f"{scenario.name} has no gate with the selector '{entry.gate}'{hint}"
    metric = metric_of(parse_selector(entry.gate))
    if metric is None or metric.assume not in _EXACT:
        return (
            f"'{entry.gate}' is not exact, and noise is no reason for quarantine; give the gate "
            "'level: advise' or more trials"
        )
    own = [g for g in meant if g.variants is None or entry.variant in g.variants]
    rules = [rule_words(gate, metric.unit) for gate in own]
    if not own:
        return f"the gate '{entry.gate}' is not judged in variant '{entry.variant}'"
    if entry.rule is not None:
        if rules.count(entry.rule) == 1:
            return None
        hint = remedy(entry.rule, dict.fromkeys(rules), "rules")
        return f"no gate '{entry.gate}' has the rule '{entry.rule}'{hint}"
    if len(own) > 1:
        words = " or ".join(f"'{rule}'" for rule in dict.fromkeys(rules))
        return f"{len(own)} gates have the selector '{entry.gate}'; name one with 'rule': {words}"
    return None
