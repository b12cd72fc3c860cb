"""Expected memory is what real servers allocate, buffer by buffer, and catches what they ignore."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchsuite.errors import ServerStartError
from benchsuite.logform.facts import LogFacts
from benchsuite.logform.reader import LogReader
from benchsuite.metrics.kv_formula import ExpectedMemory, expected_memory
from benchsuite.model.scenario import FlagValue
from benchsuite.model.shape import ModelShape, UnknownMemory
from benchsuite.pipeline.analytic import cache_settings
from benchsuite.scenario.flags import parse_help
from benchsuite.server.gguf_shape import read_model_shape
from benchsuite.server.guard import Guard
from benchsuite.server.launch import launch, wait_until_healthy
from benchsuite.server.locate import ServerBinary, read_help
from benchsuite.server.tiny.kinds import KINDS
from benchsuite.server.tiny_model import tiny_model
from benchsuite.units import MIB
from tests.integration.desk import Desk, real_servers, wrapper
from tests.integration.server_under_test import (
    embedded,
    is_healthy,
    needs_embedded,
    older_binary,
    wheel_binary,
)

pytestmark = pytest.mark.server

SERVERS = {"embedded": embedded, "wheel": wheel_binary, "older": older_binary}
HALF_A_DIGIT = 0.005 + 1e-9

FLAGS: dict[str, dict[str, FlagValue]] = {
    "f16": {"ctx-size": "8192", "parallel": "2"},
    "q8_0": {"ctx-size": "4096", "parallel": "2", "cache-type-k": "q8_0", "cache-type-v": "q8_0"},
    "types that differ": {"ctx-size": "1024", "parallel": "1", "cache-type-k": "q5_1"},
    "unified": {"ctx-size": "5000", "parallel": "2", "kv-unified": "on"},
    "odd context": {"ctx-size": "1000", "parallel": "3"},
    "automatic slots": {"ctx-size": "3000"},
    "no flash attention": {"ctx-size": "512", "parallel": "1", "flash-attn": "off"},
    "small batches": {"ctx-size": "4096", "parallel": "2", "batch-size": "64", "ubatch-size": "32"},
    "whole sliding cache": {"ctx-size": "2048", "parallel": "2", "swa-full": "on"},
    "the model's own context": {"parallel": "2"},
}


def logged(binary: ServerBinary, arguments: list[str], model: Path, folder: Path) -> LogFacts:
    """What a server with these flags prints until it is healthy.

    Skips the test where the CPU lacks instructions that the wheels' kernels for quantised KV use:
    also without warm-up a few tokens are computed, and the log ends anywhere.
    """
    with Guard() as guard:
        server = launch(
            binary, arguments, model=str(model), log_path=folder / "log", env={}, guard=guard
        )
        try:
            asyncio.run(wait_until_healthy(server, lambda: is_healthy(server), limit_s=60))
        except ServerStartError as error:
            if "signal 4" not in error.message:
                raise
            pytest.skip(f"{binary.path} {error.message}")
        finally:
            server.stop(10)
    reader = LogReader()
    reader.feed((folder / "log").read_bytes())
    return reader.finish()


def hold(facts: LogFacts, expected: ExpectedMemory) -> None:
    """Each cache's line and the sum of its buffers, and the recurrent state."""
    sizes = {size.cache: size for size in facts.kv_sizes if size.context == "target"}
    assert set(sizes) == {cache.cache for cache in expected.caches}
    for cache in expected.caches:
        size = sizes[cache.cache]
        assert (size.layers, size.cells, size.streams) == (
            cache.layers,
            cache.cells,
            cache.streams,
        )
        assert size.k_mib == pytest.approx(cache.k_bytes / MIB, abs=HALF_A_DIGIT)
        assert size.v_mib == pytest.approx(cache.v_bytes / MIB, abs=HALF_A_DIGIT)
        buffers = [b.mib for b in facts.kv_buffers if b.cache == cache.cache]
        assert sum(buffers) == pytest.approx(cache.mib, abs=len(buffers) * HALF_A_DIGIT)
    state = [buffer.mib for buffer in facts.rs_buffers if buffer.context == "target"]
    wanted = 0.0 if expected.state is None else expected.state.mib
    assert bool(state) == (expected.state is not None)
    assert sum(state) == pytest.approx(wanted, abs=len(state) * HALF_A_DIGIT)


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "embedding"])
@pytest.mark.parametrize("find", SERVERS.values(), ids=SERVERS)
def test_expected_memory_is_what_is_logged(
    find: Callable[[], ServerBinary], kind: str, flags: dict[str, FlagValue], tmp_path: Path
) -> None:
    """On every build at hand, buffer by buffer, within what two printed decimals allow."""
    binary, model = find(), tiny_model(kind=kind)
    table = parse_help(read_help(binary, os.environ), binary.path)
    shape = read_model_shape(model)
    assert isinstance(shape, ModelShape)
    given: dict[str, FlagValue] = {**flags, "fit": "off"}
    if shape.mla and "cache-type-k" in given:
        given["cache-type-v"] = given["cache-type-k"]  # newer builds refuse types that differ
    expected = expected_memory(shape, cache_settings(given, table, shape))
    assert isinstance(expected, ExpectedMemory)
    quiet: dict[str, FlagValue] = {"log-verbosity": "4", "threads": "1", "warmup": "off"}
    hold(logged(binary, table.argv({**given, **quiet}), model, tmp_path), expected)


def test_a_model_without_memory_is_not_guessed() -> None:
    """An encoder keeps no cache between tokens."""
    shape = read_model_shape(tiny_model(kind="embedding"))
    assert isinstance(shape, UnknownMemory)
    assert "it keeps no cache between tokens" in shape.reason


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "work").mkdir()
    return Desk(tmp_path / "work", tmp_path)


SCENARIO = """\
title: KV is what the model file makes of it
server: {parallel: 2, ctx-size: 2048}
sessions: {A: {}}
steps:
  - turn: {session: A, user: {tokens: 20}, max_tokens: 2}
gates:
  - {metric: kv_mib, equals: analytic, why: the flags must be heard}
  - {metric: kv_cells, equals: analytic}
"""


@needs_embedded
def test_the_gate_passes_on_a_healthy_server_and_its_record_is_judged_again(desk: Desk) -> None:
    """The value is in the record, so no model file is needed to see why."""
    (desk.folder / "kv.yaml").write_text(SCENARIO)
    done = desk.run("run", "kv.yaml", "--server", "embedded")
    assert done.code == 0, done.text
    assert "analytic 4" in done.text
    record = desk.last_record()
    told = {m["name"]: m["value"] for m in record["launches"][0]["analytic"]}
    assert told == {"kv_mib": 4.0, "kv_cells": 2048}
    assert [gate["against"] for gate in record["gates"]] == ["analytic", "analytic"]


@needs_embedded
@pytest.mark.skipif(sys.platform == "win32", reason="wrappers are POSIX scripts")
def test_the_gate_catches_a_server_that_ignores_a_flag(desk: Desk) -> None:
    """Same slots, same context, same cached tokens: only the weight of a cell tells."""
    (desk.folder / "kv.yaml").write_text(SCENARIO)
    other = wrapper(desk.folder / "server", ["--cache-type-k", "q8_0"])
    done = desk.run("run", "kv.yaml", "--server", str(other))
    assert done.code == 1, done.text
    assert "is 3.06 MiB, but the model file and the flags make 4 MiB" in done.text
    assert "one weighs otherwise: see --cache-type-k" in done.text


def test_an_override_of_metadata_is_inconclusive(desk: Desk) -> None:
    """What the model file says is then not what is served."""
    (desk.folder / "kv.yaml").write_text(SCENARIO)
    skulk = [server for server in real_servers() if server != "embedded"]
    if not skulk:
        pytest.skip("the embedded server refuses --override-kv")
    flag = "override-kv=tokenizer.ggml.add_bos_token=bool:false"
    done = desk.run("run", "kv.yaml", "--server", skulk[0], "--set", flag)
    assert done.code == 3, done.text
    assert "--override-kv changes what the model file says" in done.text
