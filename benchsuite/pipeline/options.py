"""What a user asks of a run, apart from the scenario."""

from __future__ import annotations

import msgspec

from benchsuite.model.suite import Policy, Quarantine


class RunOptions(msgspec.Struct, frozen=True):
    """The options of `benchsuite run` and `benchsuite show`; None where not given."""

    deployment: str | None = None
    server: str | None = None
    model: str | None = None
    model_name: str | None = None  # a router's name for the model
    url: str | None = None
    api_key_env: str | None = None
    api_key_file: str | None = None
    ca: str | None = None  # PEM file for an https server
    variants: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()  # FLAG=VALUE
    duration: str | None = None  # of load steps that end by one, instead of the scenario's
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
    suite_sets: int = 0  # so many of `sets`, the first, are of a suite's file
    suite_place: tuple[str, int] = ("", 0)  # of that file, and the line
    quarantine: tuple[Quarantine, ...] = ()  # of that suite, for this scenario and deployment
    limits: dict[str, float] = {}  # seconds by the names of `Limits`; those that were given
