"""What a load step sends that was read from a file: its texts, and which rows fit the server."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchsuite.client.api import LlamaClient
from benchsuite.drive.prompts import PromptBook
from benchsuite.errors import RequestRefusedError, UsageError
from benchsuite.model.sample import Row, Sample
from benchsuite.model.scenario import LoadStep, PromptSpec

Content = str | list[dict[str, str]]
"""A raw prompt, or the messages of a chat."""

_SPECIAL = 4
"""Tokens that a vocabulary may put around a raw prompt."""


class Fit(msgspec.Struct, frozen=True):
    """A load step as it is sent to one server."""

    step: LoadStep  # of a file: with the rows that fit, and how many requests that makes
    skipped: int = 0  # rows that do not fit
    why: str = ""  # of the first of them, in a sentence

    @property
    def taken(self) -> int:
        """Rows of its file that were looked at."""
        return self.skipped + (0 if self.step.sample is None else len(self.step.sample.rows))


async def fit_to_server(step: LoadStep, client: LlamaClient, prompts: PromptBook) -> Fit:
    """Make the texts of a file's rows, and leave out what no slot of the server can hold.

    Rows that the step has no time or number for are not looked at. A row fits where prompt and
    output limit together are within a slot's context. Rows that fit by their bytes, of which no
    token has less than one, are not counted in tokens.

    Args:
        step: One without a file fits as it is.
        client: The server.
        prompts: Makes and keeps the texts.

    Raises:
        UsageError: No row fits.
    """
    sample = step.sample
    if sample is None:
        if step.source is not None:
            raise AssertionError(f"the file of load {step.name} was not read")
        return Fit(step)
    context = (await client.props()).n_ctx_slot
    around = await _around(sample, client)
    kept: list[Row] = []
    first, skipped = "", 0
    end_ns = math.inf
    if step.duration is not None and sample.spec.is_timed:
        end_ns = step.duration * sample.spec.speed * 1e9
    for row in sample.rows:
        if len(kept) == step.requests or (row.at_ns or 0) >= end_ns:
            break
        why = await _misfit(row, step, context, around, client, prompts)
        if why is None:
            kept.append(row)
        else:
            skipped += 1
        first = first or why or ""
    if not kept:
        raise UsageError(
            f"load {step.name}: no request of {sample.spec.file} can be sent ({skipped} tried), "
            f"the first for this: {first}",
            hint="give the slots more context (ctx-size), or the trace a lower 'block'",
        )
    requests = step.requests
    if step.duration is None and requests is None:
        requests = len(kept)
    fitted = msgspec.structs.replace(sample, rows=tuple(kept))
    return Fit(msgspec.structs.replace(step, sample=fitted, requests=requests), skipped, first)


async def content_of(row: Row, step: LoadStep, prompts: PromptBook, client: LlamaClient) -> Content:
    """What a row sends; asks the server to count only for texts not made yet."""
    tokenise = client.tokenise
    if row.messages:
        # a chat's first message carries what tells a run from others, as a session's does
        texts = [one.content for one in row.messages]
        texts[0] = await prompts.text(PromptSpec(text=texts[0]), tokenise)
        said = zip(row.messages, texts, strict=True)
        return [{"role": one.role, "content": text} for one, text in said]
    if row.prompt is not None:
        return await prompts.text(PromptSpec(text=row.prompt), tokenise)
    block = step.sample.spec.block if step.sample is not None else 1
    tokens = row.tokens_at(block)
    if tokens is None:
        raise AssertionError("a row without text and length")
    return await prompts.of_blocks(row.blocks, tokens, block, step.seed, tokenise)


async def _misfit(
    row: Row,
    step: LoadStep,
    context: int | None,
    around: int | None,
    client: LlamaClient,
    prompts: PromptBook,
) -> str | None:
    """Why a row cannot be sent, or None; its text is made where it can."""
    sample = step.sample
    if sample is None:
        raise AssertionError("a row of no sample")
    limit = row.output_at(sample.spec.block) or step.max_tokens
    if row.max_tokens is None and step.output_tokens is not None:
        limit = step.output_tokens.high
    made = row.tokens_at(sample.spec.block)
    place = f"row {row.number} of {sample.spec.file}"

    def beyond(tokens: int) -> str | None:
        if context is None or tokens + limit <= context:
            return None
        return (
            f"{place} has {tokens} prompt tokens and asks for {limit}, and a slot holds {context}"
        )

    if made is not None and (why := beyond(made + 1)) is not None:
        return why
    try:
        content = await content_of(row, step, prompts, client)
    except UsageError as error:
        return f"{place}: {error.message}"
    if made is not None or context is None:
        return None
    if around is not None and _bytes_of(content) + around * _messages(content) + limit <= context:
        return None
    counted = await _count(content, client)
    return None if counted is None else beyond(counted)


def _bytes_of(content: Content) -> int:
    if isinstance(content, str):
        return len(content.encode())
    return sum(len(one["content"].encode()) for one in content)


def _messages(content: Content) -> int:
    return 1 if isinstance(content, str) else len(content)


async def _around(sample: Sample, client: LlamaClient) -> int | None:
    """At most so many tokens stand around a message in a chat; None where nobody tells."""
    if not any(row.messages for row in sample.rows):
        return _SPECIAL
    chat: Sequence[dict[str, str]] = [{"role": "user", "content": "x"}]
    try:
        return len((await client.apply_template(chat)).encode()) + _SPECIAL
    except RequestRefusedError:
        return None


async def _count(content: Content, client: LlamaClient) -> int | None:
    """Prompt tokens; None where the server does not tell, and is left to decide itself."""
    try:
        text = content if isinstance(content, str) else await client.apply_template(content)
        return len(await client.prompt_tokens(text))
    except RequestRefusedError:
        return None
