"""Was our own client the bottleneck? Its lag, its lateness and its share of the server's cores.

Looked at only while requests are under way: what benchsuite does between them delays nothing.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence

from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.record import Measurement, Unmeasured

_NS_PER_MS = 1_000_000
INTERVAL_SECONDS = 0.01
"""From one look to the next: a hundred wake-ups a second, each some 20 microseconds."""

LAG, LATENESS, SHARE = "event_loop_lag_ms", "send_lateness_ms", "client_cpu_share"


class ClientHealth:
    """Watches the event loop that it runs on.

    Args:
        requests: How many requests are under way, and how many were sent so far.
        cores: That the server may run on; None where that is not known.
        monotonic_ns: The clock; integer nanoseconds.
        cpu_ns: CPU time of this process, integer nanoseconds.
    """

    def __init__(
        self,
        requests: Callable[[], tuple[int, int]],
        cores: int | None,
        *,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        cpu_ns: Callable[[], int] = time.process_time_ns,
    ) -> None:
        self._requests = requests
        self._cores = cores
        self._monotonic_ns = monotonic_ns
        self._cpu_ns = cpu_ns
        self._began: tuple[tuple[int, int], int, int] | None = None  # requests, clock, CPU time
        self._watched_ns = 0
        self._delay_ns2 = 0  # sum of lag * lag / 2
        self._cpu_spent_ns = 0

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.begin()
            await asyncio.sleep(INTERVAL_SECONDS)
            self.look(int(INTERVAL_SECONDS * 1e9))

    def begin(self) -> None:
        """Begin one span of time."""
        self._began = (self._requests(), self._monotonic_ns(), self._cpu_ns())

    def look(self, planned_ns: int) -> None:
        """End the span, which counts if a request was under way in it.

        Args:
            planned_ns: How long it should have been; what is more is the loop's lag.
        """
        if self._began is None:
            return
        (under_way, sent), began_ns, cpu_ns = self._began
        self._began = None
        still_under_way, sent_since = self._requests()
        if not under_way and not still_under_way and sent_since == sent:
            return
        span_ns = self._monotonic_ns() - began_ns
        lag_ns = max(0, span_ns - planned_ns)
        self._watched_ns += span_ns
        self._delay_ns2 += lag_ns * lag_ns // 2
        self._cpu_spent_ns += self._cpu_ns() - cpu_ns

    @property
    def lag_ms(self) -> float | None:
        """How late an event is answered on average that comes at a random moment.

        An event that comes while the loop is held up for L waits L/2 on average, and comes then
        with probability L / time: the sum of L*L/2 over the time (mean residual life of renewal
        theory). Unlike a percentile of the lags seen it does not overlook that a blocked loop
        looks less often. None where no request was under way.
        """
        if not self._watched_ns:
            return None
        return self._delay_ns2 / self._watched_ns / _NS_PER_MS

    @property
    def cpu_share(self) -> float | None:
        """CPU time of this process over the time of the server's cores; None where not known."""
        if not self._watched_ns or not self._cores:
            return None
        return self._cpu_spent_ns / self._watched_ns / self._cores

    def measure(self, variant: str, trial: int) -> list[Measurement | Unmeasured]:
        """Lag and share of one launch; none where it had no request."""
        if not self._watched_ns:
            return []
        found: list[Measurement | Unmeasured] = []
        for name, value, source in (
            (LAG, self.lag_ms, "client clock"),
            (SHARE, self.cpu_share, "process CPU time"),
        ):
            if value is not None:
                unit = CATALOGUE[name].unit
                found.append(Measurement(name, value, unit, variant, trial, source=source))
            else:
                why = "on which cores an attached server runs is not known"
                found.append(Unmeasured(name, variant, why, "not_applicable", trial=trial))
        return found


def measure_lateness(
    lateness_ns: Sequence[int], labels: dict[str, str], variant: str, trial: int
) -> list[Measurement]:
    """How late a load step's requests were sent: the median; empty for a step without any.

    A request of a closed loop is due when the one before it was answered. Sequential turns have no
    schedule: each is sent when everything about the one before is settled, and timed from then.
    """
    if not lateness_ns:
        return []
    ordered = sorted(lateness_ns)
    middle = len(ordered) // 2
    low = ordered[middle] if len(ordered) % 2 else ordered[middle - 1]
    value = (low + ordered[middle]) / 2 / _NS_PER_MS
    unit = CATALOGUE[LATENESS].unit
    return [Measurement(LATENESS, value, unit, variant, trial, labels, source="client clock")]


def server_cores() -> int:
    """How many cores a server may run on that we start: those that we may use ourselves."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
