"""What a running server says of itself, as a table for people and as JSON for programs."""

from __future__ import annotations

from typing import Any

import msgspec

from benchsuite.client.props import Props
from benchsuite.client.slots import Slot
from benchsuite.metrics.select import format_series
from benchsuite.model.record import Measurement
from benchsuite.report.json import document, measured
from benchsuite.report.layout import Style, columns, cut, safe, wrap
from benchsuite.units import format_value

KV_REASON = (
    "KV memory cannot be seen over HTTP: the server's log tells it; read one with "
    "'benchsuite inspect log FILE', or declare it for a run (observe = { log = \"FILE\" })"
)
UNIFIED_REASON = "whether slots share one KV cache is told by the log alone"

_WORDS = {
    "slots": "slots",
    "n_ctx_slot": "context of one slot",
    "slots_busy": "busy slots",
    "held_tokens": "tokens held",
    "cached_tokens": "prompt tokens cached, now",
    "evaluated_tokens": "prompt tokens evaluated, now",
    "output_tokens": "tokens generated, now",
    "prompt_tokens_total": "prompt tokens evaluated",
    "prompt_tokens_cached_total": "prompt tokens cached",
    "prompt_seconds_total": "time on prompts",
    "prompt_tokens_seconds": "prompt speed",
    "tokens_predicted_total": "tokens generated",
    "tokens_predicted_seconds_total": "time on generation",
    "predicted_tokens_seconds": "generation speed",
    "n_decode_total": "calls of llama_decode",
    "n_tokens_max": "longest sequence",
    "n_past_max": "longest sequence",
    "n_busy_slots_per_decode": "busy slots per llama_decode",
    "requests_processing": "requests being served",
    "requests_deferred": "requests waiting",
    "kv_cache_usage_ratio": "share of KV cells used",
    "kv_cache_tokens": "tokens in the KV cache",
    "spec_decode_num_draft_tokens_total": "draft tokens",
    "spec_decode_num_accepted_tokens_total": "draft tokens accepted",
    "spec_decode_num_drafts_total": "drafts verified",
    "spec_decode_num_accepted_tokens_per_pos_total": "draft tokens accepted",
}
"""Measurement -> what it is, for people; others are printed by their names."""


class Problem(msgspec.Struct, frozen=True):
    """Something that should have been readable."""

    text: str
    hint: str = ""  # what to do


class Unread(msgspec.Struct, frozen=True):
    """An endpoint that was not read, though nothing went wrong."""

    endpoint: str
    reason: str
    remedy: str  # what makes it readable; empty where nothing does


class ServerInspection(msgspec.Struct, frozen=True):
    """What was read of one server."""

    url: str
    state: str  # ready, sleeping, router, loading, unreadable
    props: Props
    slots: tuple[Slot, ...] | None  # None where not read
    measurements: tuple[Measurement, ...]
    unread: tuple[Unread, ...]
    notes: tuple[str, ...]
    problems: tuple[Problem, ...]

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Each problem as one sentence."""
        return tuple(f"unreadable: {problem.text}" for problem in self.problems)


def render_server_json(found: ServerInspection) -> bytes:
    """`{build, measurements[], unreadable[], ...}` with a newline at its end."""
    props = found.props
    values = {m.name: m.value for m in found.measurements if not m.labels}
    body: dict[str, Any] = {
        "url": found.url,
        "state": found.state,
        "build": props.build,
        "model": {
            "name": props.model,
            "path": props.model_path,
            "type": props.model_type,
            "modalities": props.modalities,
        },
        "slots": values.get("slots"),
        "n_ctx_slot": values.get("n_ctx_slot"),
        "kv_unified": None,  # not told over HTTP
        "slot_states": found.slots,
        "measurements": measured(found.measurements),
        "unmeasured": [
            {"name": "kv_mib", "reason": KV_REASON},
            {"name": "kv_unified", "reason": UNIFIED_REASON},
        ],
        "unread": found.unread,
        "notes": found.notes,
        "hints": [problem.hint for problem in found.problems if problem.hint],
        "unreadable": found.unreadable,
    }
    return document(body)


def render_server(found: ServerInspection, style: Style | None = None) -> str:
    """The same for people, with a newline at its end.

    Args:
        found: What was read.
        style: None is plain text of 80 columns.
    """
    look = style or Style()
    lines = [look.paint(cut(safe(found.url), look.width), "bold")]
    lines += wrap(safe(_server(found)), look.width)
    if found.measurements:
        lines += ["", *_table(found, look)]
    told = [(_words(one), "yellow") for one in found.unread]
    told += [(f"note: {note}", "cyan") for note in found.notes]
    if found.state in ("ready", "sleeping"):
        told += [(f"note: {UNIFIED_REASON}", "cyan"), (f"note: {KV_REASON}", "cyan")]
    for text, problem in zip(found.unreadable, found.problems, strict=True):
        told.append((text, "red"))
        if problem.hint:
            told.append((f"  {problem.hint}", "red"))
    lines += [""] if told else []
    for text, colour in told:
        indent = "  " if text.startswith("  ") else ""
        lines += [look.paint(line, colour) for line in wrap(safe(text.strip()), look.width, indent)]
    return "\n".join(lines) + "\n"


def _server(found: ServerInspection) -> str:
    props = found.props
    words = [found.state]
    if props.recognised:
        words.append(props.build or "an unknown build")
    if props.model is not None:
        kind = f" ({props.model_type})" if props.model_type else ""
        words.append(f"model {props.model}{kind}")
    taken = [name for name, is_taken in props.modalities.items() if is_taken]
    if taken:
        words.append(f"takes {' and '.join(taken)}")
    if found.slots:
        words.append("; ".join(_slot(slot) for slot in found.slots[:_MOST_SLOTS]))
        if len(found.slots) > _MOST_SLOTS:
            words.append(f"{len(found.slots) - _MOST_SLOTS} more slots")
    return ", ".join(words)


_MOST_SLOTS = 16


def _slot(slot: Slot) -> str:
    state = "of unknown state" if slot.is_busy is None else "busy" if slot.is_busy else "idle"
    return f"slot {slot.id} {state}"


def _table(found: ServerInspection, look: Style) -> list[str]:
    rows = [("measured", "value", "from")]
    for m in found.measurements:
        words = _WORDS.get(m.name, m.name)
        rows.append((safe(format_series(words, m.labels)), format_value(m.value, m.unit), m.source))
    made = columns(rows, (look.width - 34, 20, 10))
    text = ["".join(row).rstrip() for row in made]
    return [look.paint(text[0], "dim"), *text[1:]]


def _words(one: Unread) -> str:
    remedy = f"; {one.remedy}" if one.remedy else ""
    return f"{one.endpoint} was not read: {one.reason}{remedy}"
