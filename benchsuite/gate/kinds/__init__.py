"""How values of one metric compare, one implementation for each `assume` of the catalogue.

A kind knows values only: not where they came from, nor what a gate makes of the result.
"""

from __future__ import annotations

from benchsuite.gate.kinds.comparison import Comparison, Kind, Limits
from benchsuite.gate.kinds.exact import ExactKind
from benchsuite.gate.kinds.latency import LatencyKind
from benchsuite.gate.kinds.memory import MemoryKind
from benchsuite.gate.kinds.quantised import QuantisedKind
from benchsuite.gate.kinds.text import TextKind
from benchsuite.metrics.metric import Assume

KINDS: dict[Assume, Kind] = {
    "exact": ExactKind(),
    "quantised": QuantisedKind(),
    "text": TextKind(),
    "memory": MemoryKind(),
    "latency": LatencyKind(),
}
"""The implementation for each `assume`."""

__all__ = ["KINDS", "Comparison", "Kind", "Limits"]
