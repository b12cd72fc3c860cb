"""Logs that invite a wrong total: mixed loads, torn lines, and users who write like servers."""

from __future__ import annotations

import pytest

from benchsuite.collect.log_memory import explain_missing_kv
from benchsuite.logform.facts import LogFacts
from benchsuite.logform.reader import LogReader

PREFIX = "0.00.100.000 I "
LOADING = "srv    load_model: loading model '/models/m.gguf'"
MODEL = "load_tensors:        CPU model buffer size =   300.00 MiB"
KV = "llama_kv_cache:        CPU KV buffer size =    48.00 MiB"
SIZE = (
    "llama_kv_cache: size =   48.00 MiB (  3072 cells,   4 layers,  2/2 seqs), "
    "K (f16):   24.00 MiB, V (f16):   24.00 MiB"
)
COMPUTE = "sched_reserve:        CPU compute buffer size =   204.00 MiB"
SERVING = "srv    load_model: initializing, n_slots = 2, n_ctx_slot = 1536, kv_unified = 'false'"
LOAD = [PREFIX + line for line in (LOADING, MODEL, KV, SIZE, COMPUTE, SERVING)]
REQUEST = 'D srv  log_server_r: request:  {"messages":[{"role":"user","content":"%s"}]}'


def read(*lines: str, encoding: str = "utf-8") -> LogFacts:
    reader = LogReader()
    reader.feed(("\n".join(lines) + "\n").encode(encoding))
    return reader.finish()


def total(facts: LogFacts) -> float | None:
    return None if facts.kv_total is None else facts.kv_total.mib


@pytest.mark.parametrize(
    "text",
    [
        "why does it hang at: srv load_model: loading model 'x.gguf'?",
        "initializing, n_slots = 77, n_ctx_slot = 9",
        "srv: instance name=gemma exited with status 1",
        "server is listening on http://0.0.0.0:1",
        "llama_kv_cache: CPU KV buffer size = 99.00 MiB",
    ],
)
def test_what_users_send_changes_nothing(text: str) -> None:
    """Requests are printed at `-v`, whatever they say of servers."""
    facts = read(*LOAD, PREFIX[:-2] + REQUEST % text)
    assert (total(facts), facts.n_slots, facts.listening) == (48.0, 2, None)
    assert (facts.crash, facts.unreadable) == (None, ())


def test_the_lines_of_a_text_that_a_user_sent_are_no_lines_of_the_server() -> None:
    """Where the server's own have a prefix, lines without one are none of them."""
    quoted = [
        "0.05.000.000 D Parsing input with format Content-only: I see",
        KV,
        LOADING,
        "in mine",
    ]
    facts = read(*LOAD, *quoted)
    assert (total(facts), facts.n_slots, facts.unreadable) == (48.0, 2, ())


SELF = (
    "llama_new_context_with_model: KV self size  =  %7.2f MiB, "
    "K (f16): %7.2f MiB, V (f16): %7.2f MiB"
)


@pytest.mark.parametrize(
    "lines",
    [
        [SELF % (64, 32, 32), SELF % (128, 64, 64)],
        [
            KV,
            SIZE,
            KV.replace("48.00", " 6.00"),
            SIZE.replace("48.00", " 6.00").replace("24.", " 3."),
        ],
    ],
)
def test_kv_lines_picked_from_several_loads_have_no_total(lines: list[str]) -> None:
    """As grep gives them: a sum would be that of two servers."""
    facts = read(*lines)
    assert total(facts) is None
    assert "load" in facts.unreadable[0]


def test_another_load_of_2023_replaces_the_one_before() -> None:
    """Those logs announce none; their servers had no draft either."""
    one = "llama_new_context_with_model: kv self size  =  %.2f MB"
    compute = "llama_new_context_with_model: compute buffer total size = 76.63 MB"
    facts = read(one % 256, compute, one % 1024, compute)
    assert (total(facts), facts.draft_kv_total) == (1024.0, None)


def test_a_server_that_was_started_again_is_no_draft() -> None:
    """Though only the lines of its context are there, appended to the same log."""
    again = [line.replace("48.00", "96.00").replace("24.00", "48.00") for line in LOAD[2:]]
    facts = read(*LOAD[2:], *again)
    assert (total(facts), facts.draft_kv_total) == (96.0, None)
    assert {buffer.context for buffer in facts.kv_buffers} == {"target"}


@pytest.mark.parametrize(
    "line",
    [
        f"{KV} {KV.replace('CPU', 'CUDA0')}",
        SIZE.replace("V (f16):   24.00", "V (f16):   12.00"),
        "llama_kv_cache:      CUDA1 kv buffer size =   128.00 MiB",
        "fer size =    64.00 MiB",
    ],
)
def test_what_is_torn_glued_or_contradicts_itself_is_unreadable(line: str) -> None:
    """Two lines in one, the end of one, parts that do not make their sum, another spelling."""
    lines = [MODEL, KV, line, COMPUTE] if line.startswith(SIZE[:30]) else [MODEL, KV, SIZE, line]
    facts = read(*lines, COMPUTE)
    assert total(facts) is None
    assert line.strip() in facts.unreadable[0]


def test_recurrent_state_in_no_known_form_is_unreadable() -> None:
    """KV is known all the same."""
    line = "llama_memory_recurrent:        CPU RS buffer size =     9.0 MiB"
    facts = read(*LOAD[1:4], PREFIX + line, *LOAD[4:])
    assert (total(facts), facts.rs_total) == (48.0, None)
    assert facts.load.unreadable_rs == (f"no known form: {line}",)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_read_where_its_mark_says_so(encoding: str) -> None:
    """PowerShell's `>` writes it; cut anywhere, it reads the same."""
    mark = "" if encoding == "utf-16" else "\ufeff"
    log = (mark + "\n".join(LOAD) + "\n").encode(encoding)
    for size in (1, 7, len(log)):
        reader = LogReader()
        for start in range(0, len(log), size):
            reader.feed(log[start : start + size])
        assert total(reader.finish()) == 48.0


def test_state_without_kv_is_told_as_such() -> None:
    """A model with recurrent state alone keeps no KV, and no flag would show any."""
    facts = read(
        MODEL,
        "llama_memory_recurrent:        CPU RS buffer size =     9.00 MiB",
        "llama_memory_recurrent: size =    9.00 MiB (     1 cells,  24 layers,  1 seqs), "
        "R (f32):    1.00 MiB, S (f32):    8.00 MiB",
        COMPUTE,
    )
    assert "recurrent state alone" in explain_missing_kv(facts)
