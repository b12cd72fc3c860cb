"""What a model's memory must weigh, from the numbers that its file declares.

Written apart from the product's own reckoning, and from llama.cpp's words: a second opinion.
Knows the architectures of the tiny models only.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from gguf import GGUFReader

BYTES_A_NUMBER = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "q8_0": 34 / 32,
    "iq4_nl": 18 / 32,
}
"""Of KV types: blocks of 32 numbers, with a scale of two bytes each, for the quantised."""

_WINDOWED = {"olmo2": 4}
"""Architecture -> every so many layers one is without a window."""


class Layer(NamedTuple):
    """What one layer keeps: of each token K and V, or of each sequence a state."""

    cache: str  # full, swa; empty where it keeps no KV
    k: int = 0  # numbers a token
    v: int = 0
    state: int = 0  # F32 numbers a sequence


class Declared(NamedTuple):
    """A model's memory."""

    layers: tuple[Layer, ...]
    window: int  # tokens; 0 for none
    n_ctx_train: int

    @property
    def caches(self) -> list[str]:
        """`full` and `swa` where there is a window, in the order in which they are made."""
        return [name for name in ("full", "swa") if any(x.cache == name for x in self.layers)]


class Launch(NamedTuple):
    """What a server was asked for."""

    n_ctx: int
    slots: int = 2
    unified: bool = False
    swa_full: bool = False
    k_type: str = "f16"
    v_type: str = "f16"
    ubatch: int = 128
    offloaded: int = 0  # layers on the other device, counted from the last
    kv_offload: bool = True

    @property
    def n_ctx_sequence(self) -> int:
        """Cells that one sequence may fill."""
        return pad(self.n_ctx if self.unified else self.n_ctx // self.slots)

    @property
    def streams(self) -> int:
        """Caches side by side."""
        return 1 if self.unified else self.slots


class Cache(NamedTuple):
    """One KV cache as it must be printed."""

    cells: int  # of one stream
    layers: int
    streams: int
    k_bytes: float
    v_bytes: float
    device_bytes: dict[str, float]  # `CPU` and `RPC`

    @property
    def bytes(self) -> float:
        """K and V."""
        return self.k_bytes + self.v_bytes


def pad(cells: int) -> int:
    """Up to the next 256."""
    return -(-cells // 256) * 256


def declared(path: Path) -> Declared:
    """Read a tiny model's metadata."""
    fields = {name: field.contents() for name, field in GGUFReader(path).fields.items()}
    architecture = fields["general.architecture"]

    def number(key: str, missing: int = 0) -> int:
        return int(fields.get(f"{architecture}.{key}", missing))

    count, size, heads = number("block_count"), number("embedding_length"), "attention.head_count"
    n_heads = number(heads)
    by_layer = fields.get(f"{architecture}.{heads}_kv", n_heads)
    kv_heads = by_layer if isinstance(by_layer, list) else [by_layer] * count
    k_size = number("attention.key_length", size // n_heads if n_heads else 0)
    v_size = number("attention.value_length", size // n_heads if n_heads else 0)
    state = number("ssm.inner_size") * (number("ssm.conv_kernel") - 1 + number("ssm.state_size"))
    window = number("attention.sliding_window")
    layers = []
    for at in range(count):
        if fields.get(f"{architecture}.attention.causal") is False:
            layers.append(Layer(""))
        elif kv_heads[at] == 0:
            layers.append(Layer("", state=state))
        else:
            full = not window or at % _WINDOWED[architecture] == _WINDOWED[architecture] - 1
            v = 0 if number("attention.kv_lora_rank") else kv_heads[at] * v_size
            layers.append(Layer("full" if full else "swa", kv_heads[at] * k_size, v))
    return Declared(tuple(layers), window, number("context_length"))


def kv_cache(model: Declared, launch: Launch, name: str) -> Cache:
    """The cache of one name."""
    cells = launch.n_ctx_sequence
    if name == "swa" and not launch.swa_full:
        windows = model.window * (launch.slots if launch.unified else 1)
        cells = pad(min(cells, windows + launch.ubatch))
    tokens = cells * launch.streams
    k_bytes = v_bytes = 0.0
    devices: dict[str, float] = {}
    for at, layer in enumerate(model.layers):
        if layer.cache != name:
            continue
        k = tokens * layer.k * BYTES_A_NUMBER[launch.k_type]
        v = tokens * layer.v * BYTES_A_NUMBER[launch.v_type]
        k_bytes, v_bytes = k_bytes + k, v_bytes + v
        device = _device(model, launch, at) if launch.kv_offload else "CPU"
        devices[device] = devices.get(device, 0) + k + v
    count = sum(layer.cache == name for layer in model.layers)
    return Cache(cells, count, launch.streams, k_bytes, v_bytes, devices)


def state_bytes(model: Declared, launch: Launch) -> dict[str, float]:
    """Recurrent state by device; empty where there is none."""
    devices: dict[str, float] = {}
    for at, layer in enumerate(model.layers):
        if layer.state:
            device = _device(model, launch, at)
            devices[device] = devices.get(device, 0) + 4.0 * layer.state * launch.slots
    return devices


def _device(model: Declared, launch: Launch, at: int) -> str:
    return "RPC" if at >= len(model.layers) - launch.offloaded else "CPU"
