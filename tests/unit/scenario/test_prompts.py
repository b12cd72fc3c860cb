"""Prompts have exactly the tokens asked for on every kind of tokeniser, in few calls."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchsuite.errors import UsageError
from benchsuite.model.tiny_words import TINY_WORDS
from benchsuite.scenario import prompts
from benchsuite.scenario.prompts import exact_prompt

Split = Callable[[str], list[str]]


TINY = {f" {word}" for word in TINY_WORDS}
COMMON = set(prompts._COMMON.split())


def tiny(text: str) -> list[str]:
    pieces = re.findall(r" ?[^ ]+", text)
    return [token for piece in pieces for token in ([piece] if piece in TINY else list(piece))]


def words(text: str) -> list[str]:
    """A large vocabulary: common words and letters are one token, others two."""
    tokens: list[str] = []
    for piece in re.findall(r" ?[^ ]+", text):
        known = piece.strip() in COMMON or len(piece.strip()) == 1
        tokens += [piece] if known else [piece[:3], piece[3:]]
    return tokens


def byte_level(text: str) -> list[str]:
    return list(text)


def chunks(text: str) -> list[str]:
    return [text[at : at + 3] for at in range(0, len(text), 3)]


def uneven(text: str) -> list[str]:
    """Words cost one to three tokens, letters one."""
    tokens: list[str] = []
    for piece in re.findall(r" ?[^ ]+", text):
        cost = 1 if len(piece.strip()) == 1 else 1 + len(piece) % 3
        tokens += [piece] * cost
    return tokens


def make(count: int, seed: int, split: Split) -> tuple[str, int]:
    """The prompt and the number of calls it cost."""
    calls = 0

    async def tokenise(text: str) -> list[int]:
        nonlocal calls
        calls += 1
        return [len(token) for token in split(text)]

    return asyncio.run(exact_prompt(count, seed, tokenise)), calls


@pytest.mark.parametrize(
    ("split", "most_calls"),
    [(tiny, 1), (words, 2), (byte_level, 12), (chunks, 12), (uneven, 12)],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.parametrize("count", [1, 2, 3, 7, 40, 600, 20_000])
def test_the_count_is_exact(split: Split, most_calls: int, count: int) -> None:
    """The text returned was counted as it stands, and cost few calls."""
    for seed in (0, 1, 77):
        text, calls = make(count, seed, split)
        assert len(split(text)) == count
        assert calls <= most_calls


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400), st.integers(0, 2**40), st.sampled_from([tiny, words, byte_level]))
def test_any_length_and_seed_can_be_made(count: int, seed: int, split: Split) -> None:
    """There is no gap between the lengths that work."""
    assert len(split(make(count, seed, split)[0])) == count


@given(st.integers(0, 10**9))
def test_a_seed_always_gives_the_same_text(seed: int) -> None:
    """Nothing but seed and tokeniser decides."""
    assert make(30, seed, tiny) == make(30, seed, tiny)


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_other_seeds_differ_within_the_first_words(one: int, other: int) -> None:
    """Two prompts share a prefix of at most three tokens, so that no cache hit is an accident."""
    first, second = make(40, one, tiny)[0], make(40, other, tiny)[0]
    assert (one == other) == (first.split()[:4] == second.split()[:4])


def test_neighbouring_seeds_differ_at_once() -> None:
    """Seeds 1, 2, 3, which people write, do not even share the first token and word."""
    starts = {tuple(make(40, seed, tiny)[0].split()[:2]) for seed in range(50)}
    assert len(starts) == 50


def test_texts_survive_a_template_that_strips() -> None:
    """No white space at either end, which templates remove."""
    for count in (1, 2, 40):
        text = make(count, 5, words)[0]
        assert text == text.strip()


def test_the_texts_themselves_are_pinned() -> None:
    """Baselines depend on these very words; changing them makes every baseline stale."""
    assert make(6, 7, tiny)[0] == "d bini five bamo fuzu vadi"
    assert make(6, 7, words)[0] == "d life month time word practice"


def test_what_cannot_be_made_names_model_and_count() -> None:
    """A tokeniser that always adds one token has no text of one token."""

    async def tokenise(text: str) -> list[int]:
        return [0, *[1] * len(text)]

    with pytest.raises(UsageError) as caught:
        asyncio.run(exact_prompt(1, 0, tokenise, model="odd.gguf"))
    assert "exactly 1 tokens could be made on odd.gguf; the nearest has 2" in str(caught.value)


def test_a_broken_tokeniser_ends_the_search() -> None:
    """Counts that make no sense end with an error, not with an endless loop."""

    async def nothing(text: str) -> list[int]:
        return []

    with pytest.raises(UsageError, match="the nearest has 0"):
        asyncio.run(exact_prompt(10, 0, nothing))


@pytest.mark.parametrize("count", [0, -3])
def test_a_prompt_has_at_least_one_token(count: int) -> None:
    """Nothing cannot be asked for."""
    with pytest.raises(UsageError, match="at least 1 token"):
        make(count, 0, tiny)
