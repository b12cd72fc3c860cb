"""Is the server that answers the server that was asked for? Slots, context, types, batches; pure.

`-np 1` in place of `-np 2` gives the very same KV and cached tokens on many workloads: only this
check sees it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchsuite.collect.machine import backend_kind
from benchsuite.model.record import ServerFacts
from benchsuite.model.scenario import FlagNeed, FlagValue

SECRET_FLAGS = frozenset({"api-key", "api-key-file", "hf-token", "ssl-key-file"})
"""Flags whose values are kept out of every record."""

_CONTEXT_PADDING = 256  # cells; contexts are padded to it (build 11434)
_OTHER_NAMES = {
    "cache-type-k-draft": "spec-draft-type-k",  # as builds since 2026 name it first
    "cache-type-v-draft": "spec-draft-type-v",
}
_SWITCH = {"on": "on", "true": "on", "1": "on", "off": "off", "false": "off", "0": "off"}
_TRUE = frozenset({"true", "on", "yes", "1", ""})


def unmet_requirements(
    flags: Mapping[str, FlagValue],
    needs: Mapping[str, FlagNeed],
    facts: ServerFacts,
    device: str | None = None,
) -> list[str]:
    """What the server has otherwise than asked, one sentence each; empty where all is as asked.

    Args:
        flags: The resolved flags of the variant, canonical long names.
        needs: What the scenario needs; its minima are checked also where no flag was given.
        facts: What the server says of itself; None there means that it does not tell.
        device: Kind of device that must be in use; None asks for none.
    """
    found: list[str] = []
    slots = _number(flags.get("parallel"))
    if slots is not None and slots > 0 and facts.slots is not None and facts.slots != slots:
        found.append(
            f"parallel: asked for {slots} slots, the server has {facts.slots} (/props total_slots)"
        )
    found += _minima(flags, needs, facts)
    unified = flags.get("kv-unified")
    if isinstance(unified, str) and facts.kv_unified is not None:
        asked = unified.lower() in _TRUE
        if asked != facts.kv_unified:
            found.append(
                f"kv-unified: asked for {_word(asked)}, the server runs {_word(facts.kv_unified)}"
            )
    for flag, kind in facts.kv_types.items():
        wanted = flags.get(flag, flags.get(_OTHER_NAMES.get(flag, "")))
        if isinstance(wanted, str) and wanted.lower() != kind:
            found.append(f"{flag}: asked for {wanted}, the log says {kind}")
    found += _batches(flags, facts.context_flags)
    kinds = sorted({backend_kind(name) for name in facts.devices})
    if device is not None and kinds and device.casefold() not in {k.casefold() for k in kinds}:
        found.append(f"device: asked for one of kind {device}, in use: {', '.join(kinds)}")
    if facts.n_ctx_slot is not None:
        found.extend(_context(flags, needs, facts.n_ctx_slot, facts))
    return found


def other_model(asked: str, told: str | None) -> str | None:
    """A sentence if the server names another model file than it was started with.

    Args:
        asked: Path of the file; empty where it was not known before.
        told: `model_path` of `/props`, as the server was given it (builds 10092 to 11549); None
            where it does not tell.
    """
    names = [re.split(r"[/\\]", path)[-1] for path in (asked, told or "")]
    if not all(names) or names[0] == names[1]:
        return None
    return f"model: asked for {names[0]}, the server has {names[1]} (/props model_path)"


def _minima(
    flags: Mapping[str, FlagValue], needs: Mapping[str, FlagNeed], facts: ServerFacts
) -> list[str]:
    """What is less than the scenario needs, where no flag says more; contexts are told apart."""
    sources = {
        "parallel": (facts.slots, "slots", "/props total_slots"),
        **{
            name: (_number(facts.context_flags.get(name)), "tokens", "log")
            for name in ("batch-size", "ubatch-size")
        },
    }
    found = []
    for name, (value, unit, source) in sources.items():
        need = needs.get(name)
        if need is None or need.min is None or name in flags or value is None:
            continue
        if value < need.min:
            found.append(
                f"{name}: the scenario needs {need.min} {unit}, the server has {value} ({source})"
            )
    return found


def _batches(flags: Mapping[str, FlagValue], told: Mapping[str, str]) -> list[str]:
    """Batch sizes and flash attention that are others than asked; a smaller size may be a cap.

    The batch is at most the context and the micro-batch at most the batch; where only its last
    token's output or an embedding is wanted, both are made equal (builds 10092 to 11549).
    """
    found = []
    batch, micro = _number(told.get("batch-size")), _number(told.get("ubatch-size"))
    asked = _number(flags.get("batch-size"))
    if asked and batch is not None and batch != micro and batch != asked:
        total = _number(flags.get("ctx-size"))
        if total is None or batch != min(asked, total):
            found.append(f"batch-size: asked for {asked}, the log says {batch}")
    asked = _number(flags.get("ubatch-size"))
    if asked and batch is not None and micro is not None and micro != min(asked, batch):
        found.append(f"ubatch-size: asked for {asked}, the log says {micro}")
    flash, attention = flags.get("flash-attn"), told.get("flash-attn")
    wanted = _SWITCH.get(flash.lower()) if isinstance(flash, str) else None
    if wanted is not None and attention is not None and wanted != attention:
        found.append(f"flash-attn: asked for {wanted}, the log says {attention}")
    return found


def _context(
    flags: Mapping[str, FlagValue],
    needs: Mapping[str, FlagNeed],
    n_ctx_slot: int,
    facts: ServerFacts,
) -> list[str]:
    found: list[str] = []
    need = needs.get("ctx-size")
    if need is not None and need.min is not None and need.per == "slot" and n_ctx_slot < need.min:
        found.append(
            f"ctx-size: the scenario needs {need.min} tokens a slot, the server has {n_ctx_slot}"
        )
    total = _number(flags.get("ctx-size"))
    if facts.kind == "attached" or total is None or total <= 0:
        return found  # of someone else's server only the minimum is asked
    if facts.slots is None or facts.kv_unified is None:
        return found
    share = total if facts.kv_unified else total // facts.slots
    if facts.model.n_ctx_train:
        share = min(share, facts.model.n_ctx_train)  # a slot is capped at it, and that is said
    if facts.kind == "command" and not facts.model.n_ctx_train and n_ctx_slot < share:
        return found  # its model, which may cap it, cannot be seen from here
    if not share <= n_ctx_slot < share + _CONTEXT_PADDING and not found:
        found.append(
            f"ctx-size: {total} over {facts.slots} slots ({_word(facts.kv_unified)}) makes "
            f"{share} tokens a slot, the server has {n_ctx_slot}"
        )
    return found


def _number(value: FlagValue) -> int | None:
    try:
        return int(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _word(unified: bool) -> str:
    return "unified KV" if unified else "per-slot KV"
