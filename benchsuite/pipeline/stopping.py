"""What ends a run early, in order: a signal, or the limit of the whole run."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from benchsuite.errors import BenchsuiteError, MachineError, ServerHangError
from benchsuite.model.limits import Limits, limit_hint, limit_struck
from benchsuite.server.device_locks import LockWait

_STOP_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
_OWN_TIME = ("idle for ", "source markers")


class Stop:
    """Whether a run is to end, and why.

    Attributes:
        signalled: Whether a signal has come.
        out_of_time: Whether the limit of the run has struck.
        limit_s: That limit, as its user gave it; None without one.
    """

    def __init__(self, limit_s: float | None = None) -> None:
        self.signalled = False
        self.out_of_time = False
        self.limit_s = limit_s

    def error(self, doing: str) -> BenchsuiteError | None:
        """The limit of the run as an error, if that is what struck, and not a signal.

        Args:
            doing: What was done meanwhile, in the words of the driver. Idling and counting in
                source files are our own time, everything else is to wait for the server.
        """
        if self.signalled or not self.out_of_time or self.limit_s is None:
            return None
        kind = MachineError if doing.startswith(_OWN_TIME) else ServerHangError
        words = f"{limit_struck('run', self.limit_s)} during {doing}"
        return kind(words, hint=limit_hint("run"))


@contextmanager
def stoppable(left_s: float | None = None, limit_s: float | None = None) -> Iterator[Stop]:
    """Have the first Ctrl-C, TERM or HUP, or the run's limit, cancel the running task.

    A second signal ends at once. Python's own handlers are used, since they also run while a
    server is being stopped, when the event loop stands still.

    Args:
        left_s: Seconds until the limit of the run strikes; None: never.
        limit_s: That limit as its user gave it, for messages.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    stop = Stop(limit_s)

    def answer(number: int, frame: FrameType | None) -> None:
        if stop.signalled:
            raise KeyboardInterrupt
        stop.signalled = True
        if task is not None:
            loop.call_soon_threadsafe(task.cancel)

    def strike() -> None:
        stop.out_of_time = True
        if task is not None and not stop.signalled:
            task.cancel()

    kinds = [getattr(signal, name) for name in _STOP_SIGNALS if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        kinds = []  # signals reach the main thread only
    before = {kind: signal.signal(kind, answer) for kind in kinds}
    timer = None if left_s is None else loop.call_later(left_s, strike)
    try:
        yield stop
    finally:
        if timer is not None:
            timer.cancel()
        for kind, handler in before.items():
            signal.signal(kind, handler)


def lock_wait(limits: Limits) -> LockWait:
    """How long to wait for other runs, and which limit says so."""
    if limits.run is not None and limits.run < limits.lock:
        return LockWait(limits.run, "run")
    return LockWait(limits.lock, "lock")
