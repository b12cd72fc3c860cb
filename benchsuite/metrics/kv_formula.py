"""How much KV cache and recurrent state a model must take with given flags; pure.

Read from the source of build 11434 (`src/` of llama.cpp) unless a function says otherwise:

- `llama_context::llama_context` (llama-context.cpp): the context is padded to 256 cells; without
  unified KV it is then divided by the slots and each share padded to 256 again. `n_batch` is at
  most the context as asked, `n_ubatch` at most that.
- `llama_kv_cache` (llama-kv-cache.cpp): each layer has one K tensor of `kv heads * key size` by
  cells by streams, and one V tensor likewise unless the model is MLA. Streams are the slots, or 1
  where unified. Without flash attention V is stored transposed, and where layers' values differ in
  width every layer takes the widest. Builds from 10434 on refuse an MLA model with K and V of
  different types; build 10092 takes it, and K's type decides.
- `llama_kv_cache_iswa` (llama-kv-cache-iswa.cpp): sliding layers have a cache of their own, of
  `pad256(min(context, window * (unified ? slots : 1) + n_ubatch))` cells.
- `llama_memory_recurrent` (llama-memory-recurrent.cpp): one row for each slot, in F32, whatever
  the context.
- Buffers may be larger than their tensors by the padding that a backend gives each tensor (32
  bytes on CPU, 128 on CUDA), which is none for widths and cells as they occur in KV.

How the context shown to a client is capped (`n_ctx_slot`) does not change what is allocated.
"""

from __future__ import annotations

import msgspec

from benchsuite.model.shape import AttentionLayer, ModelShape, UnknownMemory
from benchsuite.units import MIB

CACHE_TYPES: dict[str, tuple[int, int]] = {
    "f32": (1, 4),
    "f16": (1, 2),
    "bf16": (1, 2),
    "q8_0": (32, 34),
    "q4_0": (32, 18),
    "q4_1": (32, 20),
    "iq4_nl": (32, 18),
    "q5_0": (32, 22),
    "q5_1": (32, 24),
}
"""Types that `--cache-type-k` and `-v` take -> numbers of a block, bytes of a block
(`kv_cache_types` of common/arg.cpp, block sizes of ggml/src/ggml-common.h)."""

AUTOMATIC_SLOTS = 4
"""Slots where `--parallel` is not given or negative; KV is then unified (server.cpp;
build 10434 says "using n_parallel = 4")."""

_PAD_CELLS = 256
_MOST_SLOTS = 256  # LLAMA_MAX_SEQ
_MOST_CELLS = 2**32 - 1  # counted in uint32_t
_STATE_BYTES = 4  # F32


class CacheSettings(msgspec.Struct, frozen=True):
    """The flags that decide memory, as given to llama-server; its defaults where not given."""

    n_ctx: int = 0  # `--ctx-size`, in all; 0: what the model was trained with
    n_parallel: int = -1  # `--parallel`; negative: automatic
    unified: bool = False  # `--kv-unified`; automatic slots are unified anyway
    type_k: str = "f16"
    type_v: str = "f16"
    swa_full: bool = False
    n_batch: int = 2048
    n_ubatch: int = 512
    flash_attention: bool = True  # False only for `--flash-attn off`: `auto` allocates as `on`
    causal: bool | None = None  # `--attention`; None: as the model is
    n_ctx_slot: int = 0  # `--kv-unified-per-slot`: sizes the context where none is given; 0: unset

    @property
    def slots(self) -> int:
        """How many sequences the context is made for."""
        return AUTOMATIC_SLOTS if self.n_parallel < 0 else self.n_parallel

    @property
    def is_unified(self) -> bool:
        """Whether all slots share one stream of cells."""
        return self.unified or self.n_parallel < 0


class ExpectedCache(msgspec.Struct, frozen=True):
    """One KV cache."""

    cache: str  # `full`, `swa`; empty where there is only one
    layers: int
    cells: int  # of one stream
    streams: int
    k_bytes: int
    v_bytes: int

    @property
    def mib(self) -> float:
        """Keys and values."""
        return (self.k_bytes + self.v_bytes) / MIB


class ExpectedState(msgspec.Struct, frozen=True):
    """The recurrent state."""

    layers: int
    rows: int  # one for each slot
    r_bytes: int
    s_bytes: int

    @property
    def mib(self) -> float:
        """Rolling and recurrent state."""
        return (self.r_bytes + self.s_bytes) / MIB


class ExpectedMemory(msgspec.Struct, frozen=True):
    """What a context must take, exactly."""

    settings: CacheSettings
    n_ctx_seq: int  # cells that one sequence can use: of one stream
    caches: tuple[ExpectedCache, ...]  # empty for purely recurrent models
    state: ExpectedState | None  # None for models without recurrent layers

    @property
    def kv_mib(self) -> float:
        """All KV caches together."""
        return sum(cache.mib for cache in self.caches)

    @property
    def kv_cells(self) -> int:
        """Cells of all caches over all streams."""
        return sum(cache.cells * cache.streams for cache in self.caches)


def expected_memory(shape: ModelShape, settings: CacheSettings) -> ExpectedMemory | UnknownMemory:
    """What llama-server must allocate for a model with these flags.

    Args:
        shape: Of the model.
        settings: The flags. Offloading and layers on devices move memory and change no total.

    Returns:
        The exact sizes; or why there are none, such as flags that llama-server refuses.
    """
    reason = _refusal(shape, settings)
    if reason is not None:
        return UnknownMemory(reason)
    slots, unified = settings.slots, settings.is_unified
    n_ctx = settings.n_ctx
    if n_ctx == 0:
        n_ctx = settings.n_ctx_slot * slots or shape.n_ctx_train
    n_ctx_seq = _padded(n_ctx)
    if not unified:
        n_ctx_seq = _padded(n_ctx_seq // slots)
    if not 0 < n_ctx_seq <= _MOST_CELLS:
        return UnknownMemory(f"a context of {n_ctx} tokens for {slots} slots is none")
    streams = 1 if unified else slots
    caches: list[ExpectedCache] = []
    if shape.window is not None:
        causal = shape.causal if settings.causal is None else settings.causal
        n_batch = min(n_ctx, settings.n_batch) if causal else settings.n_batch
        n_ubatch = min(n_batch, settings.n_ubatch or settings.n_batch)
        seen = shape.window * (slots if unified else 1) + n_ubatch
        sliding = n_ctx_seq if settings.swa_full else _padded(min(n_ctx_seq, seen))
        for name, slides, cells in (("full", False, n_ctx_seq), ("swa", True, sliding)):
            layers = [layer for layer in shape.layers if layer.sliding == slides]
            if layers:  # a cache without layers is printed, and holds nothing
                caches.append(_cache(name, layers, cells, streams, shape, settings))
    elif shape.layers:
        caches.append(_cache("", shape.layers, n_ctx_seq, streams, shape, settings))
    state = None
    if shape.recurrent_layers:
        numbers = _STATE_BYTES * slots * shape.recurrent_layers
        state = ExpectedState(
            shape.recurrent_layers, slots, shape.r_width * numbers, shape.s_width * numbers
        )
    return ExpectedMemory(settings, n_ctx_seq, tuple(caches), state)


def _refusal(shape: ModelShape, settings: CacheSettings) -> str | None:
    """Why llama-server would not start with these flags; None where it would."""
    for side, name in (("k", settings.type_k), ("v", settings.type_v)):
        if name not in CACHE_TYPES:
            return f"cache type '{name}' (--cache-type-{side}) is not known to benchsuite"
    if not 0 < settings.slots <= _MOST_SLOTS:
        return f"{settings.slots} slots: llama-server takes 1 to {_MOST_SLOTS}"
    if min(settings.n_ctx, settings.n_batch, settings.n_ubatch, settings.n_ctx_slot) < 0:
        return "a context or batch below 0 means nothing to llama-server"
    if not settings.n_batch and not settings.n_ubatch:
        return "llama-server refuses a batch of 0"
    if CACHE_TYPES[settings.type_v][0] > 1 and not settings.flash_attention:
        return f"llama-server refuses {settings.type_v} for V without flash attention"
    for layer in shape.layers:
        reason = _indivisible(layer, settings)
        if reason is not None:
            return reason
    return None


def _indivisible(layer: AttentionLayer, settings: CacheSettings) -> str | None:
    """Why a layer's rows cannot be made of whole blocks; None where they can."""
    for side, name, head, width in (
        ("K", settings.type_k, layer.key_size, layer.k_width),
        ("V", settings.type_v, layer.value_size, layer.v_width),
    ):
        block = CACHE_TYPES[name][0]
        numbers = head if settings.flash_attention else width
        if numbers % block:
            return f"{numbers} numbers of {side} are no multiple of the {block} of a {name} block"
    return None


def _cache(
    name: str,
    layers: tuple[AttentionLayer, ...] | list[AttentionLayer],
    cells: int,
    streams: int,
    shape: ModelShape,
    settings: CacheSettings,
) -> ExpectedCache:
    transposed = not settings.flash_attention and not shape.mla
    k_row = sum(_row_bytes(settings.type_k, layer.k_width) for layer in layers)
    v_row = sum(
        _row_bytes(settings.type_v, shape.widest_values if transposed else layer.v_width)
        for layer in layers
    )
    rows = cells * streams
    return ExpectedCache(name, len(layers), cells, streams, k_row * rows, v_row * rows)


def _row_bytes(kind: str, numbers: int) -> int:
    per_block, block_bytes = CACHE_TYPES[kind]
    return numbers // per_block * block_bytes


def _padded(cells: int) -> int:
    return -(-cells // _PAD_CELLS) * _PAD_CELLS
