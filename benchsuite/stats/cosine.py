"""How alike the vectors of two servers are: cosine of log-probabilities and of embeddings; pure.

The cosine of log-probabilities is taken after each vector's mean was subtracted from it. That
leaves out the softmax's normaliser, which all tokens share, so it is the cosine of centred
logits (Pearson's r of the two vectors: Rodgers and Nicewander, "Thirteen ways to look at the
correlation coefficient", The American Statistician 42(1), 1988). Tried on the tiny model with 16
positions and rejected: the plain cosine of log-probabilities, whose common offset hides
everything (0.9996 after one of the last words of the prompt had been changed, where centred it is
0.989), and the cosine of probabilities, which the likeliest token rules alone (0.995 for a
harmless q8_0 cache, where centred it is 0.9996).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from benchsuite.model.vectors import (
    EmbeddingVector,
    LogprobVectors,
    Position,
    VectorSet,
    unpack_floats,
    unpack_ids,
)

LOWEST = -104.0
"""Below the logarithm of the smallest positive 32-bit float (-103.28): llama-server sends the
lowest float there is for a probability that became 0 (build 11434), which would drown the rest."""


class Alike(msgspec.Struct, frozen=True):
    """How alike two sets of vectors are."""

    cosine: float  # the smallest over all positions; -1 to 1
    positions: int  # compared
    position: int  # of the smallest cosine, from 0
    changed: tuple[int, ...]  # positions whose likeliest token differs, from 0; embeddings: none
    words: str  # what was compared: `16 positions, whole vocabulary of 818`


class Incomparable(msgspec.Struct, frozen=True):
    """Two sets that have no cosine, and why, in a sentence without a full stop."""

    reason: str


def compare_vectors(reference: VectorSet, candidate: VectorSet) -> Alike | Incomparable:
    """Compare what two servers gave for the same prompt and tokens.

    Args:
        reference: Of the server that is taken as right.
        candidate: Of the server under test.
    """
    if isinstance(reference, LogprobVectors) and isinstance(candidate, LogprobVectors):
        return _compare_logprobs(reference, candidate)
    if isinstance(reference, EmbeddingVector) and isinstance(candidate, EmbeddingVector):
        return _compare_embeddings(reference, candidate)
    return Incomparable("one side holds log-probabilities, the other an embedding")


def cosine(left: Sequence[float], right: Sequence[float]) -> float | None:
    """The cosine of the angle between two vectors of equal length; None where it has none.

    A vector of zeros has no direction; one with NaN or infinity in it has no length.
    """
    if len(left) != len(right) or not left:
        return None
    if left == right and any(left) and all(map(math.isfinite, left)):
        return 1.0  # exactly; the quotient below may be a rounding away from it
    lengths = math.sqrt(math.fsum(x * x for x in left)) * math.sqrt(math.fsum(y * y for y in right))
    product = math.fsum(x * y for x, y in zip(left, right, strict=True))
    if not (math.isfinite(lengths) and math.isfinite(product)) or lengths == 0:
        return None
    return max(-1.0, min(1.0, product / lengths))


def centred(values: Sequence[float]) -> list[float]:
    """The values less their mean."""
    if min(values) == max(values):
        return [0.0] * len(values)  # exactly, which a rounded mean would miss
    mean = math.fsum(values) / len(values)
    return [value - mean for value in values]


def _compare_logprobs(reference: LogprobVectors, candidate: LogprobVectors) -> Alike | Incomparable:
    problem = _unlike(reference, candidate)
    if problem is not None:
        return Incomparable(problem)
    cosines: list[float] = []
    pairs = list(zip(reference.positions, candidate.positions, strict=True))
    for number, (ours, theirs) in enumerate(pairs):
        found = _position_cosine(ours, theirs, reference.asked, candidate.asked)
        if isinstance(found, str):
            return Incomparable(f"position {number}: {found}")
        cosines.append(found)
    smallest = min(range(len(cosines)), key=cosines.__getitem__)
    size = len(reference.positions[0].logprobs) // 4
    whole = size < reference.asked
    return Alike(
        cosine=cosines[smallest],
        positions=len(pairs),
        position=smallest,
        changed=tuple(i for i, (ours, theirs) in enumerate(pairs) if ours.top != theirs.top),
        words=f"{len(pairs)} positions, "
        + (f"whole vocabulary of {size}" if whole else f"the reference's likeliest {size} tokens"),
    )


def _unlike(reference: LogprobVectors, candidate: LogprobVectors) -> str | None:
    """Why two sets were not taken along the same tokens; None where they were."""
    if (reference.prompt, reference.prompts) != (candidate.prompt, candidate.prompts):
        return "the two sides were given different prompts"
    if reference.tokens != candidate.tokens:
        return "the two sides were forced along different tokens"
    counts = len(reference.positions), len(candidate.positions)
    if 0 in counts:
        return "there is no position to compare"
    if counts[0] != counts[1]:
        return f"the reference has {counts[0]} positions, the other side {counts[1]}"
    return None


def _position_cosine(
    reference: Position, candidate: Position, asked: int, asked_candidate: int
) -> float | str:
    """The cosine at one position, or why there is none."""
    left, right = unpack_floats(reference.logprobs), unpack_floats(candidate.logprobs)
    if not left or not right:
        return "a side told no log-probability"
    for side, values in (("reference", left), ("other side", right)):
        if not all(map(math.isfinite, values)):
            return f"the {side} gave a log-probability that is no number"
    whole = len(left) < asked, len(right) < asked_candidate
    if whole[0] != whole[1] or (all(whole) and len(left) != len(right)):
        return f"the reference told {len(left)} tokens, the other side {len(right)}"
    rows = dict(zip(unpack_ids(candidate.ids, len(right)), right, strict=True))
    ids = unpack_ids(reference.ids, len(left))
    if all(whole) and any(token not in rows for token in ids):
        return "the two sides name different tokens"
    # beyond its own list a token is at most as likely as the last one in it
    least = min(right)
    ours = centred([max(value, LOWEST) for value in left])
    theirs = centred([max(rows.get(token, least), LOWEST) for token in ids])
    found = cosine(ours, theirs)
    return "all tokens are equally likely, which has no direction" if found is None else found


def _compare_embeddings(
    reference: EmbeddingVector, candidate: EmbeddingVector
) -> Alike | Incomparable:
    if reference.prompt != candidate.prompt:
        return Incomparable("the two sides were given different prompts")
    left, right = unpack_floats(reference.values), unpack_floats(candidate.values)
    if not left or not right:
        return Incomparable("an embedding is empty")
    if len(left) != len(right):
        return Incomparable(f"one embedding has {len(left)} numbers, the other {len(right)}")
    for side, values in (("reference", left), ("other side", right)):
        if not all(map(math.isfinite, values)):
            return Incomparable(f"the embedding of the {side} holds what is no number")
    found = cosine(left, right)
    if found is None:
        return Incomparable("an embedding is all zeros, which has no direction")
    return Alike(found, 1, 0, (), f"embedding of {len(left)} numbers")
