"""What a model file says of the memory that its cache needs."""

from __future__ import annotations

import msgspec


class AttentionLayer(msgspec.Struct, frozen=True):
    """One layer that keeps keys and values of its own."""

    kv_heads: int
    key_size: int  # numbers of one head
    value_size: int  # numbers of one head; 0 where values are not kept (MLA)
    sliding: bool = False  # whether it sees a window only

    @property
    def k_width(self) -> int:
        """Numbers of one cell's keys."""
        return self.kv_heads * self.key_size

    @property
    def v_width(self) -> int:
        """Numbers of one cell's values."""
        return self.kv_heads * self.value_size


class ModelShape(msgspec.Struct, frozen=True):
    """What decides how much memory a model's cache needs, whatever the server's flags."""

    architecture: str
    n_layers: int  # `block_count`, layers that keep nothing included
    n_ctx_train: int  # tokens; the context where none is asked for
    layers: tuple[AttentionLayer, ...] = ()  # those that keep keys and values, in their order
    window: int | None = None  # cells that a sliding layer sees; None: one cache for all layers
    widest_values: int = 0  # most `v_width` of any layer, also of those that keep nothing
    recurrent_layers: int = 0
    r_width: int = 0  # numbers of the rolling state (convolution, token shift) of one layer
    s_width: int = 0  # numbers of the recurrent state of one layer
    causal: bool = True
    nextn_layers: int = 0  # that only predict further tokens; not in `layers`
    nextn_build: int = 0  # oldest build known to give them no memory; older ones may
    mla: bool = False  # keys hold the latent, from which values are made too


class UnknownMemory(msgspec.Struct, frozen=True):
    """Expected memory that cannot be told, and why."""

    reason: str
