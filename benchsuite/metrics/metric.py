"""What a metric declares: unit, direction, kind, scope, labels, and what it means."""

from __future__ import annotations

from typing import Literal

import msgspec

Assume = Literal["exact", "quantised", "memory", "latency", "text"]
Scope = Literal["config", "numerics", "machine"]
Better = Literal["lower", "higher", "equal"]
Source = Literal["http", "log", "process", "client", "files"]


class Metric(msgspec.Struct, frozen=True):
    """A declared metric."""

    name: str
    unit: str
    better: Better
    assume: Assume
    scope: Scope
    source: Source  # from where it is read; decides what an attached server can give
    doc: str
    # label sets under which it occurs, each a tuple of label names in alphabetical order
    labels: tuple[tuple[str, ...], ...]
    # label sets whose values belong to another scope than `scope`
    scope_by_labels: dict[tuple[str, ...], Scope] = {}
    # whether the model file and the flags tell what its total must be (`metrics/kv_formula.py`)
    analytic: bool = False

    def scope_of(self, label_names: tuple[str, ...]) -> Scope:
        """The scope of a measurement with these label names, in alphabetical order."""
        return self.scope_by_labels.get(label_names, self.scope)


REQUEST = (("session", "turn"), ("request",))
COUNTED = (*REQUEST, ("copy", "request"), ("step",))
AT = (("at",),)
STEP = (("step",),)
RATE = (*STEP, ("stage", "step"))  # of a load step, and of each stage of a sweep
LOAD = (*RATE, ("quantile", "step"), ("quantile", "stage", "step"))  # medians, and quantiles
LAUNCH = ((), *REQUEST)  # without labels: the launch's median over its turns and completes
AGAINST = (("against", "request"),)

DEVICE_SETS = (
    ("device",),
    ("cache", "device"),
    ("device", "stream"),
    ("cache", "device", "stream"),
)
KV_SETS = ((), *DEVICE_SETS, ("context",), ("context", "device"))


def declare(
    name: str,
    unit: str,
    better: Better,
    assume: Assume,
    scope: Scope,
    source: Source,
    labels: tuple[tuple[str, ...], ...],
    doc: str,
    scope_by_labels: dict[tuple[str, ...], Scope] | None = None,
    *,
    analytic: bool = False,
) -> Metric:
    """A metric, with what most have left out."""
    return Metric(
        name, unit, better, assume, scope, source, doc, labels, scope_by_labels or {}, analytic
    )
