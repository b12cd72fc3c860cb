"""From one reply to its measurements, and to what it left untold; pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal

import msgspec

from benchsuite.client.reply import Reply, gaps_ns
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.model.record import Measurement, Unmeasured, Value

_NS_PER_MS = 1_000_000

_UNTOLD = {
    "cached_tokens": "this build's replies do not tell cached tokens (`timings.cache_n` is sent "
    "since September 2025)",
    "evaluated_tokens": "the reply has no `timings.prompt_n`",
    "prompt_tokens": "the reply does not count its prompt",
    "output_tokens": "the reply does not count its output",
    "slot": "nothing tells which slot served: the reply does not name it, and no log line of "
    "this request could be told apart",
    "ttft_ms": "no token arrived as an event of its own",
    "tpot_ms": "fewer than two tokens were generated, or all came at one moment",
    "itl_ms": "tokens of one completion did not arrive at two moments",
}


def measure_reply(
    reply: Reply,
    slot: int | None,
    labels: dict[str, str],
    variant: str,
    trial: int,
    *,
    warm_up: bool = False,
) -> tuple[list[Measurement], list[Unmeasured]]:
    """The measurements of one request.

    Args:
        reply: What came.
        slot: The slot that served, wherever that was learnt; None if nowhere.
        labels: `session` and `turn`, or `request`.
        variant: Name of the variant.
        trial: From 1.
        warm_up: Whether its latency is left out.
    """
    measured: list[Measurement] = []
    unmeasured: list[Unmeasured] = []
    for name, value in _values(reply, slot).items():
        if warm_up and CATALOGUE[name].assume == "latency":
            unmeasured.append(
                Unmeasured(name, variant, WARM_UP, "not_applicable", trial=trial, labels=labels)
            )
        elif reply.stamps.held_up and _SOURCES.get(name) == CLIENT_CLOCK:
            unmeasured.append(
                Unmeasured(name, variant, HELD_UP, "inconclusive", trial=trial, labels=labels)
            )
        elif value is not None:
            unit, source = CATALOGUE[name].unit, _source(name, reply)
            measured.append(Measurement(name, value, unit, variant, trial, labels, source=source))
        elif name in _UNTOLD:
            # whether tokens come apart is a matter of moments: nothing is missing where they do not
            outcome: Literal["missing", "inconclusive"]
            at_once = name == "tpot_ms" and (reply.output_tokens or 0) > 1
            outcome = "inconclusive" if name == "itl_ms" or at_once else "missing"
            why = _UNTOLD[name]
            unmeasured.append(Unmeasured(name, variant, why, outcome, trial=trial, labels=labels))
        else:
            reason = "the reply has no server timings"
            unmeasured.append(Unmeasured(name, variant, reason, trial=trial, labels=labels))
    return measured, unmeasured


def measure_copies(
    reply: Reply,
    slots: Sequence[int | None],
    labels: dict[str, str],
    variant: str,
    trial: int,
) -> tuple[list[Measurement], list[Unmeasured]]:
    """The measurements of each of several completions, labelled `copy` from 1, and of them all.

    Args:
        reply: With its copies; one without has none of these measurements.
        slots: The slot that served each copy, wherever that was learnt; None if nowhere.
        labels: `request`.
        variant: Name of the variant.
        trial: From 1.
    """
    measured: list[Measurement] = []
    unmeasured: list[Unmeasured] = []
    for number, (copy, slot) in enumerate(zip(reply.copies, slots, strict=True), 1):
        own = {**labels, "copy": str(number)}
        values: dict[str, Value | None] = {
            "cached_tokens": copy.cached_tokens,
            "output_tokens": copy.output_tokens,
            "slot": slot,
            "text": copy.text,
        }
        for name, value in values.items():
            if value is None:
                unmeasured.append(Unmeasured(name, variant, _UNTOLD[name], trial=trial, labels=own))
            else:
                unit, source = CATALOGUE[name].unit, _source(name, reply)
                measured.append(Measurement(name, value, unit, variant, trial, own, source=source))
    if reply.copies:
        distinct = len({copy.text for copy in reply.copies})
        measured.append(
            Measurement("distinct_texts", distinct, "", variant, trial, labels, source="replies")
        )
    return measured, unmeasured


def of_no_log(missing: Unmeasured) -> Unmeasured:
    """The same, where the server is attached and its log was not given: nobody's fault.

    Args:
        missing: What a request left untold; what the log would not tell either stays as it is.
    """
    if missing.name not in _OF_LOG or missing.outcome != "missing":
        return missing
    return msgspec.structs.replace(missing, reason=_NO_LOG, outcome="not_applicable")


_OF_LOG = frozenset({"slot", "prompt_evaluations"})
"""What only the log tells where the reply does not."""

_NO_LOG = (
    "the reply does not tell it, and the log of an attached server cannot be seen over HTTP; name "
    "it with 'observe = { log = ... }'"
)

HELD_UP = (
    "our own client could not keep up: tokens waited in the socket, and their stamps are late; ask "
    "for less at once"
)
"""Why latencies of our own clock are not told."""

WARM_UP = "the request is one of warm-up, whose latency is left out"
"""Why the latency of some requests is not measured."""

CLIENT_CLOCK = "client clock"
"""Source of what we timed ourselves."""

_SOURCES = {
    "text": "reply content",
    "ttft_ms": CLIENT_CLOCK,
    "e2e_ms": CLIENT_CLOCK,
    "tpot_ms": CLIENT_CLOCK,
    "itl_ms": CLIENT_CLOCK,
    "server_prefill_ms": "reply timings.prompt_ms",
    "server_decode_ms": "reply timings.predicted_ms",
    "prefill_tokens_per_second": "reply timings.prompt_n / timings.prompt_ms",
    "decode_tokens_per_second": "reply timings.predicted_per_second",
}


def _source(name: str, reply: Reply) -> str:
    """Where a request's measurement was read."""
    if name == "slot":
        return "log print_timing" if reply.slot is None else "reply id_slot"
    told = reply.sources.get(name.removesuffix("_tokens"))
    return f"reply {told}" if told is not None else _SOURCES.get(name, "reply")


def _values(reply: Reply, slot: int | None) -> dict[str, Value | None]:
    stamps, timings = reply.stamps, reply.timings
    ttft = tpot = prefill = None
    gaps = gaps_ns(reply)
    if stamps.first_token_ns:
        ttft = (stamps.first_token_ns - stamps.sent_ns) / _NS_PER_MS
        span_ns = stamps.last_token_ns - stamps.first_token_ns
        if reply.output_tokens is not None and reply.output_tokens > 1 and span_ns > 0:
            tpot = span_ns / _NS_PER_MS / (reply.output_tokens - 1)
    if timings.prompt_ms and reply.evaluated_tokens is not None:
        prefill = reply.evaluated_tokens / timings.prompt_ms * 1000
    return {
        "cached_tokens": reply.cached_tokens,
        "evaluated_tokens": reply.evaluated_tokens,
        "prompt_tokens": reply.prompt_tokens,
        "output_tokens": reply.generated_tokens,
        "slot": slot,
        "text": reply.text,
        "ttft_ms": ttft,
        "e2e_ms": (stamps.end_ns - stamps.sent_ns) / _NS_PER_MS,
        "tpot_ms": tpot,
        "itl_ms": statistics.median(gaps) / _NS_PER_MS if gaps else None,
        "server_prefill_ms": timings.prompt_ms,
        "server_decode_ms": timings.predicted_ms,
        "prefill_tokens_per_second": prefill,
        "decode_tokens_per_second": timings.predicted_per_second,
    }
