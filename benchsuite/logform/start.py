"""Lines that a server prints once, while it starts: build, CPU features, slots, where it listens.

Each function takes a whole line, since some forms are JSON and some carry their fields at its end.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_N_SLOTS = re.compile(r'\bn_slots"?\s*[=:]\s*(\d{1,9})')
_N_CTX_SLOT = re.compile(r'\bn_ctx_slot"?\s*[=:]\s*(\d{1,12})')
_NEW_SLOT = re.compile(r"new slot,? n_ctx(?:_slot)? = (\d{1,12})")
_UNIFIED = re.compile(r"\bkv_unified\s*=\s*'?(true|false)")
_BUILD_INFO = re.compile(r'\bbuild_info: ([^\s\\"]+)')  # in JSON an escape and a quote follow
_BUILD = (
    re.compile(r"\bbuild:? =? ?(\d{1,9}) \((\w+)\)"),  # llama.cpp
    re.compile(r"\bbuild=(\d{1,9}) commit=\"?(\w+)"),  # ik_llama
    re.compile(r'"build":\s*(\d{1,9}),\s*"commit":\s*"(\w+)"'),  # JSON of early 2024
)
_CHECKPOINTS = re.compile(r"context checkpoints enabled, max = (\d{1,9})")
_CONTEXT = re.compile(r"llama_\w+: (n_batch|n_ubatch|flash_attn) +=\s+(\w+)\s*$")
_CONTEXT_FLAGS = {"n_batch": "batch-size", "n_ubatch": "ubatch-size", "flash_attn": "flash-attn"}
# `flash_attn` is 0 or 1 until mid 2025, then a word
_SWITCH = {"0": "off", "1": "on", "disabled": "off", "enabled": "on"}
_VERBOSITY = re.compile(r"verbosity = (\d{1,12})")
_SYSTEM = re.compile(r"system_info: [^|]*\|\s*(.*?)[\s|]*$")
_LISTENING = re.compile(r"listening on (https?://\S+?)[\s.]*(?: - |$)")
_LISTENING_AT = re.compile(
    r"listening.*?hostname[:=] ?\"?(?P<host>[^\s,\"]+)\"?,? +port[:=] ?\"?(?P<port>\d{1,5})"
)
_LOADING = re.compile(r"loading model '|(?:^|: )loading model$")
_SPAWNED = re.compile(r"spawning server instance with name=(?P<name>.+) on port (?P<port>\d{1,5})")
_EXITED = re.compile(r"instance name=(?P<name>.+) exited with status (?P<status>-?\d{1,9})")
_USED_DEVICE = re.compile(
    r"using device (?P<name>\S{1,80}) \((?P<model>.{0,200})\) \((?P<bus>[0-9a-fA-F:.]{5,20})\)"
    r" - \d{1,12} MiB free"
)


class Slots(NamedTuple):
    """What the line says that makes the slots; None for what it leaves out."""

    number: int
    n_ctx_slot: int | None
    kv_unified: bool | None


def parse_slots(text: str) -> Slots | None:
    """`initializing, n_slots = 2, n_ctx_slot = 4096, kv_unified = 'false'` and its older forms."""
    slots = _N_SLOTS.search(text)
    if slots is None or "initializing" not in text:
        return None
    context, unified = _N_CTX_SLOT.search(text), _UNIFIED.search(text)
    return Slots(
        int(slots[1]),
        None if context is None else int(context[1]),
        None if unified is None else unified[1] == "true",
    )


def parse_new_slot(text: str) -> int | None:
    """The context of one slot, from the line that makes it."""
    match = _NEW_SLOT.search(text) or _N_CTX_SLOT.search(text)
    return None if match is None else int(match[1])


def parse_prompt_cache(text: str, before: bool | None) -> bool | None:
    """Whether the host prompt cache is on (build 10092 to 11549, level 4); else `before`."""
    if "prompt cache is enabled" in text:
        return True
    return False if "prompt cache is disabled" in text else before


def parse_checkpoint_limit(text: str, before: int | None) -> int | None:
    """Context checkpoints that a slot may keep, 0 where they are off; else `before`."""
    match = _CHECKPOINTS.search(text)
    if match is not None:
        return int(match[1])
    return 0 if "context checkpoints disabled" in text else before


def parse_context(text: str) -> tuple[str, str] | None:
    """A flag of the context being made and its value: `llama_context: n_ubatch  = 512`."""
    match = _CONTEXT.fullmatch(text.strip())
    if match is None:
        return None
    flag = _CONTEXT_FLAGS[match[1]]
    return flag, _SWITCH.get(match[2], match[2]) if flag == "flash-attn" else match[2]


def parse_build(text: str) -> str | None:
    """The build as `/props` names it: `b10434-7e4c0a9`."""
    match = _BUILD_INFO.search(text)
    if match is not None:
        return match[1]
    for pattern in _BUILD:
        match = pattern.search(text)
        if match is not None:
            return f"b{match[1]}-{match[2]}"
    return None


def parse_verbosity(text: str) -> int | None:
    """The log verbosity; `-v` is printed as 2147483647 (build 10434)."""
    match = _VERBOSITY.search(text)
    return None if match is None else int(match[1])


def parse_cpu_features(text: str) -> str | None:
    """The features after the threads in a `system_info:` line: `CPU : SSE3 = 1 | AVX = 1`."""
    match = _SYSTEM.search(text)
    return None if match is None else match[1]


def parse_listening(text: str) -> str | None:
    """The URL in `listening on http://127.0.0.1:8080` or an older form."""
    match = _LISTENING.search(text)
    if match is not None:
        return match[1]
    match = _LISTENING_AT.search(text)
    return None if match is None else f"http://{match['host']}:{match['port']}"


def parse_used_device(text: str) -> tuple[str, str, str] | None:
    """A device that a load uses, its bus address and model (late 2025 on).

    Such as `CUDA0`, `0000:01:00.0`, `NVIDIA H200`.
    """
    match = _USED_DEVICE.search(text)
    return None if match is None else (match["name"], match["bus"], match["model"])


def begins_load(text: str) -> bool:
    """Whether a message says that the model (no draft) is being loaded, at a start or a wake."""
    return _LOADING.search(text) is not None


def parse_spawned(text: str) -> tuple[str, str] | None:
    """A router's name for a model and the port of the child that serves it."""
    match = _SPAWNED.search(text)
    return None if match is None else (match["name"], match["port"])


def parse_exited(text: str) -> tuple[str, int, str] | None:
    """A router's name for a model, how its child ended, and the words that say so."""
    match = _EXITED.search(text)
    return None if match is None else (match["name"], int(match["status"]), match[0])
