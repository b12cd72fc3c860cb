"""How close a scenario's greedy choices are: the smallest logprob gap between the top two.

A text gate of a shipped scenario is only worth as much as its smallest gap: below about 0.05 a
healthy server may print another word because it adds in another order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from benchsuite.client.api import LlamaClient
from benchsuite.drive.conversation import Conversation
from benchsuite.drive.prompts import PromptBook
from benchsuite.errors import ConnectionLostError
from benchsuite.model.scenario import CompleteStep, Scenario, TurnStep
from benchsuite.server.guard import Guard
from benchsuite.server.launch import LaunchedServer, launch, wait_until_healthy
from benchsuite.server.locate import locate


class Probe:
    """A launched embedded server with the tiny model, asked for its smallest gaps."""

    def __init__(self, server: LaunchedServer) -> None:
        self.client = LlamaClient(server.url, api_key=server.api_key)
        self._http = httpx.AsyncClient(
            base_url=server.url, headers={"Authorization": f"Bearer {server.api_key}"}, timeout=60
        )

    async def reply(
        self, messages: Sequence[Mapping[str, str]], fields: Mapping[str, Any]
    ) -> tuple[str, float]:
        """The greedy reply and its smallest gap, in logprob."""
        body = {"messages": messages, "logprobs": True, "top_logprobs": 2, **fields}
        response = await self._http.post("/v1/chat/completions", json=body)
        response.raise_for_status()
        choice = response.json()["choices"][0]
        gaps = []
        for token in choice["logprobs"]["content"]:
            top = sorted((t["logprob"] for t in token["top_logprobs"]), reverse=True)
            gaps.append(top[0] - top[1] if len(top) > 1 else float("inf"))
        return choice["message"]["content"], min(gaps)

    async def completion(self, prompt: str, tokens: int) -> float:
        """The smallest gap of a greedy completion, in logprob."""
        body = {"prompt": prompt, "n_predict": tokens, "temperature": 0.0, "n_probs": 2}
        response = await self._http.post("/completion", json=body)
        response.raise_for_status()
        found = [token["top_logprobs"] for token in response.json()["completion_probabilities"]]
        gap: float = min(top[0]["logprob"] - top[1]["logprob"] for top in found)
        return gap

    async def aclose(self) -> None:
        """Close both clients."""
        await self._http.aclose()
        await self.client.aclose()


async def start_probe(
    guard: Guard, model: Path, folder: Path, flags: Sequence[str]
) -> tuple[LaunchedServer, Probe]:
    """Start the embedded server and wait until it is healthy; the caller stops it."""
    server = launch(
        locate("embedded", None, {}),
        ["--ctx-size", "8192", "--n-gpu-layers", "0", "--fit", "off", *flags],
        model=str(model),
        log_path=folder / "gaps.log",
        env={},
        guard=guard,
    )
    probe = Probe(server)

    async def healthy() -> bool:
        try:
            return await probe.client.healthy()
        except ConnectionLostError:
            return False

    await wait_until_healthy(server, healthy, 60)
    return server, probe


async def scenario_gaps(scenario: Scenario, probe: Probe) -> dict[str, float]:
    """The smallest gap of each turn and completion, by `session/turn` or id; slots unpinned."""
    book = PromptBook()
    talks: dict[str, Conversation] = {}
    for spec in scenario.sessions.values():
        system = None
        if spec.system is not None:
            system = await book.text(spec.system, probe.client.tokenise)
        talks[spec.name] = Conversation(spec, system)
    found: dict[str, float] = {}
    for step in scenario.steps:
        if isinstance(step, CompleteStep):
            prompt = await book.text(step.prompt, probe.client.tokenise)
            found[step.id] = await probe.completion(prompt, step.max_tokens)
        if not isinstance(step, TurnStep):
            continue
        talk = talks[step.session]
        user = await book.text(step.user, probe.client.tokenise)
        fields = {"temperature": 0.0, "max_tokens": step.max_tokens}
        text, gap = await probe.reply(talk.ask(user), fields)
        talk.answered(user, text)
        found[f"{step.session}/{talk.turns}"] = gap
    return found


def gaps_of(
    scenario: Scenario, model: Path, folder: Path, flags: Sequence[str]
) -> dict[str, float]:
    """`scenario_gaps` on a server of its own."""

    async def ask() -> dict[str, float]:
        with Guard() as guard:
            server, probe = await start_probe(guard, model, folder, flags)
            try:
                return await scenario_gaps(scenario, probe)
            finally:
                await probe.aclose()
                server.stop(5)

    return asyncio.run(ask())
