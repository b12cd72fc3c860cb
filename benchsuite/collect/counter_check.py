"""Holds the counters of `/metrics` against what replies told, from one look to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from benchsuite.client.api import LlamaClient
from benchsuite.collect.reconcile import Totals, contradictions_with_counters, is_counted
from benchsuite.collect.restarts import counters_fell


class Counted(NamedTuple):
    """What the counters say of the requests since the last look."""

    problem: str | None = None  # what they contradict
    fell: str | None = None  # that they began anew, so that another process counts


class CounterCheck:
    """The counters of one server, as read last.

    Args:
        client: For `/metrics`.
        keep: Takes the counters of each look, for the journal.
    """

    def __init__(self, client: LlamaClient, keep: Callable[[dict[str, float]], None]) -> None:
        self._client = client
        self._keep = keep
        self._counters: dict[str, float] | None = None
        # Whether requests before broke off: what was evaluated of them is sometimes counted only
        # after their error was answered (11549: 35 tokens with the next reply, on a busy machine).
        self._broke_off = False

    async def begin(self) -> str | None:
        """Read what later changes are held against; a warning where nothing can be."""
        self._broke_off = False
        self._counters = await self._client.metrics()
        if self._counters is None:
            return "/metrics is off: counts were not checked against it"
        if not is_counted(self._counters):
            return (
                "/metrics has none of the counters that replies add up to: counts were not checked "
                "against it"
            )
        return None

    async def look(self, told: Totals | None, *, broke_off: bool) -> Counted:
        """Hold the change since the last look against replies.

        Args:
            told: What they count; None where not all requests were answered, since how much was
                counted of one that failed half-way is not told.
            broke_off: Whether one of them may have been evaluated in part.
        """
        broke_off_before, self._broke_off = self._broke_off, broke_off
        if self._counters is None:
            return Counted()
        before = self._counters
        self._counters = await self._client.metrics() or before
        self._keep(self._counters)
        if told is None or broke_off_before:
            return Counted()
        problems = contradictions_with_counters(before, self._counters, told)
        fell = counters_fell(before, self._counters)
        return Counted(problems[0] if problems else None, fell)
