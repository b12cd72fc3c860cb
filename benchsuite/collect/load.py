"""From the replies of a load step to its measurements, each of the step as a whole; pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchsuite.client.reply import Reply
from benchsuite.collect.requests import CLIENT_CLOCK
from benchsuite.drive.driver import Load
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.record import Measurement, Unmeasured, Value

_NS_PER_MS = 1_000_000
_NS_PER_SECOND = 1_000_000_000

_COUNTS: dict[str, Callable[[Reply], int | None]] = {
    "prompt_tokens": lambda reply: reply.prompt_tokens,
    "cached_tokens": lambda reply: reply.cached_tokens,
    "evaluated_tokens": lambda reply: reply.evaluated_tokens,
    "output_tokens": lambda reply: reply.generated_tokens,
}


def measure_load(
    load: Load, variant: str, trial: int
) -> tuple[list[Measurement], list[Unmeasured]]:
    """The measurements of one load step, labelled `step`.

    Sums are over the requests that were served, medians and rates over those of them that came
    after the warm-up; a request that was refused is counted in `requests_failed` and nowhere else.

    Args:
        load: What it brought.
        variant: Name of the variant.
        trial: From 1.
    """
    labels = {"step": load.name}
    measured: list[Measurement] = []
    unmeasured: list[Unmeasured] = []

    def add(name: str, value: Value | None, source: str, why: str) -> None:
        if value is None:
            unmeasured.append(Unmeasured(name, variant, why, trial=trial, labels=labels))
            return
        unit = CATALOGUE[name].unit
        measured.append(Measurement(name, value, unit, variant, trial, labels, source=source))

    replies = [served.reply for served in load.served]
    none = "no request of it was served"
    add("requests_failed", len(load.refused), "replies", "")
    for name, count_of in _COUNTS.items():
        total = _sum([count_of(reply) for reply in replies])
        why = f"not every reply tells its {name.replace('_', ' ')}" if replies else none
        add(name, total, "sum of replies", why)
    warm_up = sum(served.warm_up for served in load.served)
    if warm_up:
        replies = [served.reply for served in load.served if not served.warm_up]
        none = "no request of it was served after its warm-up"
    seconds = _wall_ns(load, replies) / _NS_PER_SECOND
    output = _sum([reply.generated_tokens for reply in replies])
    add("requests_per_second", len(replies) / seconds if replies else None, CLIENT_CLOCK, none)
    per_second = None if output is None else output / seconds
    add("output_tokens_per_second", per_second, CLIENT_CLOCK, none)
    stamps = [reply.stamps for reply in replies]
    first = [s.first_token_ns - s.sent_ns for s in stamps if s.first_token_ns]
    source = f"{CLIENT_CLOCK}, median of replies"
    if warm_up:
        source += f", {warm_up} of warm-up left out"
    why = "no token arrived as an event of its own" if replies else none
    add("ttft_ms", _median_ms(first), source, why)
    add("e2e_ms", _median_ms([s.end_ns - s.sent_ns for s in stamps]), source, none)
    return measured, unmeasured


def _wall_ns(load: Load, replies: Sequence[Reply]) -> int:
    """How long the requests took that count: of a load with a warm-up from the first of them."""
    if len(replies) == len(load.served) or not replies:
        return load.wall_ns
    stamps = [reply.stamps for reply in replies]
    return max(s.end_ns for s in stamps) - min(s.sent_ns for s in stamps)


def _sum(counts: Sequence[int | None]) -> int | None:
    if not counts or None in counts:
        return None
    return sum(count or 0 for count in counts)


def _median_ms(spans_ns: Sequence[int]) -> float | None:
    if not spans_ns:
        return None
    ordered = sorted(spans_ns)
    middle = len(ordered) // 2
    low = ordered[middle] if len(ordered) % 2 else ordered[middle - 1]
    return (low + ordered[middle]) / 2 / _NS_PER_MS
