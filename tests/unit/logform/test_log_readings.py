"""Every known form of a server log has one right reading.

The logs are in tests/fixtures/logs: `real_*` are our own runs, cut to what matters; the others are
written in the form of public reports, with numbers of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchsuite.logform.facts import LogFacts, TableRow
from benchsuite.logform.reader import LogReader

LOGS = Path(__file__).parents[2] / "fixtures" / "logs"


def read(name: str) -> LogFacts:
    reader = LogReader()
    reader.feed((LOGS / f"{name}.log").read_bytes())
    return reader.finish()


def buffers(facts: LogFacts) -> dict[str, float]:
    """Sums of KV buffers of the target context by device."""
    found: dict[str, float] = {}
    for buffer in facts.kv_buffers:
        if buffer.context == "target":
            found[buffer.device] = round(found.get(buffer.device, 0) + buffer.mib, 2)
    return found


KV: dict[str, tuple[float, int, dict[str, float]]] = {
    # name: total, printed terms in it, by device
    "kvself_2023_spring": (1024.0, 1, {}),
    "kvself_2023_autumn": (640.0, 1, {}),
    "assert_old_wording_debugger": (256.0, 1, {"CUDA_Host": 256.0}),
    "assert_interleaved": (145.83, 1, {"CPU": 145.83}),
    "latent_padding": (583.33, 1, {"CUDA0": 583.33}),
    "two_gpus_and_host": (1280.0, 3, {"CUDA_Host": 32.0, "CUDA0": 736.0, "CUDA1": 512.0}),
    "quantised_then_draft": (1088.0, 2, {"CUDA0": 697.0, "CUDA1": 391.0}),
    "json_slots_2024": (448.0, 1, {"CUDA0": 448.0}),
    "indexer_cache_broken_line": (72.0, 1, {"CUDA0": 72.0}),
    "hybrid": (1024.0, 1, {"CUDA0": 1024.0}),
    "swa_half": (72.0, 1, {"Metal": 72.0}),
    "sliding_window_lv4": (30.0, 2, {"CPU": 30.0}),
    "quantised_sliding_window": (12.75, 2, {"CPU": 12.75}),
    "jsonl": (15.0, 2, {"CPU": 15.0}),
    "rpc": (30.0, 2, {"RPC0[127.0.0.1:41000]": 30.0}),
    "router_child_killed": (12.0, 2, {"CPU": 12.0}),
    "device_out_of_memory": (512.0, 1, {}),
    "three_sycl_devices": (768.0, 3, {"SYCL0": 272.0, "SYCL1": 256.0, "SYCL2": 240.0}),
    "fork_streams": (160.0, 4, {"CUDA0": 128.0, "CUDA_Host": 32.0}),
    "spring_2025_vulkan": (448.0, 1, {"Vulkan0": 448.0}),
    "real_10068_plain": (16.0, 1, {"CPU": 16.0}),
    "real_10068_unified_q8": (12.25, 1, {"CPU": 12.25}),
    "real_10068_draft_verbosity5": (16.0, 1, {"CPU": 16.0}),
    "real_10434_plain": (16.0, 1, {"CPU": 16.0}),
    "real_10434_verbosity5": (16.0, 1, {"CPU": 16.0}),
    "real_10434_sleep": (4.0, 1, {"CPU": 4.0}),
    "real_10434_router": (4.0, 1, {"CPU": 4.0}),
    "real_10434_rpc": (8.0, 2, {"CPU": 6.0, "RPC0[127.0.0.1:57923]": 2.0}),
    "real_10434_colours": (4.0, 1, {"CPU": 4.0}),
    "real_11549_embedded": (8.0, 1, {"CPU": 8.0}),
}


@pytest.mark.parametrize("name", KV)
def test_kv_is_read_in_total_and_by_device(name: str) -> None:
    """The total, the number of printed terms in it, and each device's part."""
    mib, terms, by_device = KV[name]
    facts = read(name)
    assert facts.kv_total is not None
    assert (facts.kv_total.mib, facts.kv_total.terms) == (mib, terms)
    assert buffers(facts) == by_device
    assert facts.unreadable == ()


WITHOUT_KV = sorted({path.stem for path in LOGS.glob("*.log")} - set(KV))


@pytest.mark.parametrize("name", WITHOUT_KV)
def test_a_log_without_kv_lines_leaves_kv_unknown(name: str) -> None:
    """No KV line means unknown, never 0; and nothing is called unreadable."""
    facts = read(name)
    assert facts.kv_total is None
    assert facts.unreadable == ()


def assertion(file: str, line: int, expression: str) -> dict[str, Any]:
    return {"kind": "assertion", "file": file, "line": line, "expression": expression}


CRASHES: dict[str, dict[str, Any]] = {
    "assert_old_wording_debugger": assertion(
        "src/ggml-cuda/rope.cu", 117, "(n_dims % 2) == (ncols & 0)"
    ),
    "assert_glued_to_dots": assertion("C:\\work\\vendor\\ggml-cuda.cu", 731, "src0->type == 7"),
    "assert_bare": assertion("ggml/src/ggml-backend.cpp", 811, "t->ne[i] >= s->ne[i]"),
    "assert_interleaved": assertion("/build/fork/ggml/src/./quant/fa_kernel.h", 88, "sum[k] > 0"),
    "assert_at_start": assertion(
        "/build/llama/src/llama-batch.cpp", 391, 'n_seqs >= 1 && "no sequence"'
    ),
    "real_10434_assert": assertion("/src/src/llama-context.cpp", 2397, "n_outputs >= 1"),
    "cuda_abort_line_first": {
        "kind": "cuda",
        "message": "CUDA error: unspecified launch failure",
        "device": 3,
        "function": "ggml_backend_cuda_graph_compute",
        "file": "/opt/src/ggml/src/ggml-cuda/ggml-cuda.cu",
        "line": 3010,
    },
    "cuda_in_router_child": {
        "kind": "cuda",
        "message": "CUDA error: misaligned address",
        "device": 2,
        "function": "ggml_cuda_mul_mat_q",
        "file": "/opt/src/ggml/src/ggml-cuda/mmq.cu",
        "line": 412,
        "instance": "40001",
    },
    "cuda_windows": {
        "kind": "cuda",
        "message": "CUDA error: an illegal instruction was encountered",
        "device": 0,
        "function": "ggml_cuda_op_add",
        "file": "D:\\b\\ggml-cuda\\binbcast.cu",
        "line": 204,
    },
    "router_child_killed": {
        "kind": "child",
        "message": "instance name=small exited with status 1",
        "instance": "40011",
    },
}


@pytest.mark.parametrize("name", sorted(path.stem for path in LOGS.glob("*.log")))
def test_a_crash_is_read_once_and_nothing_else_is_one(name: str) -> None:
    """Its kind, place and words; error lines alone are no crash."""
    crash = read(name).crash
    expected = CRASHES.get(name)
    if expected is None:
        assert crash is None
        return
    assert crash is not None
    assert {key: getattr(crash, key) for key in expected} == expected


FAILURES = {
    "kv_allocation_failed": ("kv_memory", "failed to allocate buffer for kv cache"),
    "kv_allocation_failed_10434": ("kv_memory", "failed to allocate buffer for kv cache"),
    "model_missing": ("model", "failed to open GGUF file '/models/absent.gguf'"),
    "flash_attention_needed": ("configuration", "requires flash_attn"),
    "real_10068_flash_attention_needed": ("configuration", "requires flash_attn"),
    "device_out_of_memory": ("device_memory", "allocating 413.00 MiB on device 1"),
    "real_10068_port_in_use": ("port", "couldn't bind HTTP server socket"),
    "real_10434_unknown_flag": ("flag", "error: invalid argument: --nope"),
}


@pytest.mark.parametrize("name", sorted(path.stem for path in LOGS.glob("*.log")))
def test_a_failed_start_is_classed_by_its_cause(name: str) -> None:
    """The most specific line is the reason, not the last one, and not memory fitting's."""
    failure = read(name).failure
    expected = FAILURES.get(name)
    if expected is None:
        assert failure is None
        return
    assert failure is not None
    assert failure.kind == expected[0]
    assert expected[1] in failure.text


def test_each_cache_of_a_sliding_window_model_is_told_apart() -> None:
    """`non-SWA` is full, `SWA` is swa; cells are those of one stream."""
    facts = read("sliding_window_lv4")
    assert [(b.cache, b.mib) for b in facts.kv_buffers] == [("full", 8.0), ("swa", 22.0)]
    assert [(s.cache, s.cells, s.streams) for s in facts.kv_sizes] == [
        ("full", 2048, 2),
        ("swa", 1024, 2),
    ]


def test_cache_types_are_read() -> None:
    """K and V types with their sizes, for each cache."""
    facts = read("quantised_sliding_window")
    assert {(s.k_type, s.v_type, s.k_mib) for s in facts.kv_sizes} == {("q8_0", "q8_0", 3.19)}
    unified = read("real_10068_unified_q8").kv_sizes[0]
    assert (unified.k_type, unified.k_mib, unified.v_type, unified.v_mib) == (
        "q8_0",
        4.25,
        "f16",
        8.0,
    )


def test_cache_types_are_told_by_the_flag_that_sets_them() -> None:
    """The draft's apart; what takes no memory, and an indexer's, have no flag."""
    assert read("quantised_then_draft").kv_types == {
        "cache-type-k": "q8_0",
        "cache-type-v": "q8_0",
        "cache-type-k-draft": "f16",
        "cache-type-v-draft": "f16",
    }
    assert read("indexer_cache_broken_line").kv_types == {}


def test_a_broken_size_line_is_put_together() -> None:
    """The indexer cache's note names it, and the lines below its total belong to it."""
    size = read("indexer_cache_broken_line").kv_sizes[0]
    assert (size.cache, size.cells, size.k_mib, size.v_mib) == ("indexer", 8192, 24.0, 48.0)


def test_streams_are_told_apart_where_a_fork_prints_them() -> None:
    """Each `(stream N)` line is its own buffer."""
    facts = read("fork_streams")
    assert [(b.device, b.stream, b.mib) for b in facts.kv_buffers] == [
        ("CUDA0", "0", 64.0),
        ("CUDA0", "1", 64.0),
        ("CUDA_Host", "0", 16.0),
        ("CUDA_Host", "1", 16.0),
    ]


@pytest.mark.parametrize(
    ("name", "mib"),
    [
        ("quantised_then_draft", 192.0),
        ("draft_context_per_slot", 24.0),
        ("real_10068_draft_verbosity5", 16.0),
    ],
)
def test_a_draft_context_is_read_apart(name: str, mib: float) -> None:
    """After `loading draft model`, or after the slots were made (one a slot in early 2025)."""
    facts = read(name)
    assert facts.draft_kv_total is not None
    assert facts.draft_kv_total.mib == mib


def test_recurrent_state_is_read_apart_from_kv() -> None:
    """Its buffers are no KV."""
    facts = read("hybrid")
    assert facts.rs_total is not None
    assert facts.rs_total.mib == 100.5
    assert [(b.device, b.mib) for b in facts.rs_buffers] == [("CUDA0", 100.5)]


def test_a_tensor_split_counts_by_its_size_line_and_says_so() -> None:
    """The buffer line of `Meta()` is one device's share."""
    facts = read("tensor_split")
    assert facts.rs_total is not None
    assert facts.rs_total.mib == 75.0
    assert "31.50" in facts.load.notes[0]
    assert "75.00" in facts.load.notes[0]


def test_padding_of_a_latent_cache_is_noted() -> None:
    """ik_llama's buffers exceed their size line by hundredths; the buffers count."""
    assert "583.31" in read("latent_padding").load.notes[0]


OTHER_BUFFERS = {
    "two_gpus_and_host": [
        ("model", "CPU", 1100.5),
        ("model", "CUDA0", 2200.25),
        ("model", "CUDA1", 1900.0),
        ("output", "CUDA_Host", 0.49),
        ("compute", "CUDA0", 554.25),
    ],
    "kvself_2023_autumn": [("compute", "", 153.47)],
    "json_slots_2024": [
        ("input", "CUDA_Host", 5.51),
        ("compute", "CUDA0", 253.0),
        ("compute", "CUDA_Host", 3.0),
    ],
    "assert_interleaved": [
        ("model", "CPU", 20100.25),
        ("model", "CPU", 19800.5),
        ("output", "CPU", 0.49),
        ("compute", "CPU", 301.01),
    ],
    "vision_encoder": [("vision", "CPU", 12.5)],
    "cuda_windows": [("compute", "CUDA0", 120.0), ("compute", "CUDA_Host", 7.01)],
    "rpc": [
        ("model", "CPU_Mapped", 90.0),
        ("model", "RPC0[127.0.0.1:41000]", 100.16),
        ("output", "CPU", 1.0),
        ("compute", "RPC0[127.0.0.1:41000]", 10.52),
        ("compute", "CPU", 5.52),
    ],
}


@pytest.mark.parametrize("name", OTHER_BUFFERS)
def test_other_buffers_are_no_kv(name: str) -> None:
    """Model, compute, output, input and an image encoder's buffers keep their kinds."""
    found = [(b.kind, b.device, b.mib) for b in read(name).load.buffers]
    assert found == OTHER_BUFFERS[name]


def row(device: str, *numbers: int, total: int | None = None) -> TableRow:
    own, model, context, compute, *rest = numbers
    free, unaccounted = rest or (None, None)
    return TableRow(device, own, model, context, compute, total, free, unaccounted)


FIT_TABLES = {
    "fit_estimate_with_foreign_line": (
        row("CUDA0 (RTX 4060)", 6010, 5500, 300, 210, 7900, -5722, total=8188),
        row("Host", 455, 400, 0, 55),
    ),
    "fit_unsigned_wrap": (
        row("CUDA0 (Tesla P4)", 7002, 6800, 150, 52, 6900, -6291, total=7611),
        row("Host", 120, 100, 0, 20),
    ),
    "fit_rows_without_header": (
        row("CUDA1 (A40)", 10100, 4000, 5100, 1000, 45000, -9032, total=46068),
        row("Host", 1210, 210, 0, 1000),
    ),
    "fit_row_cut": (row("Host", 1510, 1200, 44, 266),),
    "sliding_window_lv4": (row("Host", 165, 120, 30, 15),),
}
EXIT_TABLES = {
    "sliding_window_lv4": (row("Host", 175, 130, 30, 15), row("CPU_REPACK", 6, 6, 0, 0)),
    "quantised_sliding_window": (row("Host", 150, 120, 12, 18),),
    "jsonl": (row("Host", 160, 130, 15, 15),),
    "rpc": (
        row("RPC0 (127.0.0.1:41000)", 140, 100, 30, 10, 16000, -140, total=16000),
        row("Host", 95, 90, 0, 5),
    ),
}


@pytest.mark.parametrize("name", FIT_TABLES)
def test_a_table_before_the_load_is_an_estimate(name: str) -> None:
    """Memory fitting's rows; a negative remainder may be printed as unsigned."""
    assert read(name).load.fit_table == FIT_TABLES[name]
    if name not in EXIT_TABLES:
        assert read(name).load.exit_table == ()


@pytest.mark.parametrize("name", EXIT_TABLES)
def test_the_last_table_is_the_one_at_exit(name: str) -> None:
    """Not the ones that fitting printed."""
    assert read(name).load.exit_table == EXIT_TABLES[name]


@pytest.mark.parametrize(
    ("name", "slots", "n_ctx_slot", "unified"),
    [
        ("default_verbosity", 3, 512, True),
        ("sliding_window_lv4", 2, 2048, False),
        ("assert_interleaved", 2, 2048, None),
        ("json_slots_2024", 3, 1024, None),
        ("vision_encoder", 1, 32768, None),
        ("hybrid", 2, None, True),
        ("draft_context_per_slot", 2, 1024, None),
        ("real_10434_plain", 2, 4096, False),
        ("real_10068_unified_q8", 2, 8192, True),
    ],
)
def test_slots_are_read(
    name: str, slots: int, n_ctx_slot: int | None, unified: bool | None
) -> None:
    """Number, context of one, and whether they share one cache; `n/m seqs` where no line says."""
    facts = read(name)
    assert (facts.n_slots, facts.n_ctx_slot, facts.kv_unified) == (slots, n_ctx_slot, unified)


@pytest.mark.parametrize(
    ("name", "timing"),
    [
        ("latent_padding", (1, 31, 812.4, 64, None, None)),
        ("jsonl", (1, 6, 3.25, 13, 2.0, 4)),
        ("timings_without_slot", (3, 90, 401.5, 55, 2500.25, 50)),
        ("spring_2025_vulkan", (0, 0, 33.1, 13, 70.2, 8)),
        ("real_10434_plain", (1, 0, 44.61, 261, 18.2, 8)),
        ("real_10434_router", (1, 0, 6.94, 24, 3.56, 4)),
    ],
)
def test_timings_name_their_slot(name: str, timing: tuple[object, ...]) -> None:
    """Where the timing lines do not name it, the line above them does."""
    first = read(name).timings[0]
    assert (
        first.slot,
        first.task,
        first.prompt_ms,
        first.prompt_tokens,
        first.decode_ms,
        first.output_tokens,
    ) == timing


@pytest.mark.parametrize(
    ("name", "launches", "reuses"),
    [
        ("assert_interleaved", [(1, 4)], [(1, 4, 17)]),
        ("json_slots_2024", [(2, 9)], [(2, 9, 5)]),
        ("jsonl", [(1, 6)], [(1, 6, 12)]),
        ("spring_2025_vulkan", [(0, 0)], [(0, 0, 7)]),
        ("real_10068_plain", [(1, 0), (1, 9), (0, 18)], [(1, 0, 0), (1, 9, 248), (0, 18, 0)]),
        ("prompt_cache_over_limit", [(1, 77)], []),
    ],
)
def test_launches_and_reuse_name_slot_and_task(
    name: str, launches: list[tuple[int, int]], reuses: list[tuple[int, int, int]]
) -> None:
    """Which slot took which task and how many prompt tokens it found there."""
    facts = read(name)
    assert [(launch.slot, launch.task) for launch in facts.launches] == launches
    assert [(reuse.slot, reuse.task, reuse.cached) for reuse in facts.reuses] == reuses


def test_the_host_prompt_cache_may_exceed_its_limit() -> None:
    """Its state and its limit are both read."""
    state = read("prompt_cache_over_limit").cache_state
    assert state is not None
    assert (state.prompts, state.mib, state.limit_mib) == (2, 5100.25, 4096.0)


def test_a_limit_of_zero_means_none() -> None:
    """`--cache-ram -1` prints 0.000."""
    state = read("timings_without_slot").cache_state
    assert state is not None
    assert state.limit_mib is None


def test_each_child_of_a_router_is_its_own_load() -> None:
    """Two children one after the other are two loads, with their ends."""
    loads = {load.instance: load for load in read("router_child_killed").loads}
    for port, status in (("40011", 1), ("40012", 0)):
        kv = loads[port].kv
        assert kv is not None
        assert kv.mib == 12.0
        assert (loads[port].model, loads[port].exit_status) == ("small", status)


def test_a_router_listens_itself() -> None:
    """Its own URL, not its child's."""
    facts = read("real_10434_router")
    assert facts.listening == "http://127.0.0.1:33903"
    assert facts.load.listening == "http://127.0.0.1:59997"


def test_a_second_interrupt_is_no_crash() -> None:
    """It is a forced stop."""
    facts = read("second_interrupt")
    assert facts.forced_stop
    assert facts.crash is None


def test_a_build_in_json_is_read_without_what_closes_the_record() -> None:
    """`--log-jsonl` writes the line's newline as an escape (build 11549)."""
    line = rb'{"type":"log","time":2860,"level":"info","msg":"srv init: build_info: b0-unknown\n"}'
    reader = LogReader()
    reader.feed(line + b"\n")
    assert reader.finish().build == "b0-unknown"


def test_build_features_and_devices_are_read() -> None:
    """As the server prints them."""
    facts = read("real_10434_rpc")
    assert facts.build == "b1-7e4c0a9"
    assert facts.verbosity == 4
    assert facts.cpu_features.startswith("CPU : SSE3 = 1 | SSSE3 = 1 | ")
    assert facts.cpu_features.endswith("REPACK = 1")
    assert facts.devices == ("CPU_Mapped", "RPC0[127.0.0.1:57923]", "CPU")
    assert read("real_11549_embedded").build == "b0-unknown"


def test_the_last_load_counts_after_sleep() -> None:
    """A wake prints everything again; it is not added up."""
    facts = read("real_10434_sleep")
    assert len(facts.kv_buffers) == 1
    assert facts.draft_kv_total is None


def test_the_probe_of_memory_fitting_is_left_out() -> None:
    """At verbosity 5 it prints buffers of 0.00 MiB beside full-size lines."""
    facts = read("real_10434_verbosity5")
    assert facts.probed
    assert len(facts.kv_sizes) == 1


def test_error_lines_hold_errors_and_last_lines_hold_the_end() -> None:
    """Without their prefixes; information is no error."""
    facts = read("real_10068_port_in_use")
    assert facts.error_lines == (
        "srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 52137",
        "srv  llama_server: exiting due to HTTP server error",
    )
    assert facts.last_lines[-1] == "srv  llama_server: exiting due to HTTP server error"
    assert read("real_10434_plain").error_lines == ()
