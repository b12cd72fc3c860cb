"""How long waits may take, and the words in which a limit that has struck is told."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """How long each wait may take, in seconds; each is named in the error when it strikes."""

    start: float = 120.0  # from launch to healthy
    idle: float = 60.0  # a request without bytes, while others have none either
    token: float = 120.0  # from one token of a stream to the next; comments and pings do not count
    request: float = 1800.0  # a whole request, however its bytes come
    step: float | None = None  # a step of the scenario, but for one that only idles; None: none
    stop: float = 10.0  # from asking politely to force
    run: float | None = None  # a whole run of one scenario, waits for others included; None: none
    lock: float = 1800.0  # for other runs on this machine; 0 does not wait


def chosen_limits(*given: Mapping[str, float]) -> Limits:
    """The limits of several places, each name -> seconds; what is said later wins."""
    chosen = {name: float(value) for one in given for name, value in one.items()}
    return msgspec.convert(chosen, Limits)


def limit_struck(name: str, seconds: float) -> str:
    """In words that a wait has reached its limit: `the step limit of 600 s struck`."""
    return f"the {name} limit of {seconds:g} s struck"


def limit_hint(name: str) -> str:
    """What to type to wait longer."""
    return (
        f"raise it with --{name}-limit SECONDS, or with '{name}' under [limits] of benchsuite.toml"
    )
