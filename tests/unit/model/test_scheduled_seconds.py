"""What a load step says of its schedule."""

from __future__ import annotations

import pytest

from benchsuite.model.load import Arrivals
from benchsuite.model.scenario import LoadStep, PromptSpec


def step(arrivals: Arrivals | None, **keys: float | None) -> LoadStep:
    """One of ten requests unless told otherwise."""
    given = {"requests": 10, **keys}
    return LoadStep("s", concurrency=1, prompt=PromptSpec(tokens=9), arrivals=arrivals, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["constant", "poisson"])
def test_a_rate_is_asked_for_as_long_as_users_come(kind: str) -> None:
    """The last of ten at 5 a second comes after 1.8 s, and the next would come after 2 s."""
    rate = Arrivals(kind, 5.0)  # type: ignore[arg-type]
    assert step(rate).scheduled_seconds(warm_up=True) == 2.0
    assert step(rate, requests=None, duration=1.0).scheduled_seconds(warm_up=True) == 1.0
    assert step(rate, duration=1.0).scheduled_seconds(warm_up=True) == 1.0
    assert step(rate, duration=9.0, turns=2).scheduled_seconds(warm_up=True) == 1.0


def test_warm_up_is_left_out_where_asked() -> None:
    """By whichever of its two ends is later."""
    rate = Arrivals("constant", 5.0)
    assert step(rate, warm_up=4).scheduled_seconds(warm_up=True) == 2.0
    assert step(rate, warm_up=4).scheduled_seconds(warm_up=False) == 1.2
    assert step(rate, warm_up=4, warm_up_seconds=1.5).scheduled_seconds(warm_up=False) == 0.5
    assert step(rate, warm_up_seconds=3).scheduled_seconds(warm_up=False) == 0.0


def test_bursts_last_until_the_next_would_come() -> None:
    """Two of five, four seconds apart."""
    assert step(Arrivals("bursts", size=5, every=4)).scheduled_seconds(warm_up=True) == 8.0


@pytest.mark.parametrize(
    "arrivals",
    [None, Arrivals("trace"), Arrivals("ramp", 1.0, 9.0)],
    ids=["closed", "trace", "ramp"],
)
def test_without_a_rate_that_holds_it_is_not_known(arrivals: Arrivals | None) -> None:
    """Which is no 0."""
    assert step(arrivals, duration=4.0).scheduled_seconds(warm_up=True) is None
