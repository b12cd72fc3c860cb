"""Prompts as texts: made once per run and kept, so that every variant sends the very same."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

from benchsuite.model.scenario import PromptSpec
from benchsuite.scenario.prompts import exact_prompt

Tokenise = Callable[[str], Awaitable[list[int]]]


class PromptBook:
    """Makes and keeps the texts of prompts.

    Args:
        nonce: Makes every prompt of exact length another text of the same length, and begins
            written texts with it; for servers whose caches may hold an earlier run. None leaves
            texts alone.
    """

    def __init__(self, nonce: str | None = None) -> None:
        self._nonce = nonce
        self._texts: dict[tuple[int, int], str] = {}

    async def text(self, spec: PromptSpec, tokenise: Tokenise) -> str:
        """The text of a prompt; asks the server to count only for texts not made yet."""
        if spec.tokens is None:
            text = spec.text or ""
            return text if self._nonce is None else f"{self._nonce} {text}"
        key = (spec.tokens, spec.seed)
        if key not in self._texts:
            self._texts[key] = await exact_prompt(spec.tokens, self._shifted(spec.seed), tokenise)
        return self._texts[key]

    def _shifted(self, seed: int) -> int:
        if self._nonce is None:
            return seed
        return random.Random(f"{seed}/{self._nonce}").getrandbits(48)
