"""The kinds of tiny models: one declaration each, with the bytes that every machine must make."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from benchsuite.errors import UsageError
from benchsuite.server.tiny.attention import Shape, write_deepseek2, write_llama, write_olmo2
from benchsuite.server.tiny.encoder import write_bert
from benchsuite.server.tiny.recurrent import write_jamba, write_mamba

DEFAULT_KIND = "tiny"
"""The model of the built-in deployment."""


class TinyKind(msgspec.Struct, frozen=True):
    """One kind of tiny model."""

    name: str
    about: str  # what its memory is, in a few words
    sha256: str  # of the whole file
    size_bytes: int  # of the whole file
    write: Callable[[Path], None]  # makes the file in a folder that exists

    @property
    def file_name(self) -> str:
        """Its name in the cache, which changes with its bytes."""
        kind = "" if self.name == DEFAULT_KIND else f"{self.name}-"
        return f"tiny-{kind}{self.sha256[:12]}.gguf"


_DRAFT = Shape(
    layers=2,
    embedding=128,
    heads=4,
    kv_heads=2,
    feed_forward=256,
    key_power=-10,
    value_power=-9,  # at -11 one text of five does not change with an early word
)

KINDS: dict[str, TinyKind] = {
    kind.name: kind
    for kind in (
        TinyKind(
            "tiny",
            "grouped KV: 8 heads share 4 of KV (llama)",
            "84a2ae46551589eba6a3fd2b17b7c5f58df1c8eee0eabf6d2f886a89ca8d5a30",
            5_586_560,
            partial(write_llama, name="benchsuite tiny", shape=Shape()),
        ),
        TinyKind(
            "mha",
            "as many heads of KV as heads (llama)",
            "cb08cf25acdfe0f3629b45459d15a2744839809ebf507594ff63cfd78f4c1822",
            6_110_848,
            partial(write_llama, name="benchsuite tiny mha", shape=Shape(kv_heads=8)),
        ),
        TinyKind(
            "swa",
            "two caches: a window of 64 tokens in three of four layers (olmo2)",
            "0f8a894cd2cfaacefc7bd7d2fc25ce41b6b5105bb20085ed751586dd8eb80c47",
            5_593_248,
            partial(write_olmo2, name="benchsuite tiny swa"),
        ),
        TinyKind(
            "recurrent",
            "recurrent state and no KV (mamba)",
            "519ca74e44fe9a10aea8053b1eae36205380ec780af639c94138e4dc95bf182e",
            4_460_288,
            partial(write_mamba, name="benchsuite tiny recurrent"),
        ),
        TinyKind(
            "hybrid",
            "KV in one layer, recurrent state in three (jamba)",
            "4df48ceb1b74ccefe0f27f4637e6c38ff19c1a6d21d25d17f3fa9b5e9d4a36dd",
            5_533_216,
            partial(write_jamba, name="benchsuite tiny hybrid"),
        ),
        TinyKind(
            "mla",
            "latent attention: K of 128 numbers and no V (deepseek2)",
            "eabddccf69bc619f4e13033921ab86859bb64b07ea983c1d4aa9d0c4da5bfa2c",
            5_984_896,
            partial(write_deepseek2, name="benchsuite tiny mla"),
        ),
        TinyKind(
            "draft",
            "a smaller llama with the same vocabulary, to draft for the others",
            "dd868580d1ac37852d8fd45498716c883bee5a58ff32e4fe63d64099cfb293d1",
            1_031_264,
            partial(write_llama, name="benchsuite tiny draft", shape=_DRAFT),
        ),
        TinyKind(
            "embedding",
            "embeddings, no memory and no text (bert)",
            "b011f42dea7bbc76ed06aa40d6d6a5a624c6785bb29cef6a6e7fb6acfc8af90f",
            2_809_728,
            partial(write_bert, name="benchsuite tiny embedding"),
        ),
    )
}
"""Every kind, by name."""


def find_kind(name: str) -> TinyKind:
    """The kind of that name.

    Raises:
        UsageError: There is none.
    """
    kind = KINDS.get(name)
    if kind is None:
        raise UsageError(f"unknown kind of tiny model '{name}'", hint=f"kinds: {', '.join(KINDS)}")
    return kind
