"""Prompts as texts: made once per run and kept, so that every variant sends the very same."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

from benchsuite.errors import UsageError
from benchsuite.model.scenario import LoadStep, PromptSpec
from benchsuite.scenario.prompts import exact_prompt

Tokenise = Callable[[str], Awaitable[list[int]]]

NONCE_TOKENS = 8
"""Tokens that begin a written text on servers that are not ours."""

_NONCE_TRIES = 8
_ANCHOR = "b"  # what stands before a block while its tokens are counted


class PromptBook:
    """Makes and keeps the texts of prompts.

    Args:
        nonce: Makes every prompt of exact length another text of the same length, and begins
            written texts with as many tokens of its own in each run; for servers whose caches may
            hold an earlier run. None leaves texts alone.
    """

    def __init__(self, nonce: str | None = None) -> None:
        self._nonce = nonce
        self._texts: dict[tuple[int, int], str] = {}
        self._anchor: int | None = None  # tokens of what stands before a block that is counted
        self._blocks: dict[tuple[int, int], str] = {}  # seed, tokens
        # ids, tokens of the whole, of a block, seed -> text of the last block in its place
        self._ends: dict[tuple[tuple[int, ...], int, int, int], str] = {}
        self._begun: dict[str, str] = {}  # written text -> the same with its beginning

    async def text(self, spec: PromptSpec, tokenise: Tokenise) -> str:
        """The text of a prompt; asks the server to count only for texts not made yet."""
        if spec.tokens is None:
            text = spec.text or ""
            if self._nonce is None:
                return text
            if text not in self._begun:
                self._begun[text] = await self._with_beginning(text, tokenise)
            return self._begun[text]
        key = (spec.tokens, spec.seed)
        if key not in self._texts:
            self._texts[key] = await exact_prompt(spec.tokens, self._shifted(spec.seed), tokenise)
        return self._texts[key]

    async def of_blocks(
        self, ids: tuple[int, ...], tokens: int, block: int, seed: int, tokenise: Tokenise
    ) -> str:
        """A text of exactly so many tokens, in which equal ids stand for equal text.

        Each block is made to have its count after a space, as it stands in all prompts but at
        their beginning; the last one is made in its place, so that the whole has the count.

        Args:
            ids: One for each block; only the last may be shorter.
            tokens: Of the whole, special ones not counted.
            block: Tokens of a block.
            seed: Added to each id.
            tokenise: As of `text`.

        Raises:
            UsageError: The model has no such text.
        """
        whole = ids[:-1]
        for one in whole:
            if (one + seed, block) not in self._blocks:
                if self._anchor is None:
                    self._anchor = len(await tokenise(_ANCHOR))
                made = await self._after(_ANCHOR, self._anchor, block, one + seed, tokenise)
                self._blocks[one + seed, block] = made
        texts = [self._blocks[one + seed, block] for one in whole]
        key = (ids, tokens, block, seed)
        if key not in self._ends:
            if not whole:
                end = await exact_prompt(tokens, self._shifted(ids[0] + seed), tokenise)
            else:
                before = " ".join(texts)
                base = len(await tokenise(before))
                end = await self._after(before, base, tokens - base, ids[-1] + seed, tokenise)
            self._ends[key] = end
        return " ".join([*texts, self._ends[key]])

    async def _after(
        self, before: str, base: int, tokens: int, seed: int, tokenise: Tokenise
    ) -> str:
        """A text that adds so many tokens to the `base` of what is before it and a space."""

        async def added(text: str) -> list[int]:
            return (await tokenise(f"{before} {text}"))[base:]

        return await exact_prompt(tokens, self._shifted(seed), added)

    async def _with_beginning(self, text: str, tokenise: Tokenise) -> str:
        """The text after a few words of this run, `NONCE_TOKENS` longer where a try gives that.

        Tokens may melt together where the two meet, so what is tried is counted as it stands.
        """
        wanted = len(await tokenise(text)) + NONCE_TOKENS
        for attempt in range(_NONCE_TRIES):
            try:
                words = await exact_prompt(NONCE_TOKENS, self._shifted(attempt), tokenise)
            except UsageError:  # a model whose tokens are too long for so few
                break
            begun = f"{words} {text}"
            if len(await tokenise(begun)) == wanted:
                return begun
        return f"{self._nonce} {text}"

    def _shifted(self, seed: int) -> int:
        if self._nonce is None:
            return seed
        # one distance for all: where two seeds' texts begin alike is a matter of their distance
        # (first letter and words are the seed's digits), so what prompts share stays the same
        return seed + random.Random(self._nonce).getrandbits(48)


def texts_of(step: LoadStep) -> list[PromptSpec]:
    """Every text that a load step makes; a file's are made with its rows."""
    if step.source is not None:
        return []
    prefix = [] if step.prefix is None else [step.prefix]
    return [step.prompt_of(number) for number in range(step.texts)] + prefix
