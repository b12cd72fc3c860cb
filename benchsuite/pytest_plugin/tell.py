"""What did not pass, in the words that pytest shows."""

from __future__ import annotations

from benchsuite.model.record import RunRecord
from benchsuite.model.verdict import GateResult
from benchsuite.report.failures import failure_lines
from benchsuite.report.layout import Style, safe


def told_gate(gate: GateResult, record: RunRecord, folder: str) -> str:
    """A gate that does not pass: where it is, what was expected and seen, why.

    Args:
        gate: Of the record.
        record: For the scenario's path and the deployment.
        folder: Where the run is stored, as the user would open it.
    """
    head = (
        f"{record.scenario_path}:{gate.line}: {gate.outcome}: {gate.metric} ({gate.rule}) "
        f"in variant {gate.variant} on {record.fingerprint.deployment}"
    )
    lines = [
        head,
        f"  expected: {gate.expected}" if gate.expected else "",
        f"  observed: {gate.observed}" if gate.observed else "",
        f"  {gate.reason}",
        f"  why it matters: {gate.why}" if gate.why else "",
        f"  differs from the baseline: {'; '.join(gate.differs)}" if gate.differs else "",
        f"  run: {folder}",
    ]
    return "\n".join(safe(line) for line in lines if line)


def told_failures(record: RunRecord, folder: str) -> str:
    """How servers failed, with what is left of them."""
    return "\n".join([*failure_lines(record, Style()), safe(f"run: {folder}")])
