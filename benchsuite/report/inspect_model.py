"""What a model's cache must weigh, as a table for people and as JSON for programs."""

from __future__ import annotations

from typing import Any

import msgspec

from benchsuite.metrics.kv_formula import CacheSettings, ExpectedMemory
from benchsuite.metrics.select import format_series
from benchsuite.model.record import Measurement, ModelFacts
from benchsuite.model.shape import AttentionLayer, ModelShape, UnknownMemory
from benchsuite.report.json import document, measured
from benchsuite.report.layout import Style, columns, cut, safe, wrap
from benchsuite.units import MIB, format_number, format_value


class ModelInspection(msgspec.Struct, frozen=True):
    """What was read of one model file, and what it makes of memory with these settings."""

    facts: ModelFacts
    settings: CacheSettings
    shape: ModelShape | UnknownMemory
    expected: ExpectedMemory | UnknownMemory
    measurements: tuple[Measurement, ...] = ()  # the expected memory as gates name it
    hashes: tuple[tuple[str, str], ...] = ()  # file and SHA-256 of all of it, where asked for

    @property
    def notes(self) -> tuple[str, ...]:
        """What else is to be known of the numbers."""
        shape = self.shape
        if not isinstance(shape, ModelShape):
            return ()
        found = []
        if shape.nextn_build:
            layers = _count(shape.nextn_layers, "layer")
            told = f"builds before {shape.nextn_build} may give memory also to the {layers} that "
            found.append(f"{told}only predict further tokens (nextn)")
        if shape.mla and self.settings.type_k != self.settings.type_v:
            found.append(
                "builds from 10434 on refuse K and V types that differ with this model (MLA)"
            )
        return tuple(found)

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Why memory is unknown; empty where it is known."""
        found = self.expected
        return (f"unreadable: {found.reason}",) if isinstance(found, UnknownMemory) else ()


def render_model_json(found: ModelInspection) -> bytes:
    """`{path, model, settings, caches[], state, measurements[], unreadable[]}` and a newline."""
    facts, shape, expected = found.facts, found.shape, found.expected
    body: dict[str, Any] = {
        "path": facts.path,
        "model": {
            "name": facts.name,
            "architecture": facts.architecture,
            "attention": facts.attention,
            "size_bytes": facts.size_bytes,
            "sampled_sha256": facts.sampled_sha256,
            "n_ctx_train": facts.n_ctx_train,
            "sha256": dict(found.hashes) or None,
            "shape": shape if isinstance(shape, ModelShape) else None,
        },
        "settings": {
            **msgspec.to_builtins(found.settings),
            "slots": found.settings.slots,
            "kv_unified": found.settings.is_unified,
        },
        "n_ctx_seq": None,
        "caches": [],
        "state": None,
        "measurements": measured(found.measurements),
        "notes": found.notes,
        "unreadable": found.unreadable,
    }
    if isinstance(expected, ExpectedMemory):
        body["n_ctx_seq"] = expected.n_ctx_seq
        body["caches"] = [
            {**msgspec.to_builtins(cache), "mib": cache.mib} for cache in expected.caches
        ]
        if (state := expected.state) is not None:
            body["state"] = {**msgspec.to_builtins(state), "mib": state.mib}
    return document(body)


def render_model(found: ModelInspection, style: Style | None = None) -> str:
    """The same for people, with a newline at its end.

    Args:
        found: What was read.
        style: None is plain text of 80 columns.
    """
    look = style or Style()
    lines = [look.paint(cut(safe(found.facts.path), look.width), "bold")]
    for sentence in (_model(found.facts), *_layers(found.shape), _asked(found.settings)):
        lines += wrap(safe(sentence), look.width)
    lines += [f"sha256 {digest}  {safe(file)}" for file, digest in found.hashes]
    if isinstance(found.expected, ExpectedMemory):
        lines += ["", *_caches(found.expected, look)]
        lines += ["", *_totals(found.measurements, look)]
    for text in found.notes:
        lines += ["", *wrap(safe(f"note: {text}"), look.width)]
    for text in found.unreadable:
        lines += ["", *(look.paint(line, "red") for line in wrap(safe(text), look.width))]
    return "\n".join(lines) + "\n"


def _model(facts: ModelFacts) -> str:
    words = [facts.name or "", f"architecture {facts.architecture or 'unknown'}"]
    if facts.attention is not None:
        words.append(f"attention {facts.attention.replace('_', ' ')}")
    if facts.n_ctx_train is not None:
        words.append(f"trained with {facts.n_ctx_train} tokens")
    if facts.size_bytes is not None:
        words.append(f"{format_number(facts.size_bytes / 1e6, 1)} MB")
    return ", ".join(word for word in words if word)


def _layers(shape: ModelShape | UnknownMemory) -> list[str]:
    """One sentence for each kind of layer."""
    if isinstance(shape, UnknownMemory):
        return []
    words = [f"{shape.n_layers} layers"]
    kinds: dict[AttentionLayer, int] = {}
    for layer in shape.layers:
        kinds[layer] = kinds.get(layer, 0) + 1
    for layer, count in kinds.items():
        window = f", window {shape.window}" if layer.sliding else ""
        values = f"values {layer.value_size}" if layer.value_size else "no values (MLA)"
        words.append(
            f"{count} with {_count(layer.kv_heads, 'KV head')} of keys {layer.key_size}, "
            f"{values}{window}"
        )
    if shape.recurrent_layers:
        words.append(
            f"{shape.recurrent_layers} recurrent with R {shape.r_width}, S {shape.s_width}"
        )
    return ["; ".join(words)]


def _asked(settings: CacheSettings) -> str:
    slots = _count(settings.slots, "slot")
    if settings.n_parallel < 0:
        slots += " (automatic)"
    context = str(settings.n_ctx) if settings.n_ctx else "the model's own"
    words = [
        f"context {context}",
        slots,
        "unified KV" if settings.is_unified else "per-slot KV",
        f"K {settings.type_k}",
        f"V {settings.type_v}",
        f"micro-batch {settings.n_ubatch}",
    ]
    if settings.swa_full:
        words.append("full-size sliding cache")
    if not settings.flash_attention:
        words.append("no flash attention")
    return f"with {', '.join(words)}:"


def _caches(expected: ExpectedMemory, look: Style) -> list[str]:
    rows: list[tuple[str, ...]] = [("cache", "layers", "cells", "streams", "K MiB", "V MiB", "MiB")]
    for cache in expected.caches:
        k, v = cache.k_bytes / MIB, cache.v_bytes / MIB
        numbers = (cache.layers, cache.cells, cache.streams)
        sizes = (f"{k:.2f}", f"{v:.2f}", f"{cache.mib:.2f}")
        rows.append((cache.cache or "all", *map(str, numbers), *sizes))
    if expected.state is not None:
        state = expected.state
        r, s = state.r_bytes / MIB, state.s_bytes / MIB
        sizes = (f"R {r:.2f}", f"S {s:.2f}", f"{state.mib:.2f}")
        rows.append(("recurrent", str(state.layers), f"{state.rows} rows", "", *sizes))
    made = columns(rows, (12, 8, 14, 8, 12, 12, 14))
    text = ["".join(row).rstrip() for row in made]
    return [look.paint(text[0], "dim"), *text[1:]]


def _totals(measurements: tuple[Measurement, ...], look: Style) -> list[str]:
    rows = [("expected", "value")]
    rows += [(format_series(m.name, m.labels), format_value(m.value, m.unit)) for m in measurements]
    text = ["".join(row).rstrip() for row in columns(rows, (look.width - 16, 14))]
    return [look.paint(text[0], "dim"), *text[1:]]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
