"""Vector steps as requests: log-probabilities along a reference's tokens, and embeddings.

The reference's tokens are found by the very requests that take its vectors: each position's
likeliest token is the next one forced, so both sides are asked in the same way. Where requests
are under way at once, their prompts differ (`turned`): prefixes of one text would hide a slot that
reads another's cells, since it would find its own tokens there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from benchsuite.client.api import LlamaClient
from benchsuite.client.reply import Reply, Stamps, Timings
from benchsuite.model.scenario import EmbeddingStep, LogprobsStep
from benchsuite.model.vectors import EmbeddingVector, LogprobVectors, Position, VectorSet


class References(msgspec.Struct, frozen=True):
    """What the vectors of one launch go along and are compared with, by id of the step."""

    leads: bool = True  # whether this launch is the reference that the others follow
    run: Mapping[str, VectorSet] = {}  # the reference's own; empty where it leads or has none
    stored: Mapping[str, VectorSet] = {}  # of this variant, as `accept` stored them


class Taken(msgspec.Struct, frozen=True):
    """What one vector step took; each None where it was not to be taken."""

    request: str  # id of the step
    reference: VectorSet | None = None  # along its own tokens, one request at a time
    own: VectorSet | None = None  # along the reference's tokens
    stored: VectorSet | None = None  # along the stored reference's, where those are others

    @property
    def lasting(self) -> VectorSet | None:
        """What is stored for later builds, and compared with what an earlier one stored."""
        return self.reference or self.own


async def take_vectors(
    step: LogprobsStep | EmbeddingStep, text: str, client: LlamaClient, references: References
) -> tuple[list[Reply], Taken | None]:
    """Take the vectors of one step.

    Args:
        step: What to take.
        text: Its prompt; a launch that follows sends the reference's own token ids instead.
        client: The server.
        references: What to go along.

    Returns:
        Every reply, and the vectors; None where there is no reference to follow.

    Raises:
        ServerError: Whatever a request found.
    """
    taking = _Taking(step, client)
    followed = references.run.get(step.id)
    reference = own = None
    if references.leads:
        prompt = tuple(await client.prompt_tokens(text))
        reference = await taking.lead(prompt)
        if isinstance(step, LogprobsStep) and step.at_once > 1:
            own = await taking.follow(reference)
    elif followed is not None:
        own = await taking.follow(followed)
    lasting = reference or own
    if lasting is None:
        return [], None
    before, stored = references.stored.get(step.id), None
    if before is not None and _track(before) != _track(lasting):
        stored = await taking.follow(before)
    return taking.replies, Taken(step.id, reference, own, stored)


class _Taking:
    """The requests of one step, and their replies."""

    def __init__(self, step: LogprobsStep | EmbeddingStep, client: LlamaClient) -> None:
        self._step = step
        self._client = client
        self.replies: list[Reply] = []

    async def lead(self, prompt: tuple[int, ...]) -> VectorSet:
        """Vectors along the tokens that are likeliest here."""
        step = self._step
        if isinstance(step, EmbeddingStep):
            return await self._embedding(prompt)
        led = LogprobVectors(step.id, prompt, (), (), step.top, step.at_once)
        for k in range(step.tokens):
            position = await self._position(led.forced(k), step.top)
            led = msgspec.structs.replace(
                led, tokens=(*led.tokens, position.top), positions=(*led.positions, position)
            )
        return led

    async def follow(self, other: VectorSet) -> VectorSet:
        """Vectors along the prompt and tokens of another set."""
        step = self._step
        if isinstance(other, EmbeddingVector) or isinstance(step, EmbeddingStep):
            return await self._embedding(other.prompt)
        prompts = [other.forced(k) for k in range(len(other.positions))]
        positions: list[Position] = []
        for first in range(0, len(prompts), step.at_once):
            group = prompts[first : first + step.at_once]
            tasks = [asyncio.ensure_future(self._position(ids, other.asked)) for ids in group]
            try:
                positions += await asyncio.gather(*tasks)
            except BaseException:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                raise
        return msgspec.structs.replace(other, positions=tuple(positions))

    async def _position(self, ids: Sequence[int], top: int) -> Position:
        reply, position = await self._client.next_token(ids, top)
        self.replies.append(reply)
        return position

    async def _embedding(self, prompt: tuple[int, ...]) -> EmbeddingVector:
        values = await self._client.embedding(prompt)
        self.replies.append(_UNCOUNTED)
        return EmbeddingVector(self._step.id, prompt, values)


_UNCOUNTED = Reply("", "", None, None, None, None, None, "", False, Timings(), Stamps(0, 0))
"""An embedding's reply counts no cached or evaluated tokens (build 11549)."""


def _track(vectors: VectorSet) -> tuple[tuple[int, ...], ...]:
    """What a set was taken along."""
    if isinstance(vectors, EmbeddingVector):
        return (vectors.prompt,)
    return vectors.prompt, vectors.tokens, (vectors.prompts,)
