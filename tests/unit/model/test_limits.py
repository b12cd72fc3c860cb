"""Limits of several places become one set."""

from __future__ import annotations

from benchsuite.model.limits import Limits, chosen_limits, limit_hint, limit_struck


def test_what_is_said_later_wins_and_the_rest_stays() -> None:
    """Configuration, deployment, command line."""
    found = chosen_limits({"step": 600, "idle": 5}, {"idle": 6}, {"lock": 0})
    assert found == Limits(step=600.0, idle=6.0, lock=0.0)


def test_steps_and_runs_have_no_limit_of_their_own() -> None:
    """How long is right, only their author knows."""
    assert Limits().step is None
    assert Limits().run is None


def test_a_limit_is_told_with_what_raises_it() -> None:
    """By its name on the command line and in the file."""
    assert limit_struck("step", 600) == "the step limit of 600 s struck"
    assert "--step-limit SECONDS" in limit_hint("step")
    assert "'step' under [limits]" in limit_hint("step")
