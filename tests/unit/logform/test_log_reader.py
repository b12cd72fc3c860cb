"""The log reader takes any bytes, cut anywhere, and stays within bounds."""

from __future__ import annotations

import itertools
import time
import tracemalloc
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchsuite.logform.facts import LogFacts
from benchsuite.logform.reader import LogReader
from benchsuite.redact import new_key, redact

LOGS = Path(__file__).parents[2] / "fixtures" / "logs"
NAMES = sorted(path.stem for path in LOGS.glob("*.log"))


def read(*chunks: bytes) -> LogFacts:
    reader = LogReader()
    for chunk in chunks:
        reader.feed(chunk)
    return reader.finish()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1, 7, 100, 4096])
def test_chunks_of_any_size_give_the_same_facts(name: str, size: int) -> None:
    """Every fixture, cut into equal pieces."""
    log = (LOGS / f"{name}.log").read_bytes()
    pieces = [log[start : start + size] for start in range(0, len(log), size)]
    assert read(*pieces) == read(log)


@settings(max_examples=60, deadline=None)
@given(
    names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=3),
    cuts=st.lists(st.integers(0, 40_000), max_size=12),
    polls=st.booleans(),
)
def test_any_split_gives_the_same_facts(names: list[str], cuts: list[int], polls: bool) -> None:
    """Logs joined and cut anywhere, with and without snapshots between."""
    log = b"".join((LOGS / f"{name}.log").read_bytes() for name in names)
    places = sorted({min(cut, len(log)) for cut in cuts} | {0, len(log)})
    reader = LogReader()
    for start, end in itertools.pairwise(places):
        reader.feed(log[start:end])
        if polls:
            reader.facts()
    assert reader.finish() == read(log)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=20))
def test_random_bytes_never_raise(chunks: list[bytes]) -> None:
    """Nothing is read from noise."""
    facts = read(*chunks)
    assert facts.kv_total is None


_WORDS = st.sampled_from(
    [
        b"llama_kv_cache: ",
        b"KV buffer size = ",
        b"KV self size  = ",
        b": size = ",
        b"16.00 MiB",
        b"99999999999999999999.00 MiB",
        b"( 4096 cells,   4 layers,  2/2 seqs)",
        b"CPU ",
        b"GGML_ASSERT(",
        b") failed",
        b"/a.cpp:1: ",
        b"current device: ",
        b"prompt eval time =  1.00 ms / ",
        b"1 tokens",
        b"       eval time = 2.00 ms / 3 tokens",
        b"slot print_timing: id  0 | task 1 | ",
        b"id_slot=",
        b"processing task",
        b"kv cache rm [1, end)",
        b"initializing, n_slots = 2",
        b"loading model '",
        b"loading draft model '",
        b"| memory breakdown [MiB] |",
        b"memory_breakdown_print: |   - CPU | 1 = 2 + 3 + 4 |",
        b"[123] ",
        b"name | ",
        b'{"msg":"',
        b'"}',
        b"\x1b[0m",
        b"\xff\xfe",
        b"9" * 5000,
        b"\r\n",
        b"\n",
        b" ",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_WORDS, max_size=60), st.integers(1, 400))
def test_fragments_of_log_lines_never_raise(words: list[bytes], size: int) -> None:
    """Any order of the words that are looked for, and any split of them, reads alike."""
    log = b"".join(words)
    pieces = [log[start : start + size] for start in range(0, len(log), size)]
    assert read(*pieces) == read(log)


def test_a_last_line_without_newline_waits_until_the_end() -> None:
    """A snapshot leaves it out; `finish` counts it."""
    reader = LogReader()
    reader.feed(b"slot launch_slot_: id  0 | task 3 | processing task, is_child = 0")
    assert reader.facts().launches == ()
    assert [launch.task for launch in reader.finish().launches] == [3]


def test_lists_grow_while_the_log_does() -> None:
    """A client that polls sees each finished task once, in order."""
    reader = LogReader()
    reader.feed(
        b"0.00.1 I slot launch_slot_: id  1 | task 0 | processing task, is_child = 0\n"
        b"0.00.2 I slot  operator(): id  1 | task 0 | cached n_tokens = 4, memory_seq_rm [4, end)\n"
        b"0.00.3 I slot  operator(): id  1 | task 0 | cached n_tokens = 9, memory_seq_rm [9, end)\n"
        b"0.00.4 I slot print_timing: id  1 | task 0 | prompt eval time = 4.61 ms / 26 tokens (\n"
    )
    assert [(launch.slot, launch.task) for launch in reader.launches] == [(1, 0)]
    assert [reuse.cached for reuse in reader.reuses] == [4]
    assert reader.timings == []
    reader.feed(
        b"0.00.5 I srv log_server_r: done request\n"
        b"0.00.6 I slot print_timing: id  1 | task 0 |  eval time = 8.20 ms / 8 tokens (\n"
    )
    assert [(t.slot, t.prompt_ms, t.decode_ms, t.output_tokens) for t in reader.timings] == [
        (1, 4.61, 8.2, 8)
    ]


def test_timings_of_two_slots_that_interleave_stay_apart() -> None:
    """Each line of decoding goes to its own slot's prompt line."""
    facts = read(
        b"slot print_timing: id  0 | task 5 | prompt eval time = 1.00 ms / 10 tokens (\n"
        b"slot print_timing: id  1 | task 6 | prompt eval time = 2.00 ms / 20 tokens (\n"
        b"slot print_timing: id  0 | task 5 |        eval time = 3.00 ms / 30 tokens (\n"
        b"slot print_timing: id  1 | task 6 |        eval time = 4.00 ms / 40 tokens (\n"
    )
    assert sorted((t.slot, t.prompt_tokens, t.output_tokens) for t in facts.timings) == [
        (0, 10, 30),
        (1, 20, 40),
    ]


@pytest.mark.parametrize("polls", [False, True])
def test_interleaved_timings_cut_anywhere_are_whole(polls: bool) -> None:
    """Other lines between, a cut at any byte, and snapshots lose no line of decoding."""
    log = (
        b"slot print_timing: id  0 | task 5 | prompt eval time = 1.00 ms / 10 tokens (\n"
        b"srv  update_slots: all slots are idle\n"
        b"slot print_timing: id  1 | task 6 | prompt eval time = 2.00 ms / 20 tokens (\n"
        b"slot print_timing: id  1 | task 6 |        eval time = 4.00 ms / 40 tokens (\n"
        b"que  start_loop: waiting\n"
        b"slot print_timing: id  0 | task 5 |        eval time = 3.00 ms / 30 tokens (\n"
        b"slot print_timing: id  2 | task 7 | prompt eval time = 5.00 ms / 50 tokens (\n"
        b"slot print_timing: id  2 | task 7 |        eval time = 6.00 ms / 60 tokens (\n"
    )
    for cut in range(len(log)):
        reader = LogReader()
        reader.feed(log[:cut])
        if polls:
            reader.facts()
        reader.feed(log[cut:])
        facts = reader.finish()
        assert facts.requests == 3
        assert sorted((t.slot, t.prompt_tokens, t.output_tokens) for t in facts.timings) == [
            (0, 10, 30),
            (1, 20, 40),
            (2, 50, 60),
        ]


def test_performance_counters_at_exit_are_no_task() -> None:
    """`llama_perf_context_print` uses the same words."""
    facts = read(
        b"llama_perf_context_print: prompt eval time = 1.00 ms / 10 tokens (\n"
        b"llama_perf_context_print:        eval time = 3.00 ms / 30 runs   (\n"
    )
    assert facts.timings == ()


@pytest.mark.parametrize(
    "prefix",
    [
        b"",
        b"I ",
        b"12.34.567.890 I ",
        b"[40001] 0.00.000.001 I ",
        b"server-1  | 0.00.000.001 I ",
        b"server-1  | ",
        b"\x1b[34m0.00.007.523\x1b[0m \x1b[32mI \x1b[0m",
        b"[34m0.00.007.523[0m [32mI [0m",
        b"2026-05-14 22:14:30.995 | ",
        b"May 14 22:14:30 host llama-server[77]: ",
    ],
)
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_prefixes_and_line_ends_do_not_matter(prefix: bytes, ending: bytes) -> None:
    """Timestamps, levels, ports, service names, colours with and without their escape."""
    lines = [
        b"llama_kv_cache:        CPU KV buffer size =    12.50 MiB",
        (
            b"llama_kv_cache: size =   12.50 MiB (  2048 cells,   4 layers,  4/1 seqs), "
            b"K (q8_0):    6.25 MiB, V (q8_0):    6.25 MiB"
        ),
        b"sched_reserve:        CPU compute buffer size =     8.51 MiB",
        b"srv    load_model: initializing, n_slots = 4, n_ctx_slot = 2048, kv_unified = 'true'",
        b"slot launch_slot_: id  3 | task 8 | processing task, is_child = 0",
    ]
    facts = read(b"".join(prefix + line + ending for line in lines))
    assert facts.kv_total is not None
    assert facts.kv_total.mib == 12.5
    assert facts.kv_sizes[0].v_type == "q8_0"
    assert (facts.n_slots, facts.kv_unified) == (4, True)
    assert [launch.slot for launch in facts.launches] == [3]


def test_a_line_beyond_all_measure_is_cut_and_the_next_one_read() -> None:
    """Whether it comes in one piece or in many."""
    log = b"x" * 300_000 + b"\nllama_init_from_file: kv self size  =   12.50 MB\n"
    whole = read(log)
    assert whole.kv_total is not None
    assert read(*(log[start : start + 1000] for start in range(0, len(log), 1000))) == whole


@pytest.mark.parametrize("fill", [b"x", b"K", b"| ", b"z", b"\xff", b" size = 1.00 MiB"])
def test_a_line_of_100_mb_is_nothing_and_hides_nothing(fill: bytes) -> None:
    """Whatever it is full of: the lines before and after are read, memory stays as it was."""
    before = b"llama_kv_cache_init:  CUDA0 KV buffer size =    12.50 MiB\n"
    after = b"\nllama_init_from_model: KV self size  =   12.50 MiB, K (f16): 6.25, V (f16): 6.25\n"
    piece = fill * (1_000_000 // len(fill))
    reader = LogReader()
    reader.feed(before)
    for _ in range(100):
        reader.feed(piece)
    reader.feed(after)
    facts = reader.finish()
    assert facts.kv_total is not None
    assert facts.kv_total.mib == 12.5
    assert facts.unreadable == ()


def test_memory_does_not_grow_with_the_log() -> None:
    """40 MiB of debug lines, and of one endless line, leave less than 2 MiB behind."""
    lines = b"0.00.000.001 D slot process_token: id  0 | task 0 | n_decoded = 1\n" * 1000
    reader = LogReader()
    tracemalloc.start()
    try:
        for _ in range(600):
            reader.feed(lines)
        for _ in range(20):
            reader.feed(b"y" * 100_000)
        reader.facts()
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 2 * 1024 * 1024


def test_kv_is_unknown_while_the_load_goes_on() -> None:
    """A snapshot in the middle of the KV lines would be too small."""
    first, second = (
        b"llama_kv_cache:      CUDA0 KV buffer size =    64.00 MiB\n",
        (
            b"llama_kv_cache:      CUDA1 KV buffer size =    32.00 MiB\n"
            b"llama_kv_cache: size =   96.00 MiB (  2048 cells,  12 layers,  1/1 seqs), "
            b"K (f16):   48.00 MiB, V (f16):   48.00 MiB\n"
            b"sched_reserve:      CUDA0 compute buffer size =     8.51 MiB\n"
        ),
    )
    reader = LogReader()
    reader.feed(first)
    assert reader.facts().kv_total is None
    reader.feed(second)
    total = reader.facts().kv_total
    assert total is not None
    assert (total.mib, total.terms) == (96.0, 2)


def test_kv_whose_allocation_failed_is_unknown() -> None:
    """The first of two caches was made, the second was not: neither 0 nor half."""
    facts = read(
        b"llama_kv_cache_iswa: creating non-SWA KV cache, size = 4096 cells\n"
        b"llama_kv_cache:        CPU KV buffer size =    64.00 MiB\n"
        b"llama_kv_cache: size =   64.00 MiB (  4096 cells,   4 layers,  1/1 seqs), "
        b"K (f16):   32.00 MiB, V (f16):   32.00 MiB\n"
        b"llama_kv_cache_iswa: creating     SWA KV cache, size = 1024 cells\n"
        b"0.00.3 E llama_init_from_model: failed to initialize the context: "
        b"failed to allocate buffer for kv cache\n"
    )
    assert facts.kv_total is None
    assert facts.failure is not None
    assert facts.failure.kind == "kv_memory"


def test_errors_of_a_serving_server_are_no_failed_start() -> None:
    """What it reports once its model is loaded is an error line, not a failure."""
    facts = read(
        b"0.00.1 I srv    load_model: initializing, n_slots = 1, n_ctx_slot = 512\n"
        b"0.00.001.000 E srv        update: failed to allocate memory for prompt cache state\n"
    )
    assert facts.failure is None
    assert len(facts.error_lines) == 1


def test_a_listening_line_of_any_era_gives_the_url() -> None:
    """From the newest form to the one with fields."""
    for line, url in (
        (b"srv  llama_server: listening on http://127.0.0.1:8203", "http://127.0.0.1:8203"),
        (
            b"main: server is listening on http://0.0.0.0:80 - starting the main loop",
            "http://0.0.0.0:80",
        ),
        (
            b"main: HTTP server is listening, hostname: 127.0.0.1, port: 8081, http threads: 7",
            "http://127.0.0.1:8081",
        ),
        (b'INFO [ main] HTTP server listening | hostname="::1" port="99"', "http://::1:99"),
    ):
        assert read(line + b"\n").listening == url


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # form of 10434 and 11434
        ("prepare_model_devices: using device CUDA0 (NVIDIA H200) (0000:01:00.0) - 9 MiB free",
         {"CUDA0": ("0000:01:00.0", "NVIDIA H200")}),
        ("0.01.001.001 I x: using device CUDA1 (A (R) B) (00000000:C1:00.0) - 12345 MiB free",
         {"CUDA1": ("00000000:C1:00.0", "A (R) B")}),
        # before late 2025, and an RPC device, whose bus nobody knows
        ("llama_model_load_from_file: using device CUDA1 (NVIDIA T4) - 9000 MiB free", {}),
        ("x: using device RPC0 (127.0.0.1:41000) (unknown id) - 16000 MiB free", {}),
    ],
)  # fmt: skip
def test_bus_addresses_and_models_of_devices_are_kept(
    line: str, expected: dict[str, tuple[str, str]]
) -> None:
    """They tell which GPU `CUDA0` is, where the build prints them."""
    (load,) = read(f"srv: loading model 'm'\n{line}\n".encode()).loads
    assert load.buses == {name: bus for name, (bus, _) in expected.items()}
    assert load.device_models == {name: model for name, (_, model) in expected.items()}


_CUT_BY_HAND = ("jsonl", "router_child_killed")
"""Their lines that announce a second cache were left out, as no server does."""


def _totals(facts: LogFacts) -> set[float]:
    loads = [load.kv for load in facts.loads]
    return {total.mib for total in loads if total is not None}


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from([name for name in NAMES if name not in _CUT_BY_HAND]),
    share=st.floats(0, 1),
)
def test_a_truncated_log_has_its_total_or_none(name: str, share: float) -> None:
    """Cut anywhere, KV is what the whole log says, or unknown: never a part of it."""
    log = (LOGS / f"{name}.log").read_bytes()
    cut = read(log[: int(len(log) * share)])
    if not cut.unreadable:
        assert _totals(cut) <= _totals(read(log))


_UNRELATED = (
    b"0.00.001.000 I slot   operator(): id  0 | task 0 | prompt processing progress, 0.5",
    b"0.00.001.000 I srv    operator(): chat format: peg-native",
    b'0.00.001.000 D srv  log_server_r: request: {"prompt": "KV buffer size = 3.00 MiB"}',
    b"time=2026-08-01T00:00:00Z level=INFO source=sched.go:1 msg=loaded",
    b"\x1b[0m",
    b"\xff\xfe\x00 neither text nor UTF-8 \xc3\x28",
    b"",
    b"................................................................................",
    b"load_all_data: using async uploads for device CUDA0, buffer type CUDA0",
    b"llama_model_loader: - kv  17: tokenizer.ggml.tokens arr[str,32000] = [...]",
)


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from([name for name in NAMES if name != "indexer_cache_broken_line"]),
    strangers=st.lists(
        st.tuples(st.integers(1, 400), st.sampled_from(_UNRELATED)), min_size=1, max_size=40
    ),
    colours=st.booleans(),
)
def test_unrelated_lines_between_change_no_memory(
    name: str, strangers: list[tuple[int, bytes]], colours: bool
) -> None:
    """Of other threads, other programs, or no text at all; with and without ANSI colours.

    Never the first line: a log that begins with FF FE is UTF-16.
    """
    lines = (LOGS / f"{name}.log").read_bytes().split(b"\n")
    whole = read(b"\n".join(lines))
    for place, stranger in strangers:
        lines.insert(min(place, len(lines) - 1), stranger)
    if colours:
        lines = [b"\x1b[32m" + line + b"\x1b[0m" if line else line for line in lines]
    mixed = read(b"\n".join(lines))
    assert mixed.kv_buffers == whole.kv_buffers
    assert mixed.kv_sizes == whole.kv_sizes
    assert (mixed.kv_total, mixed.draft_kv_total) == (whole.kv_total, whole.draft_kv_total)
    assert (mixed.rs_total, mixed.unreadable) == (whole.rs_total, whole.unreadable)


@pytest.mark.parametrize(
    "part",
    ["GGML_ASSERT(", "a.cpp:1: ", "Assertion '", "current device: 1, in function f at ", "KV 1 "],
)
def test_a_line_made_to_be_slow_is_read_in_time(part: str) -> None:
    """Patterns take time in proportion to a line, not to its square: 8 KB cost milliseconds.

    A server prints what its users send, so anyone can write such a line. With squares it took
    seconds; the limit leaves room for a slow machine.
    """
    line = (part * 8192)[:8192].encode()
    started = time.process_time()
    read(b"GGML_ASSERT(x " + line + b"\n", b"Assertion '" + line + b"\n", line + b"\n")
    assert time.process_time() - started < 2


@pytest.mark.parametrize("size", [1, 40, 10_000])
def test_a_line_of_decoding_goes_to_its_own_task(size: int) -> None:
    """A task that generated nothing does not get what the slot's next task generated."""
    log = (
        b"0.00.001.000 I slot print_timing: id  1 | task 31 | "
        b"prompt eval time =     812.40 ms /    64 tokens\n"
        b"0.00.002.000 I slot print_timing: id  1 | task 40 | "
        b"prompt eval time =      21.61 ms /   261 tokens\n"
        b"0.00.002.000 I slot print_timing: id  1 | task 40 |        "
        b"eval time =       2.29 ms /     8 tokens\n"
    )
    reader = LogReader()
    for start in range(0, len(log), size):
        reader.feed(log[start : start + size])
    timings = reader.finish().timings
    assert [(t.task, t.output_tokens) for t in timings] == [(31, None), (40, 8)]


@pytest.mark.parametrize("chunk", [1 << 20, 1000, 37])
def test_a_key_across_the_cut_of_a_line_is_hidden(chunk: int) -> None:
    """Of lines that are cut at 8 KiB, of events at 600 bytes; as it comes, in pieces."""
    key = str(new_key())
    lines = [f"error: {'x' * before}{key} {'y' * 20_000}" for before in range(8130, 8190, 9)]
    lines += [f"0.00.000.003 I slot update_slots: id  0 | task 0 | n_past = 3, {key * 20}"]
    lines += [f"srv  x: {'x' * 8150}{key} without an end"]
    log = "\n".join(lines).encode()
    reader = LogReader()
    for start in range(0, len(log), chunk):
        reader.feed(log[start : start + chunk])
    told = redact(msgspec.json.encode(reader.finish()).decode())  # as whatever is kept of it
    pieces = {key[at : at + 16] for at in range(15, len(key) - 15)}
    assert not [piece for piece in pieces if piece in told]
