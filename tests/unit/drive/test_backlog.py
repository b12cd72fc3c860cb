"""What waits in a stage of a sweep over rates."""

from __future__ import annotations

from benchsuite.client.reply import Reply, Stamps, Timings
from benchsuite.drive.served import Served
from benchsuite.drive.sweep import Backlog
from benchsuite.model.load import Arrivals
from benchsuite.model.scenario import LoadStep, PromptSpec

NS = 1_000_000_000
BEGIN = 7 * NS
RATE = Arrivals("constant", 10.0)
LOAD = LoadStep("s", 40, 1, PromptSpec(tokens=9), arrivals=RATE, timeout=0.5)


def answered(due: float, end: float) -> Served:
    """A request by when it was due and answered, in seconds of the schedule."""
    at = (BEGIN + round(due * NS), BEGIN + round(end * NS))
    stamps = Stamps(at[0], at[0], first_token_ns=at[1], end_ns=at[1])
    reply = Reply("x", "x", 1, 0, 1, 1, 0, "stop", False, Timings(), stamps, (at[1],))
    return Served({}, reply, None, alone=False, due_ns=at[0])


def test_what_is_due_but_not_answered_waits() -> None:
    """Of a schedule of four seconds: at two, and at four."""
    backlog = Backlog(LOAD, BEGIN)
    for due, end in ((0.1, 0.2), (1.9, 2.1), (1.0, 9.0), (3.9, 4.5)):
        backlog.take(answered(due, end))
    assert (backlog.half, backlog.end) == (2, 2)


def test_what_was_given_up_was_never_answered() -> None:
    """A timeout bounds how long each waits, and hides no growth."""
    backlog = Backlog(LOAD, BEGIN)
    for number in range(40):
        if number % 2:
            backlog.give_up(BEGIN + round((number / 10 + 0.5) * NS))
        else:
            backlog.take(answered(number / 10 + 0.01, number / 10 + 0.05))
    assert (backlog.half, backlog.end) == (10, 20)


def test_a_closed_loop_has_no_backlog() -> None:
    """Nothing of it is due by a schedule."""
    backlog = Backlog(LoadStep("s", 40, 2, PromptSpec(tokens=9), timeout=0.5), BEGIN)
    backlog.give_up(BEGIN + NS)
    assert (backlog.half, backlog.end) == (0, 0)
