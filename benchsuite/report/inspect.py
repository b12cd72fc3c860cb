"""What a saved log says, as a table for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from benchsuite.logform.facts import LogFacts
from benchsuite.metrics.select import format_series
from benchsuite.model.record import Measurement, Unmeasured
from benchsuite.report.json import document, measured
from benchsuite.report.layout import Style, columns, cut, safe, wrap
from benchsuite.units import format_value

_ERROR_LINES = 5


class LogInspection(msgspec.Struct, frozen=True):
    """What was read of one log.

    `unreadable` is not empty where KV memory could not be told: what is printed then is not all.
    """

    path: str
    facts: LogFacts
    measurements: tuple[Measurement, ...]
    unmeasured: tuple[Unmeasured, ...]

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Why KV memory, of target or draft, or recurrent state is unknown; each once."""
        found = [f"unreadable: {text}" for text in self.facts.unreadable]
        for load in self.facts.loads:  # of a router's other children
            if load.instance != self.facts.load.instance:
                others = load.unreadable + load.unreadable_draft + load.unreadable_rs
                found += [f"unreadable: [{load.instance}] {text}" for text in others]
        if not found:
            lost = [u.reason for u in self.unmeasured if u.name in ("kv_mib", "rs_mib")]
            found = [f"unreadable: {reason}" for reason in lost]
        return tuple(dict.fromkeys(found))


def render_inspection_json(found: LogInspection) -> bytes:
    """`{build, measurements[], events, crash, failure, unreadable[], ...}` and a newline."""
    facts = found.facts
    crash = failure = None
    if facts.crash is not None:
        crash = {
            "kind": facts.crash.kind,
            "file": facts.crash.file or None,
            "line": facts.crash.line,
            "expression": facts.crash.expression or None,
            "message": facts.crash.message or None,
            "function": facts.crash.function or None,
            "signal": None,  # a log alone does not tell it
            "device": facts.crash.device,
        }
    if facts.failure is not None:
        failure = {"kind": facts.failure.kind, "text": facts.failure.text}
    body: dict[str, Any] = {
        "path": found.path,
        "build": facts.build,
        "verbosity": facts.verbosity,
        "slots": facts.n_slots,
        "n_ctx_slot": facts.n_ctx_slot,
        "kv_unified": facts.kv_unified,
        "measurements": measured(found.measurements),
        "kv_buffers": facts.kv_buffers,
        "kv_sizes": facts.kv_sizes,
        "rs_buffers": facts.rs_buffers,
        "rs_sizes": facts.load.rs_sizes,
        "buffers": facts.load.buffers,
        "memory_table": {"at_exit": facts.load.exit_table, "at_fitting": facts.load.fit_table},
        "cache_state": facts.cache_state,
        "requests": facts.requests,
        "events": facts.event_counts,
        "warnings": {"lines": facts.warnings, "last": facts.warning_lines},
        "crash": crash,
        "failure": failure,
        "notes": facts.load.notes,
        "unreadable": found.unreadable,
    }
    return document(body)


def render_inspection(found: LogInspection, style: Style | None = None) -> str:
    """The same for people, with a newline at its end.

    Args:
        found: What was read.
        style: None is plain text of 80 columns.
    """
    look = style or Style()
    facts = found.facts
    lines = [look.paint(cut(safe(found.path), look.width), "bold"), *wrap(_server(facts), 80)]
    if found.measurements:
        rows = [
            (safe(format_series(m.name, m.labels)), format_value(m.value, m.unit))
            for m in found.measurements
        ]
        lines += ["", *_table(("measured", "value"), rows, look)]
    others = [b for b in facts.load.buffers if b.context == "target"]
    if others:
        rows = [(f"{b.kind} {safe(b.device)}".strip(), f"{b.mib:.2f} MiB") for b in others]
        lines += ["", *_table(("other buffers", "size"), rows, look)]
    for title, table in (
        ("memory at exit", facts.load.exit_table),
        ("memory estimated by fitting", facts.load.fit_table),
    ):
        rows = [
            (safe(row.device), f"{row.model_mib} + {row.context_mib} + {row.compute_mib} MiB")
            for row in table
        ]
        if rows:
            lines += ["", *_table((title, "model + context + compute"), rows, look)]
    lines += _findings(found, look)
    return "\n".join(lines) + "\n"


_EVENTS = (
    ("full_reprocessing", "full re-evaluation", "full re-evaluations"),
    ("checkpoint_created", "checkpoint made", "checkpoints made"),
    ("checkpoint_restored", "checkpoint restored", "checkpoints restored"),
    ("cache_saved", "prompt-cache save", "prompt-cache saves"),
    ("cache_loaded", "prompt-cache load", "prompt-cache loads"),
    ("cache_evicted", "prompt-cache eviction", "prompt-cache evictions"),
    ("context_shift", "context shift", "context shifts"),
    ("truncated", "truncation", "truncations"),
    ("kv_full", "time without room in the KV cache", "times without room in the KV cache"),
)


def _event_words(facts: LogFacts) -> str:
    """How many events of the kinds that matter at a glance; empty where there were none."""
    counts = dict(facts.event_counts)
    # a save is announced before it turns out that the cache has the prompt, or is too small
    unsaved = counts.get("cache_kept", 0) + counts.get("cache_refused", 0)
    counts["cache_saved"] = max(0, counts.get("cache_saved", 0) - unsaved)
    return ", ".join(
        f"{counts[kind]} {one if counts[kind] == 1 else many}"
        for kind, one, many in _EVENTS
        if counts.get(kind, 0)
    )


def _server(facts: LogFacts) -> str:
    words = [facts.build or "an unknown build"]
    if facts.n_slots is not None:
        words.append(f"{facts.n_slots} slots")
    if facts.n_ctx_slot is not None:
        words.append(f"{facts.n_ctx_slot} tokens each")
    if facts.kv_unified is not None:
        words.append("unified KV" if facts.kv_unified else "per-slot KV")
    names = {"cache-type-k": "K", "cache-type-v": "V"}
    names |= {f"{flag}-draft": f"draft {name}" for flag, name in names.items()}
    words += [f"{names[flag]} {kind}" for flag, kind in facts.kv_types.items()]
    words.append(f"{facts.requests} requests timed")
    return safe(", ".join(words))


def _table(head: tuple[str, str], rows: Sequence[tuple[str, str]], look: Style) -> list[str]:
    made = columns([head, *rows], (look.width - 27, 25))
    text = ["".join(row).rstrip() for row in made]
    return [look.paint(text[0], "dim"), *text[1:]]


def _findings(found: LogInspection, look: Style) -> list[str]:
    facts = found.facts
    told = [("crash", facts.crash.sentence, "red")] if facts.crash is not None else []
    if facts.failure is not None:
        told.append(("failure", f"{facts.failure.kind}: {facts.failure.text}", "red"))
    if facts.cache_state is not None:
        state = facts.cache_state
        limit = "no limit" if state.limit_mib is None else f"limit {state.limit_mib:.2f} MiB"
        words = f"{state.prompts} prompts, {state.mib:.2f} MiB ({limit})"
        told.append(("prompt cache", words, "cyan"))
    if counts := _event_words(facts):
        told.append(("events", counts, "cyan"))
    if facts.warnings:
        words = f"{facts.warnings} lines near the end, the last: {facts.warning_lines[-1]}"
        told.append(("warnings", words, "cyan"))
    told += [("note", note, "cyan") for note in facts.load.notes]
    told += [("", text, "red") for text in found.unreadable]
    lines = [""] if told else []
    for name, text, colour in told:
        words = safe(f"{name}: {text}" if name else text)
        lines += [look.paint(line, colour) for line in wrap(words, look.width)]
    if facts.crash is not None or facts.failure is not None:
        last = facts.error_lines[-_ERROR_LINES:]
        lines += [f"  | {cut(safe(line), look.width - 4)}" for line in last]
    return lines
