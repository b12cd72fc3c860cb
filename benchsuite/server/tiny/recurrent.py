"""Tiny models with recurrent state: mamba, which has nothing else, and jamba, which has KV too.

The state of a layer holds 16 numbers for each of 512 channels. Its steps are about 0.05, and the
n-th number forgets at a rate of 2**-n a step, so what was read 150 tokens ago is still there.
"""

from __future__ import annotations

from pathlib import Path

from benchsuite.server.tiny.attention import add_feed_forward
from benchsuite.server.tiny.file import CONTEXT, RMS_EPSILON, Tensors, add_vocabulary, new_file

_SIZE = 256
_INNER = 2 * _SIZE  # llama.cpp takes no other
_STATE = 16
_STEP_RANK = 16
_KERNEL = 4
_LAYERS = 4


def write_mamba(path: Path, name: str) -> None:
    """Write a model of four recurrent layers: state, and no KV cache."""
    with new_file(path, "mamba", name) as writer:
        writer.add_context_length(CONTEXT)
        writer.add_embedding_length(_SIZE)
        writer.add_feed_forward_length(0)
        writer.add_head_count(0)
        writer.add_block_count(_LAYERS)
        writer.add_ssm_conv_kernel(_KERNEL)
        writer.add_ssm_inner_size(_INNER)
        writer.add_ssm_state_size(_STATE)
        writer.add_ssm_time_step_rank(_STEP_RANK)
        writer.add_layer_norm_rms_eps(RMS_EPSILON)
        tokens = add_vocabulary(writer)
        tensors = Tensors(writer)
        tensors.embedding(tokens, _SIZE)
        for layer in range(_LAYERS):
            _add_recurrence(tensors, f"blk.{layer}.")
        tensors.output(tokens, _SIZE, -9)


def write_jamba(path: Path, name: str) -> None:
    """Write a model whose third layer of four attends, and the others are recurrent.

    Of llama.cpp's hybrids it has the fewest tensors but for lfm2, whose state is so small that
    logs round it to 0.00 MiB.
    """
    heads, kv_heads, head_size, wide = 8, 4, 32, 256
    attending = 2
    with new_file(path, "jamba", name) as writer:
        writer.add_context_length(CONTEXT)
        writer.add_embedding_length(_SIZE)
        writer.add_feed_forward_length(wide)
        writer.add_block_count(_LAYERS)
        writer.add_head_count(heads)
        writer.add_head_count_kv([kv_heads if at == attending else 0 for at in range(_LAYERS)])
        writer.add_ssm_conv_kernel(_KERNEL)
        writer.add_ssm_inner_size(_INNER)
        writer.add_ssm_state_size(_STATE)
        writer.add_ssm_time_step_rank(_STEP_RANK)
        writer.add_layer_norm_rms_eps(RMS_EPSILON)
        tokens = add_vocabulary(writer)
        tensors = Tensors(writer)
        tensors.embedding(tokens, _SIZE)
        for layer in range(_LAYERS):
            block = f"blk.{layer}."
            if layer == attending:
                kv_size = kv_heads * head_size
                tensors.same(block + "attn_norm.weight", _SIZE)
                tensors.random(block + "attn_q.weight", (_SIZE, _SIZE), -10)
                tensors.random(block + "attn_k.weight", (kv_size, _SIZE), -11)
                tensors.random(block + "attn_v.weight", (kv_size, _SIZE), -10)
                tensors.random(block + "attn_output.weight", (_SIZE, _SIZE), -11)
            else:
                _add_recurrence(tensors, block)
                tensors.same(block + "ssm_dt_norm.weight", _STEP_RANK)
                tensors.same(block + "ssm_b_norm.weight", _STATE)
                tensors.same(block + "ssm_c_norm.weight", _STATE)
            add_feed_forward(tensors, block, _SIZE, wide)
        tensors.output(tokens, _SIZE, -9)


def _add_recurrence(tensors: Tensors, block: str) -> None:
    tensors.same(block + "attn_norm.weight", _SIZE)
    tensors.random(block + "ssm_in.weight", (2 * _INNER, _SIZE), -11)
    tensors.random_f32(block + "ssm_conv1d.weight", (_INNER, _KERNEL), -8)
    tensors.same(block + "ssm_conv1d.bias", _INNER, 0.0)
    tensors.random(block + "ssm_x.weight", (_STEP_RANK + 2 * _STATE, _INNER), -11)
    tensors.random(block + "ssm_dt.weight", (_INNER, _STEP_RANK), -11)
    tensors.same(block + "ssm_dt.bias", _INNER, -3.0)
    tensors.filled(block + "ssm_a", (_INNER, _STATE), lambda column: -(2.0**-column))
    tensors.same(block + "ssm_d", _INNER)
    tensors.random(block + "ssm_out.weight", (_SIZE, _INNER), -12)
