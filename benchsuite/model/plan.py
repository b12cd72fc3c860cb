"""The seeded expansion of scenario, deployment and variants: what will be started and sent."""

from __future__ import annotations

import msgspec

from benchsuite.model.deployment import Deployment
from benchsuite.model.limits import Limits
from benchsuite.model.scenario import FlagNeed, FlagValue, GateSpec, Scenario, SessionSpec, Step


class VariantPlan(msgspec.Struct, frozen=True):
    """One variant, ready to be driven."""

    name: str
    flags: dict[str, FlagValue]  # canonical long names, fully resolved, ours not yet added
    sessions: dict[str, SessionSpec]
    steps: tuple[Step, ...]
    digest: str  # sha256 of what changes the measurement
    device: str | None = None  # kind of device that must be in use
    rpc: bool = False  # an RPC server is started for it, and given to it as a device
    notes: tuple[str, ...] = ()  # what resolving decided, in words
    not_applicable: str | None = None  # why this variant cannot run here; nothing is launched


class Plan(msgspec.Struct, frozen=True):
    """Everything that one `run` of one scenario will do."""

    scenario: Scenario
    deployment: Deployment
    variants: tuple[VariantPlan, ...]
    gates: tuple[GateSpec, ...]
    needs: dict[str, FlagNeed] = {}  # the scenario's, by canonical name where that is known
    trials: int = 1
    seed: int = 0
    limits: Limits = Limits()
