"""Vectors that a server gave for a prompt: log-probabilities position by position, embeddings.

They are kept as 32-bit floats, which is what llama-server computes with (build 11434,
`common/sampling.h` and `tools/server/server-context.cpp`), so nothing is lost on disk.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from typing import Literal

import msgspec

VECTORS_SCHEMA = 1
"""Version of `vectors.jsonl` in runs and of vector files beside baselines. 1: first."""


class Position(msgspec.Struct, frozen=True):
    """How likely each token was to come next, at one position."""

    top: int  # id of the likeliest token
    logprobs: bytes  # 32-bit little-endian floats, natural logarithms, in order of token id
    ids: bytes = b""  # 32-bit little-endian token ids of `logprobs`; empty: every id from 0


class LogprobVectors(msgspec.Struct, frozen=True, tag="logprobs"):
    """Log-probabilities after a prompt, and after each of the tokens that were forced upon it."""

    request: str  # id of the step
    prompt: tuple[int, ...]  # token ids, special ones included
    tokens: tuple[int, ...]  # of the reference: position k follows the first k of them
    positions: tuple[Position, ...]  # as many as tokens: nothing is asked after the last
    asked: int  # so many of the likeliest tokens were asked for; fewer came: whole vocabulary
    prompts: int = 1  # so many turned forms of the prompt take the positions in turn: `forced`

    def forced(self, position: int) -> tuple[int, ...]:
        """The token ids that a position follows: its form of the prompt, then forced tokens."""
        form = turned(self.prompt, position % self.prompts, self.prompts)
        return (*form, *self.tokens[:position])


def turned(prompt: tuple[int, ...], form: int, forms: int) -> tuple[int, ...]:
    """A form of a prompt that has other tokens at nearly every place; form 0 is the prompt itself.

    All tokens but the first, which may be the one that begins every text, are moved on in a circle
    by `form` of `forms` equal parts. So requests that are under way at once can differ throughout,
    whatever the tokeniser: one that reads another's cells then finds what is not its own.
    """
    first, rest = prompt[:1], prompt[1:]
    cut = len(rest) * form // forms
    return (*first, *rest[cut:], *rest[:cut])


class EmbeddingVector(msgspec.Struct, frozen=True, tag="embedding"):
    """What an embeddings model made of a prompt."""

    request: str  # id of the step
    prompt: tuple[int, ...]  # token ids, special ones included
    values: bytes  # 32-bit little-endian floats


VectorSet = LogprobVectors | EmbeddingVector

Role = Literal["reference", "own", "stored"]
"""What a set was taken along: its own greedy tokens, those of the run's reference, or those of
the stored reference where they differ from the run's."""


class VectorLine(msgspec.Struct, frozen=True):
    """One line of a vector file."""

    variant: str
    trial: int  # from 1
    role: Role
    set: VectorSet


def pack_floats(values: Iterable[float]) -> bytes:
    """Numbers as 32-bit little-endian floats."""
    return _little(array("f", values))


def unpack_floats(packed: bytes) -> tuple[float, ...]:
    """The numbers in 32-bit little-endian floats.

    Raises:
        ValueError: The length is no multiple of 4.
    """
    return tuple(map(float, _read("f", packed)))


def pack_ids(ids: Iterable[int]) -> bytes:
    """Token ids as 32-bit little-endian whole numbers; empty where they are 0, 1, 2, ..."""
    numbers = list(ids)
    return b"" if numbers == list(range(len(numbers))) else _little(array("i", numbers))


def unpack_ids(packed: bytes, count: int) -> tuple[int, ...]:
    """The token ids of `count` log-probabilities.

    Raises:
        ValueError: The length is no multiple of 4.
    """
    return tuple(map(int, _read("i", packed))) if packed else tuple(range(count))


def _little(numbers: array[float] | array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _read(code: str, packed: bytes) -> array[float] | array[int]:
    numbers: array[float] | array[int] = array(code)
    numbers.frombytes(packed)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
