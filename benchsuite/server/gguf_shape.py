"""What a model file's metadata say of its cache: layers, heads, windows, recurrent state.

As `load_hparams`, each architecture's `load_arch_hparams` (src/models/*.cpp) and `create_memory`
(src/llama-model.cpp) of build 11434 read them. The table of rules lists what was read there; an
architecture that is not in it is unknown, and so is a file whose keys do not suit its rule.

Must not know what a server's flags are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchsuite.model.shape import AttentionLayer, ModelShape, UnknownMemory
from benchsuite.server.gguf_arch import RULES, UNVERIFIED, Rule
from benchsuite.server.gguf_header import Header, open_gguf

_MOST_LAYERS = 512  # LLAMA_MAX_LAYERS
_MOST_WIDE = 65_536  # heads, and numbers in a key; a thousand times what models have


def read_model_shape(path: Path) -> ModelShape | UnknownMemory:
    """The shape of a model file's cache; of a split model, from its first part.

    Raises:
        ConfigError: The file is missing, unreadable, no GGUF, cut short or hostile.
    """
    with open_gguf(path) as (header, _):
        return shape_of(header)


def shape_of(header: Header) -> ModelShape | UnknownMemory:
    """The shape of a header's cache, or why it cannot be told."""
    architecture = header.text("general.architecture")
    if not architecture:
        return UnknownMemory("the file does not name its architecture (general.architecture)")
    if header.number("split.no"):
        return UnknownMemory("a later part of a split model has no metadata; give its first part")
    rule = RULES.get(architecture)
    if rule is None:
        why = UNVERIFIED.get(architecture, "its rules are not in benchsuite's table")
        return UnknownMemory(
            f"the cache of architecture '{architecture}' is not known to benchsuite: {why}"
        )
    try:
        return _Shaper(header, architecture, rule).shape()
    except _UnsuitableError as error:
        return UnknownMemory(f"the cache of architecture '{architecture}': {error}")


class _UnsuitableError(Exception):
    """A key that is missing or does not suit the architecture; the sentence says which."""


class _Shaper:
    """One model's shape being worked out.

    Layers are counted as llama.cpp does: `n_all` are all blocks, `n` those of the trunk, without
    the layers that only predict further tokens (`nextn`), which get no memory in the main context.
    """

    def __init__(self, header: Header, architecture: str, rule: Rule) -> None:
        self._header = header
        self._architecture = architecture
        self._rule = rule
        self.n_all = self._needed("block_count")
        if not 0 < self.n_all <= _MOST_LAYERS:
            raise _UnsuitableError(f"{self.n_all} layers, where 1 to {_MOST_LAYERS} can be loaded")
        nextn = self._whole("nextn_predict_layers", 0)
        if nextn > self.n_all:
            raise _UnsuitableError(f"{nextn} of {self.n_all} layers are said to be nextn layers")
        self.n = self.n_all - nextn
        self.embedding = self._needed("embedding_length")
        self.n_ctx_train = self._needed("context_length")
        self.heads = self._each_layer("attention.head_count", [0] * self.n_all)
        self.kv_heads = self._each_layer("attention.head_count_kv", self.heads)
        self.feed_forward = self._each_layer("feed_forward_length", [0] * self.n_all)

    def shape(self) -> ModelShape:
        """The shape."""
        rule = self._rule
        window, sliding = self._window()
        recurrent = self._recurrent()
        mla = self._mla()
        layers = self._attention_layers(sliding, recurrent, mla)
        if layers and not any(layer.kv_heads * layer.key_size for layer in layers):
            raise _UnsuitableError("no layer with KV heads and keys, where some are expected")
        every = [self._layer(il, sliding[il], mla=False) for il in range(self.n_all)]
        if rule.router:
            layers.append(self._router(mla))
        state_layers = [il for il in range(self.n) if recurrent[il]]
        r_width, s_width = self._state_widths() if state_layers else (0, 0)
        return ModelShape(
            architecture=self._architecture,
            n_layers=self.n_all,
            n_ctx_train=self.n_ctx_train,
            layers=tuple(layers) * self._loops(),
            window=window,
            widest_values=max(layer.v_width for layer in every),
            recurrent_layers=len(state_layers),
            r_width=r_width,
            s_width=s_width,
            causal=bool(self._whole("attention.causal", 1)),
            nextn_layers=self.n_all - self.n,
            nextn_build=rule.nextn_build if self.n_all > self.n else 0,
            mla=mla,
        )

    # attention

    def _attention_layers(
        self, sliding: Sequence[bool], recurrent: Sequence[bool], mla: bool
    ) -> list[AttentionLayer]:
        rule = self._rule
        if rule.recurrent == "all":
            return []
        count = self.n_all if rule.keeps_nextn or self.n == 0 else self.n
        count = min(count, self._owning())
        return [
            self._layer(il, sliding[il], mla=mla)
            for il in range(count)
            if (not recurrent[il] or rule.recurrent == "beside")
            and not (rule.recurrent == "no heads, no feed-forward" and self.feed_forward[il])
        ]

    def _owning(self) -> int:
        """How many layers, from the first, keep keys and values of their own."""
        rule = self._rule
        if rule.owning_layers is not None:
            return rule.owning_layers
        if not rule.shares_kv:
            return self.n_all
        shared = self._whole("attention.shared_kv_layers", 0)
        if shared > self.n_all - 2:  # later layers use the last two before them
            raise _UnsuitableError(f"{shared} of {self.n_all} layers share the KV of others")
        return self.n_all - shared

    def _layer(self, il: int, sliding: bool, *, mla: bool) -> AttentionLayer:
        key_size, value_size = self._head_sizes(sliding)
        for what, size in (("KV heads", self.kv_heads[il]), ("size of a key", key_size)):
            if size > _MOST_WIDE:
                raise _UnsuitableError(f"{size} as {what} of layer {il}")
        return AttentionLayer(self.kv_heads[il], key_size, 0 if mla else value_size, sliding)

    def _head_sizes(self, sliding: bool) -> tuple[int, int]:
        """Of keys and values; models without attention heads in their first layer have none."""
        key = value = 0
        if self.heads[0]:
            even = self.embedding // self.heads[0]
            key = self._whole("attention.key_length", even)
            value = self._whole("attention.value_length", even)
        if self._rule.reads_lengths:
            key = self._whole("attention.key_length", key)
            value = self._whole("attention.value_length", value)
        if sliding:
            key = self._whole("attention.key_length_swa", key)
            value = self._whole("attention.value_length_swa", value)
        return key, value

    def _mla(self) -> bool:
        if self._rule.mla is None:
            return False
        sizes = [
            self._needed(key) if self._rule.mla == "always" else self._whole(key, 0)
            for key in ("attention.key_length_mla", "attention.value_length_mla")
        ]
        if bool(sizes[0]) != bool(sizes[1]):
            raise _UnsuitableError("one of key_length_mla and value_length_mla is missing")
        return bool(sizes[0])

    def _router(self, mla: bool) -> AttentionLayer:
        """One layer of one head after all others (granite-switch.cpp)."""
        key_size, value_size = self._head_sizes(sliding=False)
        return AttentionLayer(1, key_size, value_size)

    def _loops(self) -> int:
        """How often the layers are run through, with a cache each time (nanbeige.cpp)."""
        if not self._rule.loops:
            return 1
        loops = self._whole("num_loops", 1)
        if not 0 < self.n_all * loops <= _MOST_LAYERS:
            raise _UnsuitableError(f"{self.n_all} layers in {loops} loops")
        return loops

    # sliding windows

    def _window(self) -> tuple[int | None, Sequence[bool]]:
        """The window in cells, None where there is none, and which layers slide."""
        nowhere = [False] * self.n_all
        rule = self._rule
        if rule.window is None:
            return None, nowhere
        declared = self._given("attention.sliding_window")
        if rule.window == "declared" and declared is None:
            raise _UnsuitableError(self._lacks("attention.sliding_window"))
        if rule.window == "if declared" and not declared:
            return None, nowhere
        if rule.window == "unless 0" and declared == 0:
            return None, nowhere
        if rule.window_layers is not None and self.n != rule.window_layers:
            return None, nowhere
        size = declared if declared is not None else rule.window_size
        if rule.fixed_size:
            size = rule.window_size
        if size is None:
            raise _UnsuitableError(self._lacks("attention.sliding_window"))
        sliding = self._pattern()
        if not any(sliding[: self.n_all]):
            raise _UnsuitableError("no layer slides, though the model has a window")
        return size, sliding

    def _pattern(self) -> Sequence[bool]:
        rule, key = self._rule, "attention.sliding_window_pattern"
        if rule.period == "attention":  # every layer that is not recurrent (lfm2.cpp)
            return [il < self.n and self.kv_heads[il] > 0 for il in range(self.n_all)]
        value = self._header.keys.get(f"{self._architecture}.{key}")
        if isinstance(value, tuple):
            if len(value) > _MOST_LAYERS:
                raise _UnsuitableError(f"'{key}' has {len(value)} values for {self.n_all} layers")
            marks = [bool(mark) for mark in value]
            return [*marks, *([False] * self.n_all)][: self.n_all]
        if rule.period == "listed":
            raise _UnsuitableError(self._lacks(key))
        period = self._whole(key, int(rule.period))
        if period == 0:
            inside = [True] * self.n
        elif rule.dense_first:
            inside = [il % period != 0 for il in range(self.n)]
        else:
            inside = [il % period < period - 1 for il in range(self.n)]
        return inside + [False] * (self.n_all - self.n)

    # recurrent layers

    def _recurrent(self) -> Sequence[bool]:
        """Which layers keep recurrent state; in `beside` models each keeps KV as well."""
        kind = self._rule.recurrent
        everywhere = range(self.n_all)
        if kind is None:
            return [False] * self.n_all
        if kind in ("all", "beside"):
            return [True] * self.n_all
        if kind == "no heads":
            return [il < self.n and self.kv_heads[il] == 0 for il in everywhere]
        if kind == "no heads, no feed-forward":
            return [
                il < self.n and self.kv_heads[il] == 0 and self.feed_forward[il] == 0
                for il in everywhere
            ]
        key = "attention.recurrent_layers"
        if f"{self._architecture}.{key}" in self._header.keys:
            return [bool(mark) for mark in self._each_layer(key, [])]
        interval = self._whole("full_attention_interval", self._rule.interval)
        if interval == 0:
            raise _UnsuitableError("'full_attention_interval' is 0")
        return [il < self.n and (il + 1) % interval != 0 for il in everywhere]

    def _state_widths(self) -> tuple[int, int]:
        """Numbers of rolling and recurrent state (`n_embd_r`, `n_embd_s`, llama-hparams.cpp)."""
        kind = self._rule.state
        if kind == "wkv":
            shifts = self._whole("token_shift_count", 2)
            return shifts * self.embedding, self.embedding * self._needed("wkv.head_size")
        if kind == "shortconv":
            return self.embedding * (self._positive("shortconv.l_cache") - 1), 0
        if kind == "kda":
            size, heads = self._positive("kda.head_dim"), self.heads[0]
            kernel = self._needed("ssm.conv_kernel")
            before = kernel - 1 if kernel > 0 else 3
            return 3 * before * heads * size, size * size * heads
        if kind == "linear attention":
            size = self._head_sizes(sliding=False)[0]
            return 0, size * size * self.heads[0]
        inner, size = self._needed("ssm.inner_size"), self._needed("ssm.state_size")
        groups = self._needed("ssm.group_count") if kind == "ssm with groups" else 0
        kernel = max(1, self._needed("ssm.conv_kernel"))
        return (kernel - 1) * (inner + 2 * groups * size), size * inner

    # keys

    def _lacks(self, key: str) -> str:
        return f"the file lacks '{self._architecture}.{key}'"

    def _given(self, key: str) -> int | None:
        """A whole number that is not negative; None where the key is missing."""
        name = f"{self._architecture}.{key}"
        if name not in self._header.keys:
            return None
        value = self._header.keys[name]
        if not isinstance(value, int) or value < 0:
            raise _UnsuitableError(f"'{name}' is no whole number")
        return value

    def _whole(self, key: str, default: int) -> int:
        value = self._given(key)
        return default if value is None else value

    def _needed(self, key: str) -> int:
        value = self._given(key)
        if value is None:
            raise _UnsuitableError(self._lacks(key))
        return value

    def _positive(self, key: str) -> int:
        value = self._needed(key)
        if value == 0:
            raise _UnsuitableError(f"'{self._architecture}.{key}' is 0")
        return value

    def _each_layer(self, key: str, default: Sequence[int]) -> Sequence[int]:
        """One number a layer; a single one holds for each."""
        value = self._header.keys.get(f"{self._architecture}.{key}")
        if f"{self._architecture}.{key}" not in self._header.keys:
            return default
        if not isinstance(value, tuple):
            return [self._needed(key)] * self.n_all
        if len(value) != self.n_all:
            raise _UnsuitableError(f"'{key}' has {len(value)} values for {self.n_all} layers")
        whole = [number for number in value if isinstance(number, int) and number >= 0]
        if len(whole) != len(value):
            raise _UnsuitableError(f"'{key}' holds more than whole numbers")
        return whole
