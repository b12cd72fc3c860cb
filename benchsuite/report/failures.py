"""How launches failed, with what is left of the server, and what became of known issues."""

from __future__ import annotations

from collections.abc import Iterator

from benchsuite.model.record import Failure, Forensics, InFlight, RunRecord, SlotState
from benchsuite.report.layout import Style, cut, safe, wrap

_LAST_LINES = 8
_LAST_LINES_EXPECTED = 2  # of a launch that failed as expected
_FRAMES = 12
_SLOTS = 8


def known_issue_lines(record: RunRecord, look: Style) -> list[str]:
    """What became of each known issue; nothing of those that were not considered."""
    colours = {"xfail": "dim", "xpass": "red", "other failure": "red"}
    lines: list[str] = []
    for issue in record.known_issues:
        if issue.outcome == "not considered":
            continue
        label = "XPASS" if issue.outcome == "xpass" else issue.outcome
        words = f"{issue.issue} (variant {issue.variant}): {label}: {issue.reason}"
        if issue.outcome == "xpass":
            words = f"{label}: {issue.reason}"
        elif issue.outcome == "other failure":
            words += f"; see {issue.place}"
        made = wrap(safe(words), look.width, "  ")
        lines += [look.paint(part, colours[issue.outcome]) for part in made]
    return ["known issues:", *lines] if lines else []


def failure_lines(record: RunRecord, look: Style, *, trial: str = "trial") -> list[str]:
    """How launches failed, with what is left of them; `trial` is what their numbers count."""
    lines: list[str] = []
    for launch in record.launches:
        failure = launch.failure
        if failure is None:
            continue
        expected = launch.variant in record.excused
        head = f"variant {launch.variant}, {trial} {launch.trial}: {failure.message}"
        if expected:
            head += " (expected)"
        colour = "dim" if expected else "red"
        lines += [look.paint(part, colour) for part in wrap(safe(head), look.width)]
        if failure.hint and not expected:
            for part in failure.hint.splitlines():
                lines += wrap(safe(part.strip()), look.width, "  ")
        if failure.unknowable:
            words = f"unknown because of it: {', '.join(failure.unknowable)}"
            lines += wrap(safe(words), look.width, "  ")
        for words in forensic_words(failure):
            lines += wrap(safe(words), look.width, "  ")
        if failure.forensics is not None and not expected:
            lines += _backtrace_lines(failure.forensics, look)
        if failure.last_lines:
            log = f" ({launch.log})" if launch.log else ""
            lines.append(safe(f"  last lines of the server's log{log}:"))
            last = failure.last_lines[-(_LAST_LINES_EXPECTED if expected else _LAST_LINES) :]
            lines += [f"  | {cut(safe(line), look.width - 4)}" for line in last]
    return lines


def forensic_words(failure: Failure) -> Iterator[str]:
    """What is left, as short sentences; what the message says already is left out."""
    left = failure.forensics
    if left is None:
        return
    if left.crash and left.crash not in failure.message:
        yield f"it printed: {left.crash}"
    if left.in_flight:
        yield f"in flight: {'; '.join(_in_flight_words(one) for one in left.in_flight)}"
    if left.slots:
        shown = [_slot_words(slot) for slot in left.slots[:_SLOTS]]
        if len(left.slots) > _SLOTS:
            shown.append(f"and {len(left.slots) - _SLOTS} more")
        yield f"slots: {'; '.join(shown)}"


def _in_flight_words(request: InFlight) -> str:
    labels = request.labels
    if "session" in labels:
        words = f"turn {labels.get('turn', '?')} of session {labels['session']}"
    else:
        words = f"request {labels.get('request', '?')}"
    told = []
    if request.prompt_tokens is not None:
        told.append(f"{request.prompt_tokens} prompt tokens")
    if request.slot is not None:
        told.append(f"on slot {request.slot}")
    elif request.wanted_slot is not None:
        told.append(f"asked for slot {request.wanted_slot}")
    return f"{words} ({', '.join(told)})" if told else words


def _slot_words(slot: SlotState) -> str:
    if slot.task is None:
        return f"{slot.slot} unused"
    tokens = "" if slot.prompt_tokens is None else f", {slot.prompt_tokens} prompt tokens"
    state = "processing" if slot.processing else "idle after"
    return f"{slot.slot} {state} task {slot.task}{tokens}"


def _backtrace_lines(left: Forensics, look: Style) -> list[str]:
    if not left.backtrace:
        return []
    lines = ["  backtrace, innermost first:"]
    lines += [f"  | {cut(safe(frame), look.width - 4)}" for frame in left.backtrace[:_FRAMES]]
    if len(left.backtrace) > _FRAMES:
        lines.append(f"  and {len(left.backtrace) - _FRAMES} more frames, in the run's record")
    return lines
