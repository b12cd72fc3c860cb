"""What a request or slot step that may fail came to, as measurements; pure."""

from __future__ import annotations

from benchsuite.drive.driver import Refused, Settled, SlotDone
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.record import Measurement, Unmeasured, Value

_OK = 200
_OF_REPLY = (
    "cached_tokens",
    "evaluated_tokens",
    "prompt_tokens",
    "output_tokens",
    "slot",
    "text",
    "ttft_ms",
    "e2e_ms",
    "tpot_ms",
    "itl_ms",
)
"""What a reply would have told."""


def measure_status(
    one: Settled, variant: str, trial: int
) -> tuple[list[Measurement], list[Unmeasured]]:
    """`http_status` where a step may fail, `slot_tokens` of a slot step, and what an error left
    unmeasured.

    Args:
        one: What a step came to.
        variant: Name of the variant.
        trial: From 1.
    """
    labels = one.labels

    def measured(name: str, value: Value, source: str) -> Measurement:
        unit = CATALOGUE[name].unit
        return Measurement(name, value, unit, variant, trial, labels, source=source)

    if isinstance(one, Refused):
        return _refused(one, variant, trial, measured("http_status", one.status, "HTTP status"))
    found = []
    if one.may_fail:
        found.append(measured("http_status", _OK, "HTTP status"))
    if isinstance(one, SlotDone):
        source = {"save": "n_saved", "restore": "n_restored", "erase": "n_erased"}[one.action]
        found.append(measured("slot_tokens", one.tokens, f"/slots {source}"))
    return found, []


def _refused(
    one: Refused, variant: str, trial: int, status: Measurement
) -> tuple[list[Measurement], list[Unmeasured]]:
    told = "an error" if one.status == 0 else str(one.status)
    reason = f"{one.words} was answered with {told}: {one.message}"
    names = ("slot_tokens",) if "step" in one.labels else _OF_REPLY
    unmeasured = [
        Unmeasured(name, variant, reason, trial=trial, labels=one.labels) for name in names
    ]
    if one.status:
        return [status], unmeasured
    reason = f"the error that ended {one.words} tells no status: {one.message}"
    lost = Unmeasured("http_status", variant, reason, trial=trial, labels=one.labels)
    return [], [lost, *unmeasured]
