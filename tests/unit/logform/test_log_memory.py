"""Which memory lines count: the last load's, the target's, and only where they agree."""

from __future__ import annotations

import pytest

from benchsuite.logform.facts import LogFacts
from benchsuite.logform.grammar import cache_label, looks_like_kv
from benchsuite.logform.reader import LogReader


def read(*lines: str) -> LogFacts:
    reader = LogReader()
    reader.feed("".join(line + "\n" for line in lines).encode())
    return reader.finish()


def kv(mib: float, device: str = "CPU") -> str:
    return f"llama_kv_cache: {device:>10} KV buffer size = {mib:8.2f} MiB"


def size(mib: float, cells: int = 2048) -> str:
    half = mib / 2
    return (
        f"llama_kv_cache: size = {mib:7.2f} MiB ({cells:6d} cells,   4 layers,  2/2 seqs), "
        f"K (f16): {half:7.2f} MiB, V (f16): {half:7.2f} MiB"
    )


def model(mib: float) -> str:
    return f"load_tensors:   CPU_Mapped model buffer size = {mib:8.2f} MiB"


COMPUTE = "sched_reserve:        CPU compute buffer size =     8.51 MiB"
SERVING = "srv    load_model: initializing, n_slots = 2, n_ctx_slot = 2048, kv_unified = 'false'"
LATENT = "KV self size  =   64.00 MiB, c^KV (q8_0):   64.00 MiB, kv^T: not used"
LOADING = "srv    load_model: loading model '/models/m.gguf'"


def total(facts: LogFacts) -> float | None:
    return None if facts.kv_total is None else facts.kv_total.mib


@pytest.mark.parametrize(
    ("buffers", "printed", "readable"),
    [
        ([12.75], 12.75, True),
        ([31.88, 12.75], 44.62, True),  # seen on a healthy server
        ([31.88, 12.75], 44.64, True),
        ([31.88, 12.75], 44.65, False),
        ([6.38], 6.39, True),
        ([6.38], 6.40, False),
        ([16.0], 8.0, False),
        ([16.0], 32.0, False),
    ],
)
def test_buffers_and_size_line_may_differ_by_rounding_only(
    buffers: list[float], printed: float, readable: bool
) -> None:
    """Half a hundredth for each printed number; beyond, KV is unreadable and has no value."""
    lines = [kv(mib, f"CUDA{index}") for index, mib in enumerate(buffers)]
    facts = read(*lines, size(printed), COMPUTE, SERVING)
    if readable:
        assert total(facts) == round(sum(buffers), 2)
        assert facts.unreadable == ()
    else:
        assert facts.kv_total is None
        assert len(facts.unreadable) == 1
        assert size(printed) in facts.unreadable[0]


@pytest.mark.parametrize(
    "line",
    [
        "llama_kv_cache: KV buffer size: 64 on CUDA0",
        "llama_kv_cache:      CUDA0 KV buffer size =    64 MiB",
        "llama_kv_cache:      CUDA0 KV buffer size =   1.50 GiB",
        "llama_kv_cache:      CUDA0 KV buffer size = nan MiB",
        "llama_new_context_with_model: KV self size  = 1.5 GB",
        "llama_init_from_file: kv self size  = a lot",
        "llama_kv_cache: size = 64 MiB in 3 pools",
        "llama_kv_cache: KV pool on CUDA0: 64.00 MiB",
        "llama_context: allocated 512 MB for KV, 64 MB of it on CUDA0",
    ],
)
def test_a_kv_line_in_no_known_form_is_unreadable(line: str) -> None:
    """Reported with the line; KV is then missing even if other lines could be read."""
    facts = read(kv(16), size(16), line)
    assert facts.kv_total is None
    assert facts.unreadable == (f"no known form: {line}",)


@pytest.mark.parametrize(
    "line",
    [
        '0.00.001.000 D srv  log_server_r: request: {"prompt": "what is KV buffer size = 3?"}',
        "# a comment about KV self size = 3.00 MiB",
        "llama_model_loader: Dumping metadata. Note: KV overrides do not apply in this output.",
        "llama_kv_cache_iswa: creating non-SWA KV cache, size = 2048 cells",
        "srv    load_model: prompt cache is enabled, size limit: 8192 MiB",
    ],
)
def test_text_about_kv_is_no_kv_line(line: str) -> None:
    """What users send, comments and notes leave the reading as it is."""
    facts = read(kv(16), size(16), line)
    assert total(facts) == 16.0
    assert facts.unreadable == ()


@pytest.mark.parametrize(
    ("line", "device"),
    [
        ("llama_kv_cache:      CUDA0 compressed KV buffer size =    64.00 MiB", "CUDA0"),
        ("llama_paged_kv_pool:      CUDA0 paged KV buffer size =    64.00 MiB", "CUDA0"),
        (
            "llama_kv_cache:     CUDA0 KV buffer size =    64.00 MiB (VA; physical maps on demand)",
            "CUDA0",
        ),
        ("llama_kv_cache_fp8: [fp8]      CUDA0 KV buffer size =    64.00 MiB", "CUDA0"),
        ("llama_kv_cache:     Meta() KV buffer size =    64.00 MiB", "Meta()"),
        ("llama_kv_cache_unified:  CUDA_Host KV buffer size =    64.00 MiB", "CUDA_Host"),
        (
            "llama_kv_cache: RPC0[10.0.0.1:50052] KV buffer size =    64.00 MiB",
            "RPC0[10.0.0.1:50052]",
        ),
        (
            "llama_kv_cache: RPC0 (10.0.0.1:50052) KV buffer size =    64.00 MiB",
            "RPC0 (10.0.0.1:50052)",
        ),
    ],
)
def test_words_around_a_buffer_do_not_hide_it(line: str, device: str) -> None:
    """Forks put words before, tags around and notes behind."""
    facts = read(line, COMPUTE)
    assert total(facts) == 64.0
    assert facts.kv_buffers[0].device == device


def test_the_probe_is_dropped_with_its_size_line() -> None:
    """Buffers of 0.00 MiB beside a full-size line, with and without model lines around."""
    probe = [kv(0), size(16), COMPUTE]
    assert total(read(model(0), *probe, model(5.31), kv(16), size(16), COMPUTE)) == 16.0
    assert total(read(kv(0), size(16), kv(16), size(16), COMPUTE)) == 16.0


def test_a_probe_alone_leaves_kv_unknown() -> None:
    """A server that died after memory fitting has no KV, and it is not 0."""
    for lines in ([model(0), kv(0), size(16), COMPUTE], [kv(0), size(16)], [kv(0)]):
        facts = read(*lines)
        assert facts.kv_total is None
        assert facts.probed
        assert facts.unreadable == ()


def test_a_probe_of_the_draft_model_does_not_replace_the_target() -> None:
    """Model buffers of 0.00 MiB begin a probe, wherever they stand."""
    facts = read(
        *(model(5.31), kv(16), size(16), COMPUTE, model(0), kv(0), size(4), COMPUTE),
        "common_speculative_init_result: loading draft model '/models/d.gguf'",
        *(model(1.25), kv(4), size(4), COMPUTE, SERVING),
    )
    assert total(facts) == 16.0
    assert facts.draft_kv_total is not None
    assert facts.draft_kv_total.mib == 4.0


def test_the_last_of_several_loads_counts() -> None:
    """After sleep everything is printed again, with or without the line that says so."""
    first = [model(5.31), kv(16), size(16), COMPUTE, SERVING]
    second = [model(5.31), kv(8), size(8), COMPUTE, SERVING]
    assert total(read(*first, *second)) == 8.0
    assert total(read(LOADING, *first, LOADING, *second)) == 8.0
    assert read(LOADING, *first, LOADING, *second).draft_kv_total is None


def test_a_reload_that_says_nothing_leaves_kv_unknown() -> None:
    """Once the model is loaded anew, the old numbers are gone."""
    facts = read(LOADING, model(5.31), kv(16), size(16), COMPUTE, SERVING, LOADING)
    assert facts.kv_total is None
    assert facts.n_slots is None


def test_a_second_context_is_the_draft_s() -> None:
    """Multi-token prediction makes one on the target's model, with no model lines between."""
    facts = read(model(5.31), kv(16), size(16), COMPUTE, kv(2), size(2), COMPUTE, SERVING)
    assert total(facts) == 16.0
    assert facts.draft_kv_total is not None
    assert facts.draft_kv_total.mib == 2.0
    assert [b.context for b in facts.kv_buffers] == ["target", "draft"]


@pytest.mark.parametrize("named", [True, False])
def test_a_draft_s_output_buffer_is_the_draft_s(named: bool) -> None:
    """A context's output buffer is its first line, before its KV, with or without a model's."""
    output = "llama_context:        CPU  output buffer size =     0.01 MiB"
    draft = ["common_speculative_init_result: loading draft model '/models/d.gguf'", model(0.96)]
    facts = read(
        *(model(5.31), output, kv(2), size(2), COMPUTE),
        *(draft if named else []),
        *(output, kv(0.5), size(0.5), COMPUTE, SERVING),
    )
    outputs = [buffer.context for buffer in facts.load.buffers if buffer.kind == "output"]
    assert outputs == ["target", "draft"]
    assert total(facts) == 2.0
    assert facts.draft_kv_total is not None
    assert facts.draft_kv_total.mib == 0.5


def test_an_unreadable_draft_leaves_the_target_readable() -> None:
    """Each context is judged by its own lines."""
    facts = read(model(5.31), kv(16), size(16), COMPUTE, kv(2), size(3), COMPUTE, SERVING)
    assert total(facts) == 16.0
    assert facts.draft_kv_total is None
    assert len(facts.load.unreadable_draft) == 1


def test_a_size_line_of_no_layers_is_a_decoy() -> None:
    """DSV4 models print one beside their real caches."""
    decoy = (
        "llama_kv_cache: size =    0.00 MiB (  2048 cells,   0 layers,  2/2 seqs), "
        "K (f16):    0.00 MiB, V (f16):    0.00 MiB"
    )
    facts = read(decoy, kv(16), size(16), COMPUTE)
    assert total(facts) == 16.0
    assert len(facts.kv_sizes) == 1


def test_state_buffers_of_dsv4_models_are_no_kv() -> None:
    """They are listed as state."""
    facts = read(
        kv(16),
        size(16),
        "llama_dsv4_comp_state:      CUDA0 DSV4 csa state buffer size =     2.00 MiB",
        "llama_dsv4_comp_state: csa ratio = 4, state = 8 x 64, layers = 4, size = 2.00 MiB",
        COMPUTE,
    )
    assert total(facts) == 16.0
    assert [(b.kind, b.mib) for b in facts.load.buffers if b.kind == "state"] == [("state", 2.0)]


def test_main_and_indexer_caches_add_up() -> None:
    """Both are KV, told apart by name."""
    facts = read(
        "llama_kv_cache_dsa: creating main KV cache, size = 2048 cells",
        *(kv(16), size(16)),
        "llama_kv_cache_dsa: creating indexer KV cache, size = 2048 cells",
        *(kv(2), size(2), COMPUTE),
    )
    assert total(facts) == 18.0
    assert [b.cache for b in facts.kv_buffers] == ["full", "indexer"]


def test_a_self_size_printed_twice_counts_once() -> None:
    """ik_llama has done so, in two spellings."""
    facts = read(
        "llama_kv_cache_init:      CUDA0 KV buffer size =    64.00 MiB",
        f"llama_new_context_with_model: {LATENT}",
        f"llama_init_from_model: {LATENT}",
    )
    assert total(facts) == 64.0
    assert facts.unreadable == ()


def test_padding_beyond_hundredths_is_unreadable() -> None:
    """The latent cache's dialect explains no more."""
    facts = read(
        "llama_kv_cache_init:      CUDA0 KV buffer size =    65.00 MiB",
        f"llama_new_context_with_model: {LATENT}",
    )
    assert facts.kv_total is None
    assert facts.unreadable


def test_a_tensor_split_s_kv_counts_by_its_size_line() -> None:
    """`Meta()` prints one device's share."""
    facts = read(kv(8, "Meta()"), size(16), COMPUTE)
    assert total(facts) == 16.0
    assert facts.load.notes


def test_one_cache_without_a_buffer_line_is_unreadable() -> None:
    """Half of the lines are missing: no total, rather than a guess."""
    facts = read(kv(16), size(16), size(4), COMPUTE)
    assert facts.kv_total is None
    assert "without a buffer line" in facts.unreadable[0]


def test_recurrent_state_under_the_name_of_kv_is_no_kv() -> None:
    """Early 2025 printed it so."""
    facts = read(
        "llama_kv_cache_recurrent:        CPU KV buffer size =    12.00 MiB",
        "llama_kv_cache_recurrent: KV self size  =   12.00 MiB, R (f32):    2.00 MiB",
    )
    assert facts.kv_total is None
    assert facts.rs_total is not None
    assert facts.rs_total.mib == 12.0


def test_recurrent_state_that_disagrees_is_unreadable() -> None:
    """KV is judged apart."""
    facts = read(
        *(kv(16), size(16)),
        "llama_memory_recurrent:        CPU RS buffer size =    12.00 MiB",
        "llama_memory_recurrent: size =   24.00 MiB (     1 cells,  32 layers,  1 seqs), R",
        COMPUTE,
    )
    assert total(facts) == 16.0
    assert facts.rs_total is None
    assert len(facts.unreadable) == 1


def test_compute_buffers_reserved_anew_replace_themselves() -> None:
    """A long log that reserves often does not grow."""
    again = [f"sched_reserve:        CPU compute buffer size = {n:8.2f} MiB" for n in range(1, 60)]
    facts = read(model(5.31), kv(16), size(16), COMPUTE, SERVING, *again)
    assert [(b.kind, b.mib) for b in facts.load.buffers] == [("model", 5.31), ("compute", 59.0)]
    assert facts.draft_kv_total is None


def test_a_hostile_log_is_bounded() -> None:
    """Endless KV lines are not kept."""
    facts = read(*[kv(1)] * 10_000)
    assert len(facts.kv_buffers) < 5000
    assert facts.kv_total is None
    assert "more than" in facts.unreadable[0]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("non-SWA", "full"),
        ("    SWA", "swa"),
        ("main", "full"),
        ("indexer", "indexer"),
        ("DSV4 lightning-indexer", "indexer"),
        ("DSV4 CSA compressed", "dsv4-csa-compressed"),
    ],
)
def test_cache_names_become_labels(name: str, label: str) -> None:
    """Short and stable, whatever the spacing."""
    assert cache_label(name.strip()) == label


def test_prose_does_not_look_like_kv() -> None:
    """Only a line of the log's own does."""
    assert looks_like_kv("llama_kv_cache: KV buffer size is 3", loading=True)
    assert not looks_like_kv('a user wrote "KV buffer size"', loading=True)
