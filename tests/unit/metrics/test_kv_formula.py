"""Expected memory is what real servers printed, and what llama-server refuses is refused."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.metrics.kv_formula import (
    CACHE_TYPES,
    CacheSettings,
    ExpectedCache,
    ExpectedMemory,
    expected_memory,
)
from benchsuite.model.shape import AttentionLayer, ModelShape, UnknownMemory
from benchsuite.units import MIB

replace = msgspec.structs.replace


def plain(layers: int, kv_heads: int, key: int, value: int | None = None) -> ModelShape:
    """A model whose layers are all alike."""
    layer = AttentionLayer(kv_heads, key, key if value is None else value)
    return ModelShape("llama", layers, 32768, (layer,) * layers, widest_values=layer.v_width)


def iswa(full: int, sliding: int, kv_heads: int, size: int, window: int) -> ModelShape:
    """A model some of whose layers see a window."""
    layer = AttentionLayer(kv_heads, size, size)
    layers = (layer,) * full + (replace(layer, sliding=True),) * sliding
    return ModelShape("gemma3", full + sliding, 32768, layers, window, layer.v_width)


LLAMA_8B = plain(32, 8, 128)
GEMMA3_270M = iswa(3, 15, 1, 256, 512)


def told(shape: ModelShape, settings: CacheSettings) -> ExpectedMemory:
    """The expected memory, which is known."""
    found = expected_memory(shape, settings)
    assert isinstance(found, ExpectedMemory), found
    return found


def refused(shape: ModelShape, settings: CacheSettings) -> str:
    """Why there is none."""
    found = expected_memory(shape, settings)
    assert isinstance(found, UnknownMemory), found
    return found.reason


def printed(cache: ExpectedCache) -> tuple[int, int, int, float, float]:
    """Layers, cells, streams, K and V as a log prints them."""
    k, v = (round(size / MIB, 2) for size in (cache.k_bytes, cache.v_bytes))
    return cache.layers, cache.cells, cache.streams, k, v


@pytest.mark.parametrize(
    ("shape", "settings", "caches"),
    [
        pytest.param(  # tests/fixtures/logs: kv_size = 32768, K (q8_0): 2176.00 MiB
            plain(64, 8, 128),
            CacheSettings(32768, 1, type_k="q8_0", type_v="q8_0"),
            [(64, 32768, 1, 2176.0, 2176.0)],
            id="64 layers of q8_0 on two devices",
        ),
        pytest.param(  # 3 x SYCL: kv_size = 23552, 2208.00 MiB over 48 layers
            plain(48, 4, 128),
            CacheSettings(23552, 1),
            [(48, 23552, 1, 1104.0, 1104.0)],
            id="48 layers over three devices",
        ),
        pytest.param(  # `size = 18.00 MiB (768 cells, 12 layers, 1/1 seqs)`
            iswa(12, 12, 8, 64, 128),
            CacheSettings(131072, 1),
            [(12, 131072, 1, 1536.0, 1536.0), (12, 768, 1, 9.0, 9.0)],
            id="gpt-oss 20b on Metal",
        ),
        pytest.param(  # build 11434: `(1024 cells, 15 layers, 2/2 seqs), K (f16): 15.00 MiB`
            GEMMA3_270M,
            CacheSettings(2048, 2),
            [(3, 1024, 2, 3.0, 3.0), (15, 1024, 2, 15.0, 15.0)],
            id="gemma 3 270m",
        ),
        pytest.param(  # build 11434: `K (q8_0): 0.80 MiB` and `3.98 MiB`
            GEMMA3_270M,
            CacheSettings(1024, 2, type_k="q8_0", type_v="q8_0"),
            [(3, 512, 2, 0.8, 0.8), (15, 512, 2, 3.98, 3.98)],
            id="gemma 3 270m of q8_0",
        ),
        pytest.param(  # a fork's MLA: `c^KV (q8_0): 583.31 MiB, kv^T: not used` at 16384
            replace(plain(61, 1, 576, 0), mla=True),
            CacheSettings(16384, 1, type_k="q8_0", type_v="q8_0"),
            [(61, 16384, 1, 583.31, 0.0)],
            id="deepseek 671b of q8_0",
        ),
    ],
)
def test_figures_of_public_logs(
    shape: ModelShape, settings: CacheSettings, caches: list[tuple[int, int, int, float, float]]
) -> None:
    """Layers, cells, streams, K and V to the last printed digit."""
    assert [printed(cache) for cache in told(shape, settings).caches] == caches


def test_recurrent_state_of_a_public_log() -> None:
    """`size = 50.25 MiB (1 cells, 32 layers), R 2.25 MiB, S 48.00 MiB` beside 8192 MiB of KV."""
    layer = AttentionLayer(4, 256, 256)
    shape = ModelShape(
        "qwen35",
        32,
        262144,
        (layer,) * 8,
        widest_values=1024,
        recurrent_layers=24,
        r_width=3 * (4096 + 2 * 16 * 128),
        s_width=128 * 4096,
    )
    found = told(shape, CacheSettings(262144, 1))
    assert found.kv_mib == 8192.0
    assert found.state is not None
    assert (found.state.r_bytes / MIB, found.state.s_bytes / MIB) == (2.25, 48.0)
    assert found.state.mib == 50.25
    assert told(shape, CacheSettings(262144, 3)).state == replace(
        found.state, rows=3, r_bytes=3 * found.state.r_bytes, s_bytes=3 * found.state.s_bytes
    )


@pytest.mark.parametrize(
    ("settings", "cells", "streams"),
    [
        (CacheSettings(1000, 3), 512, 3),  # 1024 / 3 = 341
        (CacheSettings(1024, 4), 256, 4),
        (CacheSettings(1025, 4), 512, 4),  # 1280 / 4 = 320
        (CacheSettings(1, 1), 256, 1),
        (CacheSettings(5000, 2, unified=True), 5120, 1),
        (CacheSettings(3000), 3072, 1),  # 4 automatic slots share one stream
        (CacheSettings(0, 2), 16384, 2),  # as the model was trained
        (CacheSettings(0, 2, n_ctx_slot=1000), 1024, 2),
        (CacheSettings(512, 2, n_ctx_slot=100), 256, 2),  # a given context wins
    ],
)
def test_context_is_padded_and_divided(settings: CacheSettings, cells: int, streams: int) -> None:
    """To 256 cells in all, and again for each slot."""
    (cache,) = told(LLAMA_8B, settings).caches
    assert (cache.cells, cache.streams) == (cells, streams)


@pytest.mark.parametrize(
    ("settings", "cells"),
    [
        (CacheSettings(32768, 1), 1024),  # 512 + 512
        (CacheSettings(32768, 1, n_ubatch=100), 768),  # 612
        (CacheSettings(32768, 1, n_ubatch=0, n_batch=64), 768),  # 576: no micro-batch is the batch
        (CacheSettings(32768, 1, n_batch=32), 768),  # 544: a micro-batch is no more than a batch
        (CacheSettings(32768, 4), 1024),
        (CacheSettings(32768, 4, unified=True), 2560),  # 4 windows
        (CacheSettings(512, 1), 512),  # never more than the context
        (CacheSettings(32768, 4, swa_full=True), 8192),
    ],
)
def test_sliding_layers_keep_windows(settings: CacheSettings, cells: int) -> None:
    """A window for each slot that shares a stream, and a micro-batch, padded to 256."""
    full, swa = told(GEMMA3_270M, settings).caches
    assert (full.cache, swa.cache, swa.cells) == ("full", "swa", cells)


def test_a_cache_without_layers_is_none() -> None:
    """Where every layer slides there is one cache, named as the log names it."""
    (cache,) = told(iswa(0, 4, 1, 64, 64), CacheSettings(4096, 1)).caches
    assert cache.cache == "swa"


def test_without_flash_attention_values_take_the_widest_row() -> None:
    """Transposed values are padded to the widest layer, also one that keeps nothing."""
    layers = (AttentionLayer(1, 32, 32), AttentionLayer(4, 32, 32))
    shape = ModelShape("deci", 3, 4096, layers, widest_values=256)
    settings = CacheSettings(256, 1)
    assert told(shape, settings).caches[0].v_bytes == (32 + 128) * 2 * 256
    off = told(shape, replace(settings, flash_attention=False))
    assert off.caches[0].v_bytes == 2 * 256 * 2 * 256
    assert off.caches[0].k_bytes == told(shape, settings).caches[0].k_bytes


@pytest.mark.parametrize("kind", CACHE_TYPES)
def test_every_cache_type_has_the_size_of_its_blocks(kind: str) -> None:
    """gguf, which is made from ggml's own table, says the same."""
    gguf = pytest.importorskip("gguf")
    sizes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind.upper()]]
    assert CACHE_TYPES[kind] == tuple(sizes)


@pytest.mark.parametrize(
    ("shape", "settings", "words"),
    [
        (LLAMA_8B, CacheSettings(512, 1, type_k="q8"), "cache type 'q8' (--cache-type-k)"),
        (LLAMA_8B, CacheSettings(512, 1, type_v="fp8"), "cache type 'fp8' (--cache-type-v)"),
        (LLAMA_8B, CacheSettings(512, 0), "0 slots"),
        (LLAMA_8B, CacheSettings(512, 257), "257 slots"),
        (LLAMA_8B, CacheSettings(-1, 1), "below 0"),
        (LLAMA_8B, CacheSettings(512, 1, n_batch=0, n_ubatch=0), "batch of 0"),
        (
            LLAMA_8B,
            CacheSettings(512, 1, type_v="q8_0", flash_attention=False),
            "q8_0 for V without flash attention",
        ),
        (plain(2, 8, 80), CacheSettings(512, 1, type_k="q8_0"), "80 numbers of K"),
        (plain(2, 8, 64, 40), CacheSettings(512, 1, type_v="q4_0"), "40 numbers of V"),
        (replace(LLAMA_8B, n_ctx_train=0), CacheSettings(0, 1), "a context of 0 tokens"),
        (LLAMA_8B, CacheSettings(2**40, 1), "a context of"),
    ],
)
def test_what_the_server_refuses_has_no_size(
    shape: ModelShape, settings: CacheSettings, words: str
) -> None:
    """The reason names the flag or the number."""
    assert words in refused(shape, settings)


def test_without_flash_attention_only_whole_rows_of_keys_must_divide() -> None:
    """8 heads of 80 are 20 blocks of 32, though one head is not whole blocks."""
    shape = plain(1, 8, 80)
    off = CacheSettings(256, 1, type_k="q8_0", flash_attention=False)
    assert told(shape, off).caches[0].k_bytes == 640 // 32 * 34 * 256


SETTINGS = st.builds(
    CacheSettings,
    n_ctx=st.integers(1, 300_000),
    n_parallel=st.integers(1, 256),
    unified=st.booleans(),
    type_k=st.sampled_from(sorted(CACHE_TYPES)),
    type_v=st.sampled_from(sorted(CACHE_TYPES)),
    swa_full=st.booleans(),
    n_ubatch=st.integers(1, 4096),
)


@given(settings=SETTINGS)
def test_cells_hold_what_was_asked_for(settings: CacheSettings) -> None:
    """Slots together get at least the context; padding never adds more than 256 a slot, and one."""
    (cache,) = told(LLAMA_8B, settings).caches
    cells = cache.cells * cache.streams
    assert cache.cells % 256 == 0
    assert settings.n_ctx <= cells < settings.n_ctx + 256 * (cache.streams + 1)
    k, v = CACHE_TYPES[settings.type_k], CACHE_TYPES[settings.type_v]
    assert cache.k_bytes * k[0] == 32 * 1024 * cells * k[1]
    assert cache.v_bytes * v[0] == 32 * 1024 * cells * v[1]


@given(settings=SETTINGS)
def test_a_window_never_costs_more_than_the_whole_context(settings: CacheSettings) -> None:
    """And with --swa-full exactly as much."""
    found = told(GEMMA3_270M, settings)
    full, swa = found.caches
    assert swa.cells <= full.cells
    assert not settings.swa_full or swa.cells == full.cells
    assert found.kv_mib == sum(cache.mib for cache in found.caches)
    assert found.kv_cells == (full.cells + swa.cells) * full.streams
