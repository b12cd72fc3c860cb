"""When a server has hung: one that answers other requests meanwhile lets this one wait its turn.

llama-server sends no byte of a request that waits for a slot. Under more load than it carries such
a wait is as long as its backlog, which is what a load measures; only a server that answers nothing
at all for the time of the limit is silent.
"""

from __future__ import annotations

import time
from contextvars import ContextVar

_NS = 1_000_000_000


class Silence:
    """How long a server has sent nothing of any reply.

    Args:
        seconds: That may last so long.
    """

    def __init__(self, seconds: float) -> None:
        self._limit_ns = round(seconds * _NS)
        self._heard_ns = 0

    def heard(self, at_ns: int) -> None:
        """Bytes of a reply came, in monotonic nanoseconds."""
        self._heard_ns = at_ns

    @property
    def left_seconds(self) -> float:
        """How much longer it may last; 0 where it has lasted too long."""
        return max(0, self._heard_ns + self._limit_ns - time.monotonic_ns()) / _NS


class Waiting:
    """A request of this task whose reply has not begun; it waits as long as others are answered."""

    def __init__(self, silence: Silence) -> None:
        self._silence: Silence | None = silence
        _WAITING.set(self)

    def has_come(self) -> None:
        """Its reply has begun: from now on it is held to its own bytes."""
        self._silence = None

    @property
    def left_seconds(self) -> float:
        """How much longer it may wait for its first byte."""
        return 0 if self._silence is None else self._silence.left_seconds


_WAITING: ContextVar[Waiting | None] = ContextVar("waiting", default=None)


def seconds_left() -> float:
    """How much longer the request of this task may wait for bytes, after its own limit."""
    waiting = _WAITING.get()
    return 0 if waiting is None else waiting.left_seconds
