"""What is left of a server that failed: its end, its crash, its slots, what it was asked; pure."""

from __future__ import annotations

from collections.abc import Sequence

from benchsuite.logform.facts import LogFacts
from benchsuite.model.record import Forensics, InFlight, ServerEnd, SlotState

_MOST_ERRORS = 5


def forensics(
    log: LogFacts,
    end: ServerEnd | None,
    in_flight: Sequence[tuple[dict[str, str], int | None]],
) -> Forensics | None:
    """What is left, in parts.

    Args:
        log: Read to its end.
        end: How the process ended; None where it still runs.
        in_flight: Labels and pinned slot of each request without a reply, in the order of sending.

    Returns:
        None where nothing at all is left.
    """
    slots = slot_states(log)
    crash = log.crash
    left = Forensics(
        exit_code=None if end is None else end.exit_code,
        signal=None if end is None else end.signal,
        crash="" if crash is None else crash.sentence,
        kind="" if crash is None else crash.kind,
        file="" if crash is None else crash.file,
        line=None if crash is None else crash.line,
        expression="" if crash is None else crash.expression,
        device=None if crash is None else crash.device,
        function="" if crash is None else crash.function,
        in_flight=_in_flight(in_flight, slots),
        slots=slots,
        errors=tuple(dict.fromkeys(log.error_lines))[-_MOST_ERRORS:],
        backtrace=log.backtrace,
    )
    return None if left == Forensics() else left


def slot_states(log: LogFacts) -> tuple[SlotState, ...]:
    """What each slot did last, by the log's events; empty where the log names no slot."""
    found = {slot: SlotState(slot) for slot in range(log.n_slots or 0)}
    for event in log.events:
        if event.slot is None:
            continue
        before = found.get(event.slot, SlotState(event.slot))
        if event.kind == "launched":
            found[event.slot] = SlotState(event.slot, event.task, processing=True)
        elif event.kind == "new_prompt" and event.task == before.task:
            tokens = event.numbers.get("n_tokens")
            found[event.slot] = SlotState(
                event.slot,
                before.task,
                before.processing,
                None if tokens is None else int(tokens),
            )
        elif event.kind == "released" and event.task == before.task:
            found[event.slot] = SlotState(event.slot, before.task, False, before.prompt_tokens)
    return tuple(found[slot] for slot in sorted(found))


def _in_flight(
    requests: Sequence[tuple[dict[str, str], int | None]], slots: Sequence[SlotState]
) -> tuple[InFlight, ...]:
    """Each request, with its slot where only one slot can be meant."""
    busy = {slot.slot: slot for slot in slots if slot.processing}
    found = []
    for labels, wanted in requests:
        slot = busy.get(wanted) if wanted is not None else None
        if slot is None and len(requests) == 1 and len(busy) == 1:
            (slot,) = busy.values()
        found.append(
            InFlight(
                labels=labels,
                wanted_slot=wanted,
                slot=None if slot is None else slot.slot,
                prompt_tokens=None if slot is None else slot.prompt_tokens,
            )
        )
    return tuple(found)
