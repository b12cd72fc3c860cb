"""A log of a real server, held against what was asked for, the model file, `/props`, replies."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchsuite.logform.facts import LogFacts, Total
from benchsuite.logform.reader import LogReader
from benchsuite.server.guard import Guard
from benchsuite.server.launch import launch, wait_until_healthy
from benchsuite.server.locate import ServerBinary
from benchsuite.server.tiny_model import tiny_words
from benchsuite.units import MIB
from tests.integration.declared import Declared, Launch, kv_cache, state_bytes
from tests.integration.server_under_test import ask, is_healthy

BARE = ("--ctx-size", "2048", "--ubatch-size", "128", "--threads", "1", "--batch-size", "128")
HALF_A_HUNDREDTH = 0.005 + 1e-6


class Seen(NamedTuple):
    """A launch that has ended."""

    facts: LogFacts
    log: bytes
    props: dict[str, Any]
    url: str
    replies: list[dict[str, Any]]


def serve(binary: ServerBinary, model: Path, folder: Path, flags: Sequence[str]) -> Seen:
    """Launch, ask twice, stop, read. The second prompt goes on where the first ended."""
    embeds = "--embeddings" in flags
    with Guard() as guard:
        server = launch(
            binary,
            [*BARE, *flags],
            model=str(model),
            log_path=folder / "server.log",
            env={},
            guard=guard,
        )
        try:
            asyncio.run(wait_until_healthy(server, lambda: is_healthy(server), 60))
            props = ask(server, "/props")[1]
            replies = []
            for words in (20, 30):
                body: dict[str, Any] = {"input": tiny_words(1, words)}
                if not embeds:
                    body = {"prompt": tiny_words(1, words), "n_predict": 4, "temperature": 0}
                path = "/v1/embeddings" if embeds else "/completion"
                status, reply = ask(server, path, body, limit_s=60)
                assert status == 200, reply
                replies.append(reply)
        finally:
            server.stop(5)
    log = (folder / "server.log").read_bytes()
    reader = LogReader()
    reader.feed(log)
    return Seen(reader.finish(), log, props, server.url, replies)


def drafting(model: Path) -> tuple[str, ...]:
    """The flags of speculative decoding with a draft model."""
    return ("--model-draft", str(model), "--spec-type", "draft-simple")


def near(printed: float, number: float, terms: int = 1) -> bool:
    """Whether a printed size is that many bytes, as far as printing in hundredths of MiB tells."""
    return abs(printed - number / MIB) <= HALF_A_HUNDREDTH * terms


def device_kind(name: str) -> str:
    """`CPU` for llama.cpp's names of host memory, else `RPC`."""
    return "RPC" if name.startswith("RPC") else "CPU"


def check_kv(facts: LogFacts, model: Declared, asked: Launch) -> None:
    """Each cache's size line and buffers, by device, and their sum."""
    sizes = [size for size in facts.kv_sizes if size.context == "target"]
    buffers = [buffer for buffer in facts.kv_buffers if buffer.context == "target"]
    labels = model.caches if len(model.caches) > 1 else [""] * len(model.caches)
    assert [size.cache for size in sizes] == labels
    expected = 0.0
    for size, name in zip(sizes, model.caches, strict=True):
        cache = kv_cache(model, asked, name)
        expected += cache.bytes
        assert (size.cells, size.layers) == (cache.cells, cache.layers)
        assert (size.seqs, size.streams) == (asked.slots, cache.streams)
        assert (size.k_type, size.v_type) == (asked.k_type, asked.v_type)
        assert size.k_mib is not None
        assert size.v_mib is not None
        assert near(size.k_mib, cache.k_bytes)
        assert near(size.v_mib, cache.v_bytes)
        assert near(size.mib, cache.bytes)
        of_cache = [buffer for buffer in buffers if buffer.cache == size.cache]
        by_device = {device_kind(buffer.device): buffer.mib for buffer in of_cache}
        assert len(by_device) == len(of_cache)
        assert set(by_device) == set(cache.device_bytes)
        assert all(near(by_device[name], number) for name, number in cache.device_bytes.items())
    if not model.caches:
        assert facts.kv_total is None
        assert buffers == []
        return
    assert facts.kv_total == Total(round(sum(b.mib for b in buffers), 2), len(buffers))
    assert near(facts.kv_total.mib, expected, facts.kv_total.terms)
    assert facts.kv_unified is asked.unified


def check_state(facts: LogFacts, model: Declared, asked: Launch) -> None:
    """Recurrent state, by device, with the line that sums it."""
    expected = state_bytes(model, asked)
    assert {device_kind(b.device) for b in facts.rs_buffers} == set(expected)
    for buffer in facts.rs_buffers:
        assert near(buffer.mib, expected[device_kind(buffer.device)])
    if not expected:
        assert (facts.rs_total, facts.load.rs_sizes) == (None, ())
        return
    (size,) = facts.load.rs_sizes
    assert near(size.mib, sum(expected.values()))
    assert (size.cells, size.seqs) == (asked.slots, asked.slots)
    assert facts.rs_total == Total(
        round(sum(buffer.mib for buffer in facts.rs_buffers), 2), len(expected)
    )


def check_exit_table(facts: LogFacts, model: Declared, asked: Launch, log: bytes) -> None:
    """Whole MiB by device: model and compute as printed before, context as reckoned.

    A server that is asked to stop loses its last lines now and then, or rows of its table, or the
    end of one: as many must be read as were printed whole.
    """
    table = facts.load.exit_table
    rows = re.findall(rb"\|   - [^\n]*", log.rpartition(b"cleaning up")[2])
    whole_rows = [row for row in rows if re.search(rb" \|\s*(?:\x1b\[\d*m)*$", row)]
    assert len(whole_rows) <= len(table) <= len(rows)
    context = dict(state_bytes(model, asked))
    for name in model.caches:
        for device, number in kv_cache(model, asked, name).device_bytes.items():
            context[device] = context.get(device, 0) + number
    buffers = [buffer for buffer in facts.load.buffers if buffer.context == "target"]
    for row in table:
        own = [b for b in buffers if device_kind(b.device) == device_kind(row.device)]
        for kind, whole in (("model", row.model_mib), ("compute", row.compute_mib)):
            printed = sum(buffer.mib for buffer in own if buffer.kind == kind)
            assert printed - 1 - 0.02 < whole < printed + 0.02
        assert row.context_mib == int(context.get(device_kind(row.device), 0) / MIB)
        parts = row.model_mib + row.context_mib + row.compute_mib
        assert parts <= row.self_mib <= parts + 2
    if table and table[-1].device == "Host":  # the last row
        assert {device_kind(row.device) for row in table} == {device_kind(d) for d in facts.devices}


def check_requests(seen: Seen) -> None:
    """Launches, timings and reuses are those of the replies."""
    facts = seen.facts
    assert len(facts.launches) == 2
    if "timings" not in seen.replies[0]:
        assert facts.timings == ()
        return
    told = [
        (reply["id_slot"], reply["timings"]["prompt_n"], reply["timings"]["predicted_n"])
        for reply in seen.replies
    ]
    assert [(t.slot, t.prompt_tokens, t.output_tokens) for t in facts.timings] == told
    for timing, reply in zip(facts.timings, seen.replies, strict=True):
        assert timing.prompt_ms == pytest.approx(reply["timings"]["prompt_ms"], abs=0.006)
        assert timing.decode_ms == pytest.approx(reply["timings"]["predicted_ms"], abs=0.006)
    assert [(x.slot, x.task) for x in facts.launches] == [(t.slot, t.task) for t in facts.timings]
    assert [reuse.cached for reuse in facts.reuses] == [
        reply["timings"]["cache_n"] for reply in seen.replies
    ]


def check(seen: Seen, model: Declared, asked: Launch) -> None:
    """Everything that every log must be read as."""
    facts, props = seen.facts, seen.props
    assert (facts.unreadable, facts.load.notes) == ((), ())
    assert (facts.crash, facts.failure, facts.error_lines) == (None, None, ())
    assert not facts.forced_stop
    assert facts.build == props["build_info"]
    assert facts.listening == seen.url
    assert facts.verbosity is not None
    assert facts.verbosity >= 4
    assert "AVX" in facts.cpu_features or not sys.platform.startswith("linux")
    assert facts.n_slots == props["total_slots"] == asked.slots
    assert facts.n_ctx_slot == props["default_generation_settings"]["n_ctx"]
    assert facts.n_ctx_slot == min(asked.n_ctx_sequence, model.n_ctx_train)
    assert facts.kv_unified is asked.unified
    check_kv(facts, model, asked)
    check_state(facts, model, asked)
    check_requests(seen)
    check_exit_table(facts, model, asked, seen.log)
