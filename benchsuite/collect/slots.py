"""Which slot served a request whose reply does not say so, read from the log; pure."""

from __future__ import annotations

from collections.abc import Sequence

from benchsuite.client.reply import Reply
from benchsuite.logform.facts import SlotTiming

_PRINTED_MS = 0.00501
"""The log prints milliseconds with two decimals, the reply with three (build 11549)."""


def slot_of(reply: Reply, timings: Sequence[SlotTiming]) -> int | None:
    """The slot whose printed timings are this reply's.

    The log names slot and task in its `print_timing` lines, the reply neither; both give the same
    prompt and generation counts and times, which no two requests share in practice.

    Returns:
        The slot; None if no line, or lines of several slots, match.
    """
    matching = {timing.slot for timing in timings_of(reply, timings) if timing.slot is not None}
    return matching.pop() if len(matching) == 1 else None


def timings_of(reply: Reply, timings: Sequence[SlotTiming]) -> list[SlotTiming]:
    """The printed timings that can be this reply's: same counts, and times as they are printed."""
    told = reply.timings
    if told.prompt_ms is None or told.prompt_n is None:
        return []
    return [
        timing
        for timing in timings
        if timing.prompt_tokens == told.prompt_n
        and abs(timing.prompt_ms - told.prompt_ms) <= _PRINTED_MS
        and (
            told.predicted_ms is None
            or timing.decode_ms is None
            or abs(timing.decode_ms - told.predicted_ms) <= _PRINTED_MS
        )
    ]


def contradiction_with_log(reply: Reply, timings: Sequence[SlotTiming]) -> str | None:
    """A sentence if the log counts other evaluated tokens than the only reply since the last look.

    Args:
        reply: It names no slot, and no line matches it.
        timings: Those printed since the last look; with more or less than one nothing is said.
    """
    told = reply.timings.prompt_n
    if len(timings) != 1 or told is None or timings[0].prompt_tokens == told or reply.copies:
        return None
    return (
        f"the log counts {timings[0].prompt_tokens} evaluated prompt tokens "
        f"(print_timing), the reply {told}"
    )
