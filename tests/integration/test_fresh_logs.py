"""Logs freshly made by real servers are read as the model's own numbers say they must be.

Each launch takes two requests and is stopped; the whole log is then read and held against what was
asked for, the model file, `/props` and the replies.
"""

from __future__ import annotations

import http.client
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from benchsuite.errors import ServerStartError
from benchsuite.logform.facts import Total
from benchsuite.logform.reader import LogReader
from benchsuite.server.locate import ServerBinary, read_help
from benchsuite.server.tiny.kinds import KINDS
from benchsuite.server.tiny_model import tiny_model
from tests.integration.declared import Launch, declared, kv_cache, state_bytes
from tests.integration.fresh_logs import check, check_exit_table, check_kv, drafting, near, serve
from tests.integration.server_under_test import (
    STAND_INS,
    embedded,
    older_binary,
    rpc_server,
    wheel_binary,
)

pytestmark = pytest.mark.server

SERVERS = {"embedded": embedded, "wheel": wheel_binary, "older": older_binary}
LEVEL_4 = ("-lv", "4", "--fit", "off")
SLOTS_2 = ("--parallel", "2")
ALL = tuple(KINDS)
WITH_KV = ("tiny", "mha", "swa", "hybrid", "mla")


class Case(NamedTuple):
    """Flags, and what they ask for."""

    flags: tuple[str, ...]
    kinds: tuple[str, ...]
    asked: Launch
    draft: str = ""  # kind of the draft model; empty for none
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
    "everything": Case((*SLOTS_2, "-v"), ("swa",), _ASKED, probed=True),
    "draft": Case((*SLOTS_2, *LEVEL_4), ("tiny", "recurrent", "mla"), _ASKED, draft="draft"),
    "window draft": Case((*SLOTS_2, *LEVEL_4), ("swa",), _ASKED, draft="swa"),
    "draft, probe": Case(
        (*SLOTS_2, "-lv", "5"), ("tiny", "hybrid"), _ASKED, draft="draft", probed=True
    ),
}
FORMS = {
    "jsonl": ("--log-jsonl",),
    "colours": ("--log-colors", "on"),
    "no-timestamps": ("--no-log-timestamps",),
    "no-prefix": ("--no-log-prefix",),
}
"""Forms of log lines, and the flags of llama-server."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Where the model of a kind is."""
    folder = tmp_path_factory.mktemp("models")
    return lambda kind: tiny_model(folder, kind=kind)


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
    if case.draft:
        flags = (*flags, *drafting(models(case.draft)), "-ctkd", "bf16", "-ctvd", "f32")
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
    if not case.draft:
        assert (facts.draft_kv_total, drafts) == (None, [])
        assert outputs == ["target"]
        return
    assert outputs == ["target", "draft"]
    draft = declared(models(case.draft))
    asked = case.asked._replace(k_type="bf16", v_type="f32")
    caches = [kv_cache(draft, asked, name) for name in draft.caches]
    assert [(size.cells, size.layers) for size in drafts] == [(c.cells, c.layers) for c in caches]
    assert {(size.k_type, size.v_type) for size in drafts} == {("bf16", "f32")}
    assert facts.draft_kv_total is not None
    assert facts.draft_kv_total.terms == len(caches)
    assert near(facts.draft_kv_total.mib, sum(cache.bytes for cache in caches), len(caches))


def in_form(name: str, form: str) -> tuple[ServerBinary, tuple[str, ...]]:
    """A server and the flags by which it logs in that form."""
    if name != "embedded":
        binary = SERVERS[name]()
        if FORMS[form][0] not in read_help(binary):
            pytest.skip(f"the {name} build has no {FORMS[form][0]}")
        return binary, FORMS[form]
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
def remote(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[ServerBinary, tuple[str, str]]]:
    """A llama-server and the addresses of two RPC servers of the same build."""
    with ExitStack() as stack:
        binary = SERVERS[request.param]()
        first, second = (stack.enter_context(rpc_server(binary, tmp_path)) for _ in range(2))
        yield binary, (first, second)


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
    remote: tuple[ServerBinary, tuple[str, str]],
    kind: str,
    more: tuple[str, ...],
) -> None:
    """The last layer and the output on an RPC device, the others on the CPU."""
    binary, (address, _) = remote
    flags = (*SLOTS_2, "--rpc", address, "--n-gpu-layers", "2", *more)
    seen = serve(binary, models(kind), tmp_path, flags)
    asked = _ASKED._replace(offloaded=1, kv_offload="-nkvo" not in more)
    check(seen, declared(models(kind)), asked)
    assert f"RPC0[{address}]" in seen.facts.devices


def test_each_of_two_devices_is_told(
    models: Callable[[str], Path],
    tmp_path: Path,
    remote: tuple[ServerBinary, tuple[str, str]],
) -> None:
    """Two layers on each of two RPC devices, none on the CPU, and a draft model on them too."""
    binary, addresses = remote
    flags = (*SLOTS_2, *LEVEL_4, "--rpc", ",".join(addresses), "-ngl", "99", "-ts", "2,3")
    draft = (*drafting(models("draft")), "-ngld", "99")
    facts = serve(binary, models("tiny"), tmp_path, (*flags, *draft)).facts
    assert facts.unreadable == ()
    on = [(b.device, b.mib) for b in facts.kv_buffers if b.context == "target"]
    # each RPC server numbers its own devices, and they come in an order of llama.cpp's own
    assert sorted(on) == sorted((f"RPC0[{address}]", 2.0) for address in addresses)
    assert facts.kv_total == Total(4.0, 2)
    assert facts.draft_kv_total is not None
    assert near(facts.draft_kv_total.mib, kv_cache(declared(models("draft")), _ASKED, "full").bytes)


def test_a_tensor_split_is_counted_by_its_size_line(
    models: Callable[[str], Path],
    tmp_path: Path,
    remote: tuple[ServerBinary, tuple[str, str]],
) -> None:
    """Its one buffer line says what one of two devices holds, and a note says so."""
    binary, addresses = remote
    flags = ("--rpc", ",".join(addresses), "-ngl", "99", "--split-mode", "tensor")
    facts = serve(binary, models("mha"), tmp_path, (*SLOTS_2, *LEVEL_4, *flags)).facts
    whole = kv_cache(declared(models("mha")), _ASKED, "full").bytes
    assert facts.unreadable == ()
    (buffer,) = facts.kv_buffers
    assert buffer.device == "Meta()"
    assert near(buffer.mib, whole / 2)
    assert facts.kv_total is not None
    assert near(facts.kv_total.mib, whole)
    assert "tensor split" in facts.load.notes[0]


@pytest.mark.parametrize("name", ["wheel", "older"])
def test_a_crash_at_a_request_is_read(
    models: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    """These builds abort where a recurrent model is to draft; what was printed before stays."""
    flags = (*SLOTS_2, *LEVEL_4, *drafting(models("recurrent")))
    with pytest.raises(http.client.RemoteDisconnected):
        serve(SERVERS[name](), models("tiny"), tmp_path, flags)
    reader = LogReader()
    reader.feed((tmp_path / "server.log").read_bytes())
    facts = reader.finish()
    assert facts.crash is not None
    assert facts.crash.kind == "abort"
    assert facts.crash.message.startswith("failed to remove sequence")
    assert facts.crash.file.endswith("common.cpp")
    assert facts.failure is None
    check_kv(facts, declared(models("tiny")), _ASKED)
    state = state_bytes(declared(models("recurrent")), _ASKED)
    assert [(b.context, near(b.mib, state["CPU"])) for b in facts.rs_buffers] == [("draft", True)]
    assert facts.rs_total is None
    assert len(facts.launches) == 1


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
