"""KV and recurrent-state memory as measurements, from what a server's log says; pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from benchsuite.logform.builds import beyond_tested
from benchsuite.logform.facts import Buffer, CacheState, KvBuffer, KvSize, LogFacts, RsBuffer
from benchsuite.model.record import Measurement, Unmeasured

SOURCE = "log"
"""The name of this source in measurements."""

PRINT_QUANTUM_MIB = 0.01
"""llama-server prints buffers with two decimals."""
PROMPT_CACHE_QUANTUM_MIB = 0.001
"""It prints the host prompt cache with three."""
_NO_CACHE_STATE = (
    "the log has no 'cache state' line: the host prompt cache is off (cache-ram 0), or nothing was "
    "saved in it"
)


_ADDRESS = re.compile(r"^([A-Za-z]+)(\d+)\[.*\]$")
_Line = TypeVar("_Line", KvBuffer, RsBuffer, Buffer)


def memory_measurements(
    facts: LogFacts, variant: str, trial: int = 1
) -> tuple[list[Measurement], list[Unmeasured]]:
    """KV, recurrent state and cells of the last load.

    Args:
        facts: What the log says.
        variant: Whose launch it was.
        trial: Its repetition, from 1.

    Returns:
        `weights_mib` by device; `kv_mib` in total, by device, by cache where there are several, by
        stream where streams are printed, and of the draft context apart; `rs_mib`; `kv_cells`;
        `prompt_cache_mib` and how far it is over its limit. And what could not be measured, each
        with one sentence: KV that is unknown is never 0 and never partial.
    """
    measured: list[Measurement] = []
    unmeasured: list[Unmeasured] = []

    def add(
        name: str,
        mib: float,
        terms: int,
        labels: dict[str, str],
        quantum: float = PRINT_QUANTUM_MIB,
    ) -> None:
        measured.append(
            Measurement(
                name=name,
                value=round(mib, 3),
                unit="MiB",
                variant=variant,
                trial=trial,
                labels=labels,
                quantum=quantum,
                terms=terms,
                source=SOURCE,
            )
        )

    weights = [b for b in facts.load.buffers if b.kind == "model" and b.context == "target"]
    label = _labels([*weights, *facts.kv_buffers, *facts.rs_buffers])

    def miss(name: str, reason: str, labels: dict[str, str] | None = None) -> None:
        unmeasured.append(Unmeasured(name, variant, reason, trial=trial, labels=labels or {}))

    if facts.kv_total is None:
        reason = explain_missing_kv(facts)
        miss("kv_mib", reason)
        miss("kv_cells", reason)
    else:
        add("kv_mib", facts.kv_total.mib, facts.kv_total.terms, {})
        _add_kv_parts([b for b in facts.kv_buffers if b.context == "target"], label, add)
        _add_cells(
            [s for s in facts.kv_sizes if s.context == "target"], variant, trial, measured, miss
        )
    if facts.load.unreadable_draft:
        reason = _unreadable("KV of the draft context", facts.load.unreadable_draft)
        miss("kv_mib", reason, {"context": "draft"})
    elif facts.draft_kv_total is not None:
        total = facts.draft_kv_total
        add("kv_mib", total.mib, total.terms, {"context": "draft"})
        draft = [b for b in facts.kv_buffers if b.context == "draft"]
        for (device,), mib, terms in _sum_by(draft, lambda b: (label[b.device],)):
            add("kv_mib", mib, terms, {"context": "draft", "device": device})
    if facts.load.unreadable_rs:
        miss("rs_mib", _unreadable("recurrent state", facts.load.unreadable_rs))
    elif facts.rs_total is not None:
        add("rs_mib", facts.rs_total.mib, facts.rs_total.terms, {})
        target = [b for b in facts.rs_buffers if b.context == "target"]
        for (device,), mib, terms in _sum_by(target, lambda b: (label[b.device],)):
            add("rs_mib", mib, terms, {"device": device})
    for (device,), mib, terms in _sum_by([b for b in weights if b.device], lambda b: (b.device,)):
        add("weights_mib", mib, terms, {"device": label[device]})
    for name, value in _prompt_cache(facts.cache_state).items():
        if value is None:
            miss(name, _NO_CACHE_STATE)
        else:
            add(name, value, 1, {}, PROMPT_CACHE_QUANTUM_MIB)
    return measured, unmeasured


def _prompt_cache(state: CacheState | None) -> dict[str, float | None]:
    if state is None:
        return {"prompt_cache_mib": None, "prompt_cache_over_limit_mib": None}
    over = 0.0 if state.limit_mib is None else max(0.0, state.mib - state.limit_mib)
    return {"prompt_cache_mib": state.mib, "prompt_cache_over_limit_mib": over}


def explain_missing_kv(facts: LogFacts) -> str:
    """One sentence: why KV is unknown, and what would make it known."""
    newer = beyond_tested(facts.build)
    return _missing_kv(facts) + ("" if newer is None else f" ({newer})")


def _missing_kv(facts: LogFacts) -> str:
    if facts.load.unreadable:
        return _unreadable("KV", facts.load.unreadable)
    if facts.bytes_read == 0:
        return "the log is empty, so KV is unknown"
    if facts.probed:
        return (
            "the log has only the KV lines of memory fitting's probe (KV buffer size = 0.00 MiB), "
            "none of the load itself"
        )
    if facts.kv_buffers or facts.kv_sizes:
        seen = sum(b.mib for b in facts.kv_buffers if b.context == "target")
        return (
            "the log ends within the load, so its KV lines may be incomplete (buffers so far: "
            f"{seen:.2f} MiB)"
        )
    if facts.rs_total is not None:
        return (
            "the log tells recurrent state but no KV: a model with recurrent state alone keeps "
            "none, of any other the KV lines are missing"
        )
    at = f"; this one ran at {facts.verbosity}" if facts.verbosity is not None else ""
    if facts.verbosity is not None and facts.verbosity >= 4:
        return (
            f"the log has no KV line, though llama-server ran at verbosity {facts.verbosity}: "
            "it ended before its context was made, or the model keeps no KV"
        )
    return f"the log has no KV line (llama-server prints them at verbosity 4: -lv 4{at})"


def _unreadable(what: str, found: Sequence[str]) -> str:
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{what} in the log is unreadable: {found[0]}{more}"


def _add_kv_parts(
    buffers: Sequence[KvBuffer],
    label: dict[str, str],
    add: Callable[[str, float, int, dict[str, str]], None],
) -> None:
    several = len({buffer.cache for buffer in buffers}) > 1
    streams = [buffer for buffer in buffers if buffer.stream is not None]
    for (device,), mib, terms in _sum_by(buffers, lambda b: (label[b.device],)):
        add("kv_mib", mib, terms, {"device": device})
    if several:
        for (cache, device), mib, terms in _sum_by(buffers, lambda b: (b.cache, label[b.device])):
            add("kv_mib", mib, terms, {"cache": cache, "device": device})
    for (device, stream), mib, terms in _sum_by(
        streams, lambda b: (label[b.device], b.stream or "")
    ):
        add("kv_mib", mib, terms, {"device": device, "stream": stream})
    if several:
        parts = _sum_by(streams, lambda b: (b.cache, label[b.device], b.stream or ""))
        for (cache, device, stream), mib, terms in parts:
            add("kv_mib", mib, terms, {"cache": cache, "device": device, "stream": stream})


def _labels(buffers: Sequence[KvBuffer | RsBuffer | Buffer]) -> dict[str, str]:
    """Each device's name without the address that changes from launch to launch: `RPC0`.

    `RPC0[127.0.0.1:50952]` has both. The number is that of a server's device, so the devices of
    two RPC servers are both `RPC0[...]` (builds 10092 and 10434): where names would collide they
    are numbered in the order in which they are printed.
    """
    labels: dict[str, str] = {}
    for device in dict.fromkeys(buffer.device for buffer in buffers):
        match = _ADDRESS.match(device)
        label = device
        if match is not None:
            number = int(match[2])
            while (label := f"{match[1]}{number}") in labels.values():
                number += 1
        labels[device] = label
    return labels


def _sum_by(
    buffers: Sequence[_Line], key: Callable[[_Line], tuple[str, ...]]
) -> list[tuple[tuple[str, ...], float, int]]:
    """Sums of buffers with the same key and how many lines are in each, in the log's order."""
    sums: dict[tuple[str, ...], tuple[float, int]] = {}
    for buffer in buffers:
        mib, terms = sums.get(key(buffer), (0.0, 0))
        sums[key(buffer)] = (mib + buffer.mib, terms + 1)
    return [(labels, mib, terms) for labels, (mib, terms) in sums.items()]


def _add_cells(
    sizes: Sequence[KvSize],
    variant: str,
    trial: int,
    measured: list[Measurement],
    miss: Callable[[str, str], None],
) -> None:
    cells: dict[str, int] = {}
    for size in sizes:
        if size.cells is None or size.streams is None:
            miss("kv_cells", "the log's size lines do not print cells (llama.cpp before mid 2025)")
            return
        cells[size.cache] = cells.get(size.cache, 0) + size.cells * size.streams
    if not cells:
        miss("kv_cells", "the log has no KV size line")
        return

    def add(value: int, labels: dict[str, str]) -> None:
        measured.append(
            Measurement("kv_cells", value, "cells", variant, trial, labels, source=SOURCE)
        )

    add(sum(cells.values()), {})
    if len(cells) > 1:
        for cache, value in cells.items():
            add(value, {"cache": cache})
