"""A tiny model of embeddings: bert, which keeps nothing between tokens."""

from __future__ import annotations

from pathlib import Path

from benchsuite.server.tiny.file import Tensors, add_vocabulary, new_file

_CONTEXT = 512
_MEAN = 1  # as in gguf.PoolingType


def write_bert(path: Path, name: str) -> None:
    """Write an encoder of two layers that pools by the mean, with positions up to 512."""
    layers, size, heads, wide = 2, 256, 8, 512
    with new_file(path, "bert", name) as writer:
        writer.add_context_length(_CONTEXT)
        writer.add_embedding_length(size)
        writer.add_block_count(layers)
        writer.add_feed_forward_length(wide)
        writer.add_head_count(heads)
        writer.add_layer_norm_eps(2.0**-17)
        writer.add_causal_attention(False)
        writer.add_uint32("bert.pooling_type", _MEAN)
        writer.add_token_type_count(1)
        tokens = add_vocabulary(writer)
        tensors = Tensors(writer)

        def norm(key: str) -> None:
            tensors.same(f"{key}.weight", size)
            tensors.same(f"{key}.bias", size, 0.0)

        tensors.embedding(tokens, size)
        tensors.random_f32("token_types.weight", (1, size), -9)
        tensors.random("position_embd.weight", (_CONTEXT, size), -9)
        norm("token_embd_norm")
        for layer in range(layers):
            block = f"blk.{layer}."
            tensors.random(block + "attn_q.weight", (size, size), -10)
            tensors.random(block + "attn_k.weight", (size, size), -11)
            tensors.random(block + "attn_v.weight", (size, size), -11)
            tensors.random(block + "attn_output.weight", (size, size), -11)
            norm(block + "attn_output_norm")
            tensors.random(block + "ffn_up.weight", (wide, size), -11)
            tensors.random(block + "ffn_down.weight", (size, wide), -12)
            norm(block + "layer_output_norm")
