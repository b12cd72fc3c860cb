"""Which exact values may differ from launch to launch because requests ran at the same time; pure.

Which slot serves which of several requests, and so what each finds cached, is decided by their
order of arrival. From the first such step on these values say nothing of a server by themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from benchsuite.model.scenario import (
    CompleteStep,
    ConcurrentlyStep,
    EmbeddingStep,
    LoadStep,
    LogprobsStep,
    Scenario,
    SlotStep,
    Step,
    SweepStep,
    TurnStep,
)

_STEADY = frozenset(
    {
        "http_status",
        "leaks",
        "excess_cached_tokens",
        "requests_failed",
        "requests_timed_out",
        "requests_skipped",
        "error_share",
    }
)
"""Metrics of requests that a healthy server keeps whatever their order."""
_OF_CACHE = frozenset({"prompt_cache_mib", "prompt_cache_over_limit_mib"})
"""Metrics of the whole launch that depend on which requests were cached."""

_Labels = frozenset[tuple[str, str]]


class Racing:
    """What not to compare by default in one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self._requests = frozenset(_raced(scenario.steps))

    @property
    def any(self) -> bool:
        """Whether anything is left out."""
        return bool(self._requests)

    def leaves_out(self, metric: str, labels: dict[str, str]) -> bool:
        """Whether a series of an exact metric may differ between launches of one server."""
        if metric in _STEADY or not self._requests:
            return False
        request = {name: value for name, value in labels.items() if name != "copy"}
        request.pop("stage", None)
        return metric in _OF_CACHE or frozenset(request.items()) in self._requests


def _raced(steps: tuple[Step, ...]) -> Iterator[_Labels]:
    """The labels of the requests from the first concurrent step on."""
    turns: Counter[str] = Counter()
    raced = False
    for step in steps:
        raced = raced or _is_concurrent(step)
        for one in _requests(step):
            if isinstance(one, TurnStep):
                turns[one.session] += 1
                labels = {"session": one.session, "turn": str(turns[one.session])}
            elif isinstance(one, LoadStep | SweepStep | SlotStep):
                labels = {"step": one.name}
            else:
                labels = {"request": one.id}
            if raced:
                yield frozenset(labels.items())


_Request = TurnStep | CompleteStep | LoadStep | SweepStep | SlotStep | LogprobsStep | EmbeddingStep


def _requests(step: Step) -> Iterator[_Request]:
    if isinstance(step, ConcurrentlyStep):
        for branch in step.branches:
            yield from branch
    elif isinstance(step, _Request):
        yield step


def _is_concurrent(step: Step) -> bool:
    if isinstance(step, ConcurrentlyStep):
        return len(step.branches) > 1
    if isinstance(step, SweepStep):
        return step.load.is_concurrent
    if isinstance(step, LoadStep):
        return step.is_concurrent
    return isinstance(step, LogprobsStep) and step.at_once > 1
