"""What a user asks of a run, apart from the scenario."""

from __future__ import annotations

import msgspec

from benchsuite.model.plan import Limits
from benchsuite.model.suite import Policy, Quarantine


class RunOptions(msgspec.Struct, frozen=True):
    """The options of `benchsuite run` and `benchsuite show`; None where not given."""

    deployment: str | None = None
    server: str | None = None
    model: str | None = None
    model_name: str | None = None  # a router's name for the model
    url: str | None = None
    api_key_env: str | None = None
    ca: str | None = None  # PEM file for an https server
    variants: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()  # FLAG=VALUE
    trials: int = 1
    seed: int = 0
    against: str | None = None
    out: str | None = None  # folder of runs
    machine: str | None = None
    requests_per_second: float | None = None  # towards attached servers; 0 lifts the cap
    allow_new: bool = False
    require_all: bool = False
    refuse_expired: bool = False  # known issues that have expired fail the run, as `ci` wants
    policy: Policy = "block"  # of the suite that it is run for
    quarantine: tuple[Quarantine, ...] = ()  # of that suite, for this scenario and deployment
    limits: Limits = Limits()
