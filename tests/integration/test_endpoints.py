"""Each endpoint of the client that brings text or vectors, against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from benchsuite.client.api import LlamaClient
from benchsuite.client.reply import Embedded, Reply, Stamps
from benchsuite.server.guard import Guard
from benchsuite.server.launch import launch, wait_until_healthy
from benchsuite.server.tiny_model import tiny_model
from tests.integration.server_under_test import FLAGS, embedded, is_healthy, needs_embedded

pytestmark = [pytest.mark.server, needs_embedded]

T = TypeVar("T")
PROMPT = "ba be bo da de do"


def _asked(folder: Path, flags: tuple[str, ...], ask: Callable[[LlamaClient], Awaitable[T]]) -> T:
    """What `ask` brings from an embedded server with these flags."""
    with Guard() as guard:
        server = launch(
            embedded(),
            (*FLAGS, *flags),
            model=str(tiny_model(folder)),
            log_path=folder / "log",
            env={},
            guard=guard,
        )

        async def run() -> T:
            await wait_until_healthy(server, lambda: is_healthy(server), 30)
            client = LlamaClient(server.url, api_key=server.api_key, token_seconds=30)
            try:
                return await ask(client)
            finally:
                await client.aclose()

        try:
            return asyncio.run(run())
        finally:
            server.stop(5)


def _in_order(stamps: Stamps) -> bool:
    return 0 < stamps.scheduled_ns <= stamps.sent_ns <= stamps.headers_ns <= stamps.end_ns


def test_text_comes_token_by_token_from_both_endpoints(tmp_path: Path) -> None:
    """The same greedy text, counted and stamped, from /completion and /v1/completions."""

    async def ask(client: LlamaClient) -> list[Reply]:
        return [
            await client.complete(PROMPT, {"n_predict": 8, "temperature": 0}),
            await client.complete_text(
                PROMPT, {"max_tokens": 8, "temperature": 0, "timings_per_token": True}
            ),
        ]

    native, openai = _asked(tmp_path, (), ask)
    assert native.text == openai.text
    for reply in (native, openai):
        assert reply.output_tokens == 8
        assert _in_order(reply.stamps)
        assert sum(reply.event_tokens or [1] * len(reply.token_ns)) <= 8
        assert reply.token_ns
        assert list(reply.token_ns) == sorted(reply.token_ns)
        assert reply.stamps.headers_ns <= reply.stamps.first_token_ns


def test_both_endpoints_embed_alike(tmp_path: Path) -> None:
    """One vector for a text; /v1/embeddings has it normed, which changes nothing of a unit one."""

    async def ask(client: LlamaClient) -> list[Embedded]:
        return [
            await client.embed(PROMPT),
            await client.embed(PROMPT, path="/v1/embeddings"),
        ]

    native, openai = _asked(tmp_path, ("--embedding", "--pooling", "mean"), ask)
    assert len(native.vectors) == 1
    assert native.vectors == openai.vectors
    assert len(native.vectors[0]) > 0
    assert _in_order(native.stamps)
    assert _in_order(openai.stamps)
    assert native.prompt_tokens is None
    assert (openai.prompt_tokens or 0) > 0
