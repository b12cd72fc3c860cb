"""Vector steps: what is asked of the server, and along which tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.client.api import LlamaClient
from benchsuite.client.reply import Reply, Stamps, Timings
from benchsuite.drive.vectors import References, Taken, take_vectors
from benchsuite.errors import ConnectionLostError
from benchsuite.model.scenario import EmbeddingStep, LogprobsStep, PromptSpec
from benchsuite.model.vectors import EmbeddingVector, LogprobVectors, Position, pack_floats, turned

REPLY = Reply("", "", 1, 0, 1, 1, 0, "limit", False, Timings(), Stamps(0, 0))
STEP = LogprobsStep("one", PromptSpec(text="x"), tokens=3, top=8)


class Fake:
    """A server whose likeliest token is the number of tokens that it was given, plus `shift`."""

    def __init__(self, shift: int = 0, fail_at: int | None = None) -> None:
        self.shift = shift
        self.fail_at = fail_at
        self.asked: list[tuple[int, ...]] = []
        self.prompt = [1, 50]
        self.under_way = self.most = 0

    async def prompt_tokens(self, text: str) -> list[int]:
        return self.prompt

    async def next_token(self, prompt: Sequence[int], top: int) -> tuple[Reply, Position]:
        assert top == 8
        self.asked.append(tuple(prompt))
        number = len(self.asked)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        if number == self.fail_at:
            raise ConnectionLostError("gone")
        return REPLY, Position(len(prompt) + self.shift, pack_floats([-1, -2]))

    async def embedding(self, prompt: Sequence[int]) -> bytes:
        self.asked.append(tuple(prompt))
        return pack_floats([1.0])


def take(
    fake: Fake, references: References, step: LogprobsStep | EmbeddingStep = STEP
) -> tuple[list[Reply], Taken | None]:
    """Take one step's vectors."""
    return asyncio.run(take_vectors(step, "x", cast(LlamaClient, fake), references))


def test_the_reference_is_led_by_its_own_tokens() -> None:
    """Each position's likeliest token is forced at the next; one request a position."""
    fake = Fake()
    replies, taken = take(fake, References())
    assert fake.asked == [(1, 50), (1, 50, 2), (1, 50, 2, 3)]
    assert len(replies) == 3
    assert taken is not None
    assert isinstance(taken.reference, LogprobVectors)
    assert taken.reference.tokens == (2, 3, 4)
    assert taken.own is None
    assert taken.stored is None


def _led(fake: Fake | None = None) -> LogprobVectors:
    taken = take(fake or Fake(), References())[1]
    assert taken is not None
    assert isinstance(taken.reference, LogprobVectors)
    return taken.reference


def test_others_are_forced_along_them() -> None:
    """A server that would choose other tokens is asked at the reference's positions."""
    fake = Fake(shift=7)
    _, taken = take(fake, References(leads=False, run={"one": _led()}))
    assert fake.asked == [(1, 50), (1, 50, 2), (1, 50, 2, 3)]
    assert taken is not None
    assert isinstance(taken.own, LogprobVectors)
    assert taken.own.tokens == (2, 3, 4)
    assert [p.top for p in taken.own.positions] == [9, 10, 11]


def test_nothing_is_asked_without_a_reference() -> None:
    """Where the reference failed there is nothing to go along."""
    fake = Fake()
    assert take(fake, References(leads=False)) == ([], None)
    assert fake.asked == []


def test_requests_at_once_are_those_of_one_group() -> None:
    """The reference goes one by one first, then two at a time, which is compared with it."""
    fake = Fake()
    step = LogprobsStep("one", PromptSpec(text="x"), tokens=3, top=8, at_once=2)
    replies, taken = take(fake, References(), step)
    assert fake.most == 2
    assert len(replies) == 6
    assert taken is not None
    assert taken.own == taken.reference


def test_requests_at_once_have_different_prompts() -> None:
    """Else a slot that reads another's cells would find its own tokens there."""
    fake = Fake()
    fake.prompt = [1, 50, 51, 52, 53]
    step = LogprobsStep("one", PromptSpec(text="x"), tokens=3, top=8, at_once=2)
    take(fake, References(), step)
    assert fake.asked[3:] == [
        (1, 50, 51, 52, 53),
        (1, 52, 53, 50, 51, 5),
        (1, 50, 51, 52, 53, 5, 6),
    ]
    assert fake.asked[:3] == fake.asked[3:]


def test_a_set_is_followed_in_its_own_forms() -> None:
    """Vectors that were stored with other prompts at once are asked for as they were taken."""
    fake = Fake()
    step = LogprobsStep("one", PromptSpec(text="x"), tokens=3, top=8, at_once=2)
    take(fake, References(leads=False, run={"one": _led()}), step)
    assert fake.asked == [(1, 50), (1, 50, 2), (1, 50, 2, 3)]


@given(st.lists(st.integers(0, 99), max_size=40).map(tuple), st.integers(1, 8))
def test_each_form_of_a_prompt_has_its_tokens(prompt: tuple[int, ...], forms: int) -> None:
    """The first stays first, none is lost, and form 0 is the prompt."""
    for form in range(forms):
        made = turned(prompt, form, forms)
        assert made[:1] == prompt[:1]
        assert sorted(made) == sorted(prompt)
    assert turned(prompt, 0, forms) == prompt


def test_the_stored_tokens_are_forced_where_they_are_others() -> None:
    """Stored vectors along the same tokens need no request more."""
    same = References(stored={"one": _led()})
    other = References(stored={"one": _led(Fake(shift=3))})
    fake = Fake()
    assert take(fake, same)[1] == Taken("one", _led())
    assert len(fake.asked) == 3
    fake = Fake()
    taken = take(fake, other)[1]
    assert taken is not None
    assert isinstance(taken.stored, LogprobVectors)
    assert taken.stored.tokens == (5, 6, 7)
    assert fake.asked[3:] == [(1, 50), (1, 50, 5), (1, 50, 5, 6)]


def test_an_embedding_is_one_request() -> None:
    """Of the same token ids on both sides."""
    step = EmbeddingStep("one", PromptSpec(text="x"))
    led = take(Fake(), References(), step)[1]
    assert led is not None
    assert led.reference == EmbeddingVector("one", (1, 50), pack_floats([1.0]))
    fake = Fake()
    followed = take(fake, References(leads=False, run={"one": led.reference}), step)[1]
    assert followed is not None
    assert followed.own == led.reference
    assert fake.asked == [(1, 50)]


def test_a_fault_in_a_group_is_raised() -> None:
    """The other requests of the group are cancelled, and the first fault is told."""
    step = LogprobsStep("one", PromptSpec(text="x"), tokens=3, top=8, at_once=3)
    with pytest.raises(ConnectionLostError):
        take(Fake(fail_at=2), References(leads=False, run={"one": _led()}), step)
