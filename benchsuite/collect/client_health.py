"""Was our own client the bottleneck? Its lag, its lateness and its share of the server's cores.

Looked at only while requests are under way: what benchsuite does between them delays nothing.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.record import Measurement, Unmeasured

_NS_PER_MS = 1_000_000
INTERVAL_SECONDS = 0.02
"""From one look to the next. Fifty wake-ups a second cost 0.7% of a core, nearly all of it the
waking; holds shorter than this are seen in part only, and show in the CPU share."""

_INTERVAL_NS = int(INTERVAL_SECONDS * 1e9)

LATE_NS = 100_000_000
"""An event that is answered later than this is answered too late, however long a request takes: a
share of latency hides a client that made latency longer itself."""

LATE_SHARE = "event_loop_late_share"
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
        self._next: asyncio.TimerHandle | None = None
        # requests under way, sent so far, clock, CPU time; when the span began
        self._began: tuple[int, int, int, int] | None = None
        self._watched_ns = 0
        self._delay_ns2 = 0  # sum of lag * lag / 2
        self._cpu_spent_ns = 0
        self._step_ns = 0  # watched since the load step began
        self._step_late_ns = 0  # of it, moments whose events were answered too late

    def start(self) -> None:
        """Look from now on until stopped; a callback, since a task costs twice as much."""
        self._began = None
        self.look(0)
        loop = asyncio.get_running_loop()
        self._next = loop.call_later(INTERVAL_SECONDS, self._again, loop)

    def _again(self, loop: asyncio.AbstractEventLoop) -> None:
        self.look(_INTERVAL_NS)
        self._next = loop.call_later(INTERVAL_SECONDS, self._again, loop)

    def stop(self) -> None:
        """Look no more; what was seen stays."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def look(self, planned_ns: int) -> None:
        """End a span of time and begin the next; it counts if a request was under way in it.

        Args:
            planned_ns: How long it should have been; what is more is the loop's lag.
        """
        before, now = self._began, (*self._requests(), self._monotonic_ns(), self._cpu_ns())
        self._began = now
        if before is None:
            return
        was_under_way, sent, began_ns, cpu_ns = before
        under_way, sent_since, now_ns, cpu_now_ns = now
        if not was_under_way and not under_way and sent_since == sent:
            return
        lag_ns = max(0, now_ns - began_ns - planned_ns)
        self._watched_ns += now_ns - began_ns
        self._delay_ns2 += lag_ns * lag_ns // 2
        self._cpu_spent_ns += cpu_now_ns - cpu_ns
        self._step_ns += now_ns - began_ns
        self._step_late_ns += max(0, lag_ns - LATE_NS)

    def begin_step(self) -> None:
        """A load step begins, or a stage of a sweep."""
        self._step_ns = self._step_late_ns = 0

    def measure_step(
        self, labels: dict[str, str], variant: str, trial: int
    ) -> list[Measurement | Unmeasured]:
        """How likely an event of the load step that ends now was answered too late."""
        if self._began is not None:
            self.look(_INTERVAL_NS)  # the loop may be held up until now
        if not self._step_ns:
            why = "the step was over before the first look at our event loop"
            return [Unmeasured(LATE_SHARE, variant, why, trial=trial, labels=labels)]
        value = self._step_late_ns / self._step_ns
        unit = CATALOGUE[LATE_SHARE].unit
        source = f"client clock, later than {LATE_NS // _NS_PER_MS} ms"
        return [Measurement(LATE_SHARE, value, unit, variant, trial, labels, source=source)]

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


def server_cores() -> int:
    """How many cores a server may run on that we start: those that we may use ourselves."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
