"""What `/slots` says, from the builds of 2024 to today; pure, and never raises.

Seen: 10092, 10434 and 11549 (recorded), 11434 (source). Early 2024: `state` (0 idle), `task_id` or
`id_task`, `prompt`, and `next_token` as one object; 2025: `is_processing`; late 2025: token counts
and `next_token` as a list. An idle slot of 10092 still tells counts of its last task
(`n_prompt_tokens_processed: 1`, `n_prompt_tokens_cache: 0`, where 178 were cached), so these count
only while it is busy.
"""

from __future__ import annotations

from typing import Any

import msgspec

from benchsuite.client.loose import count_of, flag_of, object_of

SOURCE = "/slots"
"""The name of this source in measurements."""


class Slot(msgspec.Struct, frozen=True):
    """One slot; None for what this build does not tell."""

    id: int
    n_ctx: int | None = None  # tokens
    is_busy: bool | None = None
    task: int | None = None  # of the current request, else of the last
    held_tokens: int | None = None  # in the slot: prompt and what was generated
    evaluated_tokens: int | None = None  # of the current prompt; None while idle
    cached_tokens: int | None = None  # of the current prompt; None while idle
    output_tokens: int | None = None  # generated for the current request, else the last
    is_speculative: bool | None = None


def parse_slots(body: Any) -> tuple[Slot, ...] | None:
    """The slots in the decoded body of `/slots`; None where it is no list of slots."""
    if not isinstance(body, list):
        return None
    slots = [_slot(row, number) for number, row in enumerate(body)]
    found = [slot for slot in slots if slot is not None]
    return tuple(found) if len(found) == len(slots) else None


def _slot(row: Any, number: int) -> Slot | None:
    told = object_of(row)
    if not told.keys() & {"id", "state", "is_processing", "n_ctx"}:
        return None
    busy = _is_busy(told)
    token = told.get("next_token")
    if isinstance(token, list):
        token = token[0] if token else None
    place = count_of(told, "id")
    return Slot(
        id=number if place is None else place,
        n_ctx=count_of(told, "n_ctx", least=1),
        is_busy=busy,
        task=_first(count_of(told, "id_task"), count_of(told, "task_id")),  # -1: none yet
        held_tokens=_held(told),
        evaluated_tokens=count_of(told, "n_prompt_tokens_processed") if busy else None,
        cached_tokens=count_of(told, "n_prompt_tokens_cache") if busy else None,
        output_tokens=count_of(object_of(token), "n_decoded"),
        is_speculative=flag_of(told, "speculative"),
    )


def _is_busy(told: dict[str, Any]) -> bool | None:
    now = flag_of(told, "is_processing")
    if now is not None:
        return now
    state = count_of(told, "state")
    return None if state is None else state != 0


def _held(told: dict[str, Any]) -> int | None:
    found = _first(count_of(told, "n_prompt_tokens"), count_of(told, "n_past"))
    if found is not None:
        return found
    tokens = told.get("cache_tokens")  # a list of ids, or their number
    return len(tokens) if isinstance(tokens, list) else count_of(told, "cache_tokens")


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
