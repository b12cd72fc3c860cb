"""What memory and latency say on a machine that was not fit to measure them.

Trouble of the machine makes servers slower, never faster: a gate that fails then is inconclusive,
one that holds stays a pass. Swapping moves resident memory both ways. Nothing red turns green.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from benchsuite.gate.rules import Finding, Subject
from benchsuite.gate.seen import Seen
from benchsuite.metrics.catalogue import CATALOGUE, CLIENT_HEALTH, SLOPES
from benchsuite.metrics.metric import Metric
from benchsuite.metrics.select import parse_selector
from benchsuite.model.machine import MachineFinding, MachineState, Struck
from benchsuite.model.scenario import GateSpec
from benchsuite.model.verdict import GateResult

_SWAP_PROOF = frozenset({"anon_mib", "gpu_mib"}) | SLOPES
"""`anon_mib`, and its growth, count what was swapped out; a GPU's memory is never."""


def with_machine_state(finding: Finding, subject: Subject, seen: Seen) -> Finding:
    """The finding, inconclusive where the machine's state may have made it what it is."""
    if finding.outcome not in ("pass", "fail") or finding.state in ("missing", "new"):
        return finding
    metric = subject.metric
    held = finding.outcome == "pass" and metric.assume == "latency"
    if held and _one_sided(subject.spec, metric):
        return finding
    doubt = machine_doubt(seen.record.machine_state, metric)
    if doubt is None:
        return finding
    reason = f"{doubt.sentence}; {doubt.remedy} (without that: {finding.reason})"
    return msgspec.structs.replace(
        finding,
        outcome="inconclusive",
        state="inconclusive",
        reason=f"{doubt.fact}: {doubt.value}: {reason}",
    )


def machine_doubt(state: MachineState | None, metric: Metric) -> MachineFinding | None:
    """What about the machine makes a metric's failures (of memory: its values) doubtful.

    Args:
        state: Of the run; None in older records.
        metric: Whose gate is judged.
    """
    kind = _kind(metric)
    if state is None or kind is None or metric.name in _SWAP_PROOF:
        return None
    return next((one for one in state.warnings if kind in one.voids), None)


def machine_warnings(state: MachineState | None, gates: Iterable[GateResult]) -> tuple[str, ...]:
    """A sentence for each kind of metric that was judged on a machine unfit for it.

    Args:
        state: Of the run; None in older records.
        gates: Their results; a run that judged exact values alone has no warnings.
    """
    if state is None:
        return ()
    judged = {_kind_of(gate) for gate in gates if gate.outcome in _JUDGED}
    found = []
    kinds: tuple[Struck, ...] = ("latency", "memory")
    for kind in kinds:
        bad = [one for one in state.warnings if kind in one.strikes] if kind in judged else []
        if bad:
            facts = ", ".join(f"{one.fact} {one.value}" for one in bad)
            found.append(
                f"this machine was not fit to measure {kind}: {facts}; 'benchsuite doctor' says "
                "what would improve it"
            )
    return tuple(found)


_JUDGED = ("pass", "fail", "inconclusive", "xfail", "xpass")


def _kind_of(gate: GateResult) -> Struck | None:
    metric = CATALOGUE.get(parse_selector(gate.metric).name)
    return None if metric is None else _kind(metric)


def _kind(metric: Metric) -> Struck | None:
    if metric.name in CLIENT_HEALTH:
        return None
    if metric.assume == "latency" or metric.assume == "memory":
        return metric.assume
    return None


def _one_sided(spec: GateSpec, metric: Metric) -> bool:
    """Whether a gate only asks that the value be no worse than something."""
    if spec.equals is not None:
        return False
    better_side = spec.min if metric.better == "lower" else spec.max
    return better_side is None
