"""Why a run is to end, and what that is told as."""

from __future__ import annotations

import pytest

from benchsuite.errors import MachineError, ServerHangError, UsageError
from benchsuite.model.limits import Limits
from benchsuite.pipeline.command import given_limits
from benchsuite.pipeline.stopping import Stop, lock_wait


def _late(doing: str) -> object:
    stop = Stop(600)
    stop.out_of_time = True
    return type(stop.error(doing))


def test_the_run_limit_is_the_servers_failure_only_while_it_is_waited_for() -> None:
    """Idling and counting in source files are our own time."""
    assert _late("turn 2 of session A") is ServerHangError
    assert _late("idle for 60 s") is MachineError
    assert _late("source markers of step count") is MachineError


def test_a_signal_is_an_interruption_whatever_else_strikes() -> None:
    """Exit 130 stays 130."""
    stop = Stop(600)
    stop.out_of_time = stop.signalled = True
    assert stop.error("turn 1 of session A") is None


def test_the_shorter_limit_ends_the_wait_for_others() -> None:
    """And is the one that is named."""
    assert lock_wait(Limits()) == (1800.0, "lock")
    assert lock_wait(Limits(run=60.0)) == (60.0, "run")
    assert lock_wait(Limits(run=60.0, lock=0.0)) == (0.0, "lock")


def test_no_wait_and_a_limit_contradict_each_other() -> None:
    """One of them was not meant."""
    assert given_limits({"no_wait": True, "lock_limit": None}) == {"lock": 0.0}
    with pytest.raises(UsageError, match="--no-wait and --lock-limit"):
        given_limits({"no_wait": True, "lock_limit": 5.0})
