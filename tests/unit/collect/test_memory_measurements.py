"""KV and recurrent state become measurements; what is unknown becomes a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchsuite.collect.log_memory import explain_missing_kv, memory_measurements
from benchsuite.logform.facts import LogFacts
from benchsuite.logform.reader import LogReader
from benchsuite.metrics.catalogue import CATALOGUE
from benchsuite.metrics.select import format_series
from benchsuite.model.record import Measurement, Unmeasured

PROMPT_CACHE = ("prompt_cache_mib", "prompt_cache_over_limit_mib")
LOGS = Path(__file__).parents[2] / "fixtures" / "logs"


def facts_of(log: bytes) -> LogFacts:
    reader = LogReader()
    reader.feed(log)
    return reader.finish()


def measure(name: str) -> tuple[dict[str, Measurement], list[Unmeasured]]:
    facts = facts_of((LOGS / f"{name}.log").read_bytes())
    measured, unmeasured = memory_measurements(facts, "B", 2)
    return {format_series(m.name, m.labels): m for m in measured}, unmeasured


def values(name: str) -> dict[str, object]:
    return {series: measurement.value for series, measurement in measure(name)[0].items()}


def test_one_cache_gives_total_device_and_cells() -> None:
    """Cells count over all streams."""
    assert values("real_10434_plain") == {
        "kv_mib": 16.0,
        'kv_mib{device="CPU"}': 16.0,
        'weights_mib{device="CPU_Mapped"}': 5.31,
        "kv_cells": 8192,
        "prompt_cache_mib": 0.527,
        "prompt_cache_over_limit_mib": 0.0,
    }


def test_several_caches_are_told_apart() -> None:
    """Parts by cache and device, cells by cache."""
    assert values("sliding_window_lv4") == {
        "kv_mib": 30.0,
        'kv_mib{device="CPU"}': 30.0,
        'kv_mib{cache="full",device="CPU"}': 8.0,
        'kv_mib{cache="swa",device="CPU"}': 22.0,
        "kv_cells": 6144,
        'kv_cells{cache="full"}': 4096,
        'kv_cells{cache="swa"}': 2048,
        'weights_mib{device="CPU_Mapped"}': 130.25,
        'weights_mib{device="CPU_REPACK"}': 6.5,
    }


def test_an_address_is_no_part_of_a_device() -> None:
    """The port of an RPC server changes from launch to launch; its number does not."""
    log = (
        b"llama_kv_cache: RPC0[127.0.0.1:50952] KV buffer size =     4.00 MiB\n"
        b"llama_kv_cache:        CPU KV buffer size =    12.00 MiB\n"
        b"llama_kv_cache: size =   16.00 MiB (  4096 cells,   4 layers,  2/2 seqs), "
        b"K (f16):    8.00 MiB, V (f16):    8.00 MiB\n"
        b"srv    load_model: initializing, n_slots = 2, n_ctx_slot = 4096, kv_unified = 'false'\n"
    )
    measured, _ = memory_measurements(facts_of(log), "B")
    parts = {m.labels.get("device"): m.value for m in measured if m.name == "kv_mib"}
    assert parts == {None: 16.0, "RPC0": 4.0, "CPU": 12.0}


def test_devices_of_two_rpc_servers_are_told_apart() -> None:
    """Both print themselves as `RPC0[ADDRESS]` (build 10434)."""
    log = (
        b"llama_kv_cache: RPC0[127.0.0.1:50952] KV buffer size =     4.00 MiB\n"
        b"llama_kv_cache: RPC0[127.0.0.1:50953] KV buffer size =     8.00 MiB\n"
        b"llama_kv_cache:        CPU KV buffer size =     4.00 MiB\n"
        b"llama_kv_cache: size =   16.00 MiB (  4096 cells,   4 layers,  2/2 seqs), "
        b"K (f16):    8.00 MiB, V (f16):    8.00 MiB\n"
        b"srv    load_model: initializing, n_slots = 2, n_ctx_slot = 4096, kv_unified = 'false'\n"
    )
    measured, _ = memory_measurements(facts_of(log), "B")
    parts = {m.labels.get("device"): m.value for m in measured if m.name == "kv_mib"}
    assert parts == {None: 16.0, "RPC0": 4.0, "RPC1": 8.0, "CPU": 4.0}


def test_a_prompt_cache_above_its_limit_says_by_how_much() -> None:
    """One prompt alone may exceed it; what is over is there to be gated with `max: 0`."""
    found = values("prompt_cache_over_limit")
    state = facts_of((LOGS / "prompt_cache_over_limit.log").read_bytes()).cache_state
    assert state is not None
    assert state.limit_mib is not None
    assert found["prompt_cache_mib"] == state.mib
    assert found["prompt_cache_over_limit_mib"] == round(state.mib - state.limit_mib, 3) > 0


def test_a_newer_build_is_named_where_kv_is_unknown() -> None:
    """The likeliest reason for a form that is not known."""
    facts = facts_of(
        b"0.00.000.100 I build: 99999 (abcdef0) with GNU 14 for Linux\n"
        b"llama_kv_cache: KV pool on CUDA0: 64.00 MiB\n"
    )
    assert facts.build == "b99999-abcdef0"
    assert "b99999 is newer than" in explain_missing_kv(facts)


def test_streams_appear_only_where_they_are_printed() -> None:
    """As parts of a device."""
    assert values("fork_streams") == {
        "kv_mib": 160.0,
        'kv_mib{device="CUDA0"}': 128.0,
        'kv_mib{device="CUDA_Host"}': 32.0,
        'kv_mib{device="CUDA0",stream="0"}': 64.0,
        'kv_mib{device="CUDA0",stream="1"}': 64.0,
        'kv_mib{device="CUDA_Host",stream="0"}': 16.0,
        'kv_mib{device="CUDA_Host",stream="1"}': 16.0,
        'weights_mib{device="CUDA0"}': 900.0,
        "kv_cells": 8192,
    }


def test_a_draft_context_is_left_out_of_the_total() -> None:
    """It has its own label."""
    found = values("real_10068_draft_verbosity5")
    assert found["kv_mib"] == 16.0
    assert found['kv_mib{context="draft"}'] == 16.0
    assert found['kv_mib{context="draft",device="CPU"}'] == 16.0
    assert found["kv_cells"] == 8192


def test_recurrent_state_has_its_own_metric() -> None:
    """In total and by device."""
    found = values("hybrid")
    assert found["kv_mib"] == 1024.0
    assert found["rs_mib"] == 100.5
    assert found['rs_mib{device="CUDA0"}'] == 100.5


def test_a_value_carries_its_quantum_and_its_terms() -> None:
    """Hundredths, and how many printed numbers were added."""
    measured, _ = measure("two_gpus_and_host")
    total = measured["kv_mib"]
    assert (total.value, total.unit, total.variant, total.trial) == (1280.0, "MiB", "B", 2)
    assert (total.quantum, total.terms) == (0.01, 3)
    assert measured['kv_mib{device="CUDA0"}'].terms == 1


@pytest.mark.parametrize("name", sorted(path.stem for path in LOGS.glob("*.log")))
def test_every_series_is_in_the_catalogue(name: str) -> None:
    """With exactly the labels that its metric declares; parts add up to their total."""
    measured, _ = measure(name)
    for measurement in measured.values():
        labels = tuple(sorted(measurement.labels))
        assert labels in CATALOGUE[measurement.name].labels
    by_device = [
        float(m.value)
        for m in measured.values()
        if m.name == "kv_mib" and set(m.labels) == {"device"}
    ]
    if by_device and "tensor" not in name:
        assert sum(by_device) == pytest.approx(float(measured["kv_mib"].value))


def test_a_log_without_cells_measures_kv_all_the_same() -> None:
    """Builds before mid 2025 print none."""
    measured, unmeasured = measure("spring_2025_vulkan")
    assert measured["kv_mib"].value == 448.0
    assert [(u.name, u.outcome) for u in unmeasured] == [
        ("kv_cells", "missing"),
        *((name, "missing") for name in PROMPT_CACHE),
    ]


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (b"", "the log is empty"),
        (b"hello\n", "-lv 4"),
        (
            b"x: common_params_print_info: verbosity = 3 (adjust\n",
            "verbosity 4: -lv 4; this one ran at 3",
        ),
        (b"x: common_params_print_info: verbosity = 4 (adjust\n", "though llama-server ran at"),
        (
            (
                b"llama_kv_cache: CPU KV buffer size = 0.00 MiB\n"
                b"llama_kv_cache: size = 16.00 MiB (  4096 cells,   4 layers,  2/2 seqs), "
                b"K (f16):    8.00 MiB, V (f16):    8.00 MiB\n"
            ),
            "probe",
        ),
        (b"llama_kv_cache: CPU KV buffer size = 3 GiB\n", "unreadable: no known form: llama_kv"),
        (
            (
                b"llama_kv_cache: CPU KV buffer size = 16.00 MiB\n"
                b"llama_kv_cache: size = 8.00 MiB (  4096 cells,   4 layers,  2/2 seqs), "
                b"K (f16):    4.00 MiB, V (f16):    4.00 MiB\n"
            ),
            "buffers sum to 16.00 MiB but the size line says 8.00 MiB",
        ),
    ],
)
def test_unknown_kv_is_missing_and_says_why(log: bytes, reason: str) -> None:
    """One sentence that names what was found; never 0 and never a part."""
    measured, unmeasured = memory_measurements(facts_of(log), "B")
    assert [m for m in measured if m.name == "kv_mib"] == []
    kv = next(u for u in unmeasured if u.name == "kv_mib")
    assert (kv.outcome, kv.variant, kv.labels) == ("missing", "B", {})
    assert reason in kv.reason
    assert "\n" not in kv.reason


def test_a_log_that_ends_within_the_load_says_so() -> None:
    """A snapshot while the model loads is no measurement."""
    reader = LogReader()
    reader.feed(b"llama_kv_cache: CPU KV buffer size = 16.00 MiB\n")
    measured, unmeasured = memory_measurements(reader.facts(), "B")
    assert measured == []
    assert "ends within the load" in unmeasured[0].reason


def test_an_unreadable_draft_is_missing_under_its_label() -> None:
    """The target's KV is measured."""
    line = (
        b"llama_kv_cache: size = %s MiB (  4096 cells,   4 layers,  1/1 seqs), "
        b"K (f16):    8.00 MiB, V (f16):    8.00 MiB\n"
    )
    log = (
        b"llama_kv_cache: CPU KV buffer size = 16.00 MiB\n"
        + line % b"16.00"
        + b"sched_reserve: CPU compute buffer size = 1.00 MiB\n"
        + b"llama_kv_cache: CPU KV buffer size = 2.00 MiB\n"
        + line % b"4.00"
    )
    measured, unmeasured = memory_measurements(facts_of(log), "B")
    assert measured[0].value == 16.0
    assert [(u.name, u.labels) for u in unmeasured] == [
        ("kv_mib", {"context": "draft"}),
        *((name, {}) for name in PROMPT_CACHE),
    ]
