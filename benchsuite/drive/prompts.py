"""Prompts as texts: made once per run and kept, so that every variant sends the very same."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

from benchsuite.errors import UsageError
from benchsuite.model.scenario import PromptSpec
from benchsuite.scenario.prompts import exact_prompt

Tokenise = Callable[[str], Awaitable[list[int]]]

NONCE_TOKENS = 8
"""Tokens that begin a written text on servers that are not ours."""

_NONCE_TRIES = 8


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
