"""How late this machine wakes a process that asked to sleep: what every timed wait adds."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchsuite.model.machine import MachineFinding
from benchsuite.units import format_number

SLEEPS = 50
SLEEP_SECONDS = 0.001

MEDIAN_WARN_MS, WORST_WARN_MS = 1.0, 20.0
"""Half of all wake-ups later than a sleep of 1 ms is long; one later than several turns of others
on the same core (the kernel's are 3 to 4 ms)."""


def judge_timer(
    sleep: Callable[[float], None] = time.sleep,
    monotonic_ns: Callable[[], int] = time.monotonic_ns,
) -> MachineFinding:
    """Sleep 1 ms fifty times and see how late it was.

    Args:
        sleep: Sleeps for seconds.
        monotonic_ns: The clock; integer nanoseconds.
    """
    late_ms = []
    for _ in range(SLEEPS):
        before = monotonic_ns()
        sleep(SLEEP_SECONDS)
        late_ms.append(max(0.0, (monotonic_ns() - before) / 1e6 - SLEEP_SECONDS * 1000))
    late_ms.sort()
    median, worst = late_ms[SLEEPS // 2], late_ms[-1]
    value = f"{format_number(median, 2)} ms late (median), {format_number(worst, 1)} at worst"
    if median <= MEDIAN_WARN_MS and worst <= WORST_WARN_MS:
        return MachineFinding("wake-ups", value, "ok", "a process runs when it is due")
    return MachineFinding(
        "wake-ups",
        value,
        "warn",
        "a process waits for its turn, the client's and the server's alike",
        "stop what else runs here, or measure on a machine with more cores",
        ("latency",),
    )
