"""Tiny models whose memory is a KV cache: llama, olmo2 with a sliding window, deepseek2 with MLA.

All have four layers of 256 (the draft two of 128), and scores with a deviation between 2 and 2.7
before the softmax: sharp enough that one word matters.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from benchsuite.server.tiny.file import CONTEXT, RMS_EPSILON, Tensors, add_vocabulary, new_file


class Shape(msgspec.Struct, frozen=True):
    """The numbers of a llama model."""

    layers: int = 4
    embedding: int = 256
    heads: int = 8
    kv_heads: int = 4
    feed_forward: int = 512
    query_power: int = -10  # 2 to this is the unit of the weights
    key_power: int = -11
    value_power: int = -11

    @property
    def head_size(self) -> int:
        """Numbers in one head."""
        return self.embedding // self.heads


def write_llama(path: Path, name: str, shape: Shape) -> None:
    """Write a llama model.

    The default shape was chosen by measuring 60 prompts of 150 words on build 10434, as shares of
    the logits' standard deviation (4.6 here): between the top two logits 0.32; mean change of that
    gap by micro-batch or flash attention 0.002, 99th percentile 0.007. Tried and rejected: gentler
    attention (half the noise, but a changed word no longer changes every text); sharper attention
    (noise grows as fast as the effect of a word); heavy-tailed logits by one-hot output rows (gaps
    and noise both grow fourfold); F32 weights (twice the size, no less noise).
    """
    size = shape.embedding
    with new_file(path, "llama", name) as writer:
        writer.add_context_length(CONTEXT)
        writer.add_embedding_length(size)
        writer.add_block_count(shape.layers)
        writer.add_feed_forward_length(shape.feed_forward)
        writer.add_head_count(shape.heads)
        writer.add_head_count_kv(shape.kv_heads)
        writer.add_layer_norm_rms_eps(RMS_EPSILON)
        writer.add_rope_dimension_count(shape.head_size)
        tokens = add_vocabulary(writer)
        tensors = Tensors(writer)
        kv_size = shape.kv_heads * shape.head_size
        tensors.embedding(tokens, size)
        for layer in range(shape.layers):
            block = f"blk.{layer}."
            tensors.same(block + "attn_norm.weight", size)
            tensors.random(block + "attn_q.weight", (size, size), shape.query_power)
            tensors.random(block + "attn_k.weight", (kv_size, size), shape.key_power)
            tensors.random(block + "attn_v.weight", (kv_size, size), shape.value_power)
            tensors.random(block + "attn_output.weight", (size, size), -11)
            add_feed_forward(tensors, block, size, shape.feed_forward)
        tensors.output(tokens, size, -9)


def add_feed_forward(tensors: Tensors, block: str, size: int, wide: int) -> None:
    """The second half of a layer, with its norm before it."""
    tensors.same(block + "ffn_norm.weight", size)
    _add_matrices(tensors, block, size, wide)


def _add_matrices(tensors: Tensors, block: str, size: int, wide: int) -> None:
    tensors.random(block + "ffn_gate.weight", (wide, size), -11)
    tensors.random(block + "ffn_up.weight", (wide, size), -11)
    tensors.random(block + "ffn_down.weight", (size, wide), -12)


def write_olmo2(path: Path, name: str) -> None:
    """Write a model with a window of 64 tokens in three of four layers: two caches.

    olmo2 is llama.cpp's smallest architecture with a window: every fourth layer is full, and norms
    stand behind attention and feed-forward.
    """
    size, heads, kv_heads, head_size, wide = 256, 8, 4, 32, 512
    kv_size = kv_heads * head_size
    with new_file(path, "olmo2", name) as writer:
        writer.add_context_length(CONTEXT)
        writer.add_embedding_length(size)
        writer.add_block_count(4)
        writer.add_feed_forward_length(wide)
        writer.add_head_count(heads)
        writer.add_head_count_kv(kv_heads)
        writer.add_layer_norm_rms_eps(RMS_EPSILON)
        writer.add_rope_dimension_count(head_size)
        writer.add_sliding_window(64)
        tokens = add_vocabulary(writer)
        tensors = Tensors(writer)
        tensors.embedding(tokens, size)
        for layer in range(4):
            block = f"blk.{layer}."
            tensors.random(block + "attn_q.weight", (size, size), -11)
            tensors.random(block + "attn_k.weight", (kv_size, size), -11)
            tensors.random(block + "attn_v.weight", (kv_size, size), -11)
            tensors.random(block + "attn_output.weight", (size, size), -11)
            tensors.same(block + "attn_q_norm.weight", size, 2.75)
            tensors.same(block + "attn_k_norm.weight", kv_size)
            tensors.same(block + "post_attention_norm.weight", size)
            _add_matrices(tensors, block, size, wide)
            tensors.same(block + "post_ffw_norm.weight", size)
        tensors.output(tokens, size, -9)


def write_deepseek2(path: Path, name: str) -> None:
    """Write a model with latent attention: K of 96 + 32 numbers a token and layer, and no V.

    All layers are dense; the numbers of experts are there because llama.cpp asks for them.
    """
    layers, size, heads, wide = 4, 256, 8, 512
    latent, rope, plain, value, query = 96, 32, 32, 32, 128
    with new_file(path, "deepseek2", name) as writer:
        writer.add_context_length(CONTEXT)
        writer.add_embedding_length(size)
        writer.add_block_count(layers)
        writer.add_feed_forward_length(wide)
        writer.add_head_count(heads)
        writer.add_head_count_kv(1)
        writer.add_layer_norm_rms_eps(RMS_EPSILON)
        writer.add_rope_dimension_count(rope)
        writer.add_q_lora_rank(query)
        writer.add_kv_lora_rank(latent)
        writer.add_key_length(latent + rope)
        writer.add_value_length(latent)
        writer.add_key_length_mla(plain + rope)
        writer.add_value_length_mla(value)
        writer.add_leading_dense_block_count(layers)
        writer.add_expert_feed_forward_length(wide)
        writer.add_expert_shared_count(1)
        tokens = add_vocabulary(writer)
        tensors = Tensors(writer)
        tensors.embedding(tokens, size)
        for layer in range(layers):
            block = f"blk.{layer}."
            tensors.same(block + "attn_norm.weight", size)
            tensors.random(block + "attn_q_a.weight", (query, size), -11)
            tensors.same(block + "attn_q_a_norm.weight", query)
            tensors.random(block + "attn_q_b.weight", (heads * (plain + rope), query), -10)
            tensors.random(block + "attn_kv_a_mqa.weight", (latent + rope, size), -11)
            tensors.same(block + "attn_kv_a_norm.weight", latent)
            tensors.random(block + "attn_k_b.weight", (heads, latent, plain), -10)
            tensors.random(block + "attn_v_b.weight", (heads, value, latent), -10)
            tensors.random(block + "attn_output.weight", (size, heads * value), -11)
            add_feed_forward(tensors, block, size, wide)
        tensors.output(tokens, size, -9)
