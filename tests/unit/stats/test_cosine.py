"""How alike two sets of vectors are: by hand, by published values, and where there is no answer."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.model.vectors import (
    EmbeddingVector,
    LogprobVectors,
    Position,
    pack_floats,
    pack_ids,
)
from benchsuite.stats.cosine import Alike, Incomparable, centred, compare_vectors, cosine


def vectors(*rows: list[float], asked: int = 100, tokens: tuple[int, ...] = ()) -> LogprobVectors:
    """A set of whole-vocabulary positions."""
    positions = tuple(Position(row.index(max(row)), pack_floats(row)) for row in rows)
    forced = tokens or tuple(range(len(rows)))
    return LogprobVectors("one", (1, 2), forced, positions, asked)


def test_the_cosine_of_known_vectors() -> None:
    """(1, 2, 3) and (4, 5, 6): 32 / sqrt(14 * 77); at right angles 0; opposite -1."""
    assert cosine([1, 2, 3], [4, 5, 6]) == pytest.approx(32 / math.sqrt(14 * 77), abs=1e-12)
    assert cosine([1, 0], [0, 1]) == 0
    assert cosine([1, 2], [-1, -2]) == pytest.approx(-1)


def test_the_centred_cosine_is_pearsons_r() -> None:
    """Anscombe's first set has r = 0.81642 (The American Statistician 27, 1973)."""
    x = [10.0, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5]
    y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68]
    assert cosine(centred(x), centred(y)) == pytest.approx(0.81642, abs=1e-5)


@pytest.mark.parametrize(
    ("left", "right"),
    [([0, 0], [1, 2]), ([1, 2], [1, 2, 3]), ([], []), ([math.nan, 1], [1, 2]), ([math.inf], [1])],
)
def test_what_has_no_direction_has_no_cosine(left: list[float], right: list[float]) -> None:
    """Zeros, other lengths, nothing, and what is no number give None, never 0 or 1."""
    assert cosine(left, right) is None


@given(st.lists(st.floats(-20, 0, width=32), min_size=2, max_size=20))
def test_a_vector_is_like_itself(row: list[float]) -> None:
    """Exactly 1, unless all of it is equal and has no direction."""
    found = compare_vectors(vectors(row), vectors(row))
    if min(row) == max(row):
        assert isinstance(found, Incomparable)
    else:
        assert isinstance(found, Alike)
        assert found.cosine == 1
        assert found.changed == ()


@given(
    st.lists(
        st.tuples(st.floats(-20, 0, width=32), st.floats(-20, 0, width=32)),
        min_size=3,
        max_size=20,
    )
)
def test_it_is_symmetric_and_bounded(pairs: list[tuple[float, float]]) -> None:
    """Between -1 and 1, and the same whichever side is the reference."""
    left, right = ([pair[i] for pair in pairs] for i in (0, 1))
    there = compare_vectors(vectors(left), vectors(right))
    back = compare_vectors(vectors(right), vectors(left))
    assert type(there) is type(back)
    if isinstance(there, Alike) and isinstance(back, Alike):
        assert -1 <= there.cosine <= 1
        assert there.cosine == pytest.approx(back.cosine, abs=1e-12)


def test_the_smallest_position_decides_and_changes_are_counted() -> None:
    """Position 1 differs most, and there another token leads."""
    found = compare_vectors(
        vectors([-1, -2, -3], [-1, -2, -3]), vectors([-1, -2, -3.25], [-3, -2, -1])
    )
    assert isinstance(found, Alike)
    assert found.cosine == pytest.approx(-1)
    assert found.position == 1
    assert found.changed == (1,)
    assert found.words == "2 positions, whole vocabulary of 3"


def test_a_common_offset_changes_nothing() -> None:
    """All tokens half as likely is another normaliser, not another opinion."""
    found = compare_vectors(vectors([-1, -2, -4]), vectors([-3, -4, -6]))
    assert isinstance(found, Alike)
    assert found.cosine == pytest.approx(1)


def test_a_probability_of_zero_does_not_drown_the_rest() -> None:
    """llama-server sends the lowest float for it; both sides are cut at -104."""
    lowest = -3.4028234663852886e38
    found = compare_vectors(vectors([-1, -2, lowest]), vectors([-2, -1, lowest]))
    assert isinstance(found, Alike)
    assert found.cosine < 0.99995  # with the float as sent it would round to 1
    assert found.changed == (0,)


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (vectors([-1, -2]), "told 3 tokens, the other side 2"),
        (vectors([-1, -2, math.nan]), "other side gave a log-probability that is no number"),
        (vectors([-1, -2, -math.inf]), "other side gave a log-probability that is no number"),
        (vectors([-1, -1, -1]), "equally likely"),
        (vectors([-1, -2, -3], [-1, -2, -3], tokens=(0,)), "1 positions, the other side 2"),
        (vectors([-1, -2, -3], tokens=(7,)), "forced along different tokens"),
        (vectors(tokens=(0,)), "no position"),
        (vectors([-1, -2, -3], asked=2), "told 3 tokens, the other side 3"),
        (
            LogprobVectors("one", (1, 3), (0,), vectors([-1, -2, -3]).positions, 100),
            "different prompts",
        ),
        (EmbeddingVector("one", (1, 2), pack_floats([1.0])), "the other an embedding"),
    ],
)
def test_what_cannot_be_compared_says_why(
    candidate: LogprobVectors | EmbeddingVector, words: str
) -> None:
    """A sentence, and no number that a gate could take for a pass."""
    found = compare_vectors(vectors([-1, -2, -3]), candidate)
    assert isinstance(found, Incomparable)
    assert words in found.reason


def _listed(asked: int, **rows: float) -> LogprobVectors:
    ids = sorted(int(name[1:]) for name in rows)
    values = [rows[f"t{number}"] for number in ids]
    top = max(ids, key=lambda number: rows[f"t{number}"])
    return LogprobVectors(
        "one", (1,), (5,), (Position(top, pack_floats(values), pack_ids(ids)),), asked
    )


def test_a_token_beyond_the_others_list_is_as_likely_as_its_last() -> None:
    """Top 3 of a large vocabulary: token 9 is at most as likely there as the last one named."""
    found = compare_vectors(_listed(3, t5=-1, t7=-2, t9=-4), _listed(3, t5=-1, t7=-2, t8=-4))
    assert isinstance(found, Alike)
    assert found.cosine == pytest.approx(1)
    assert found.words == "1 positions, the reference's likeliest 3 tokens"


def test_embeddings_are_compared_as_they_are() -> None:
    """No mean is taken off; the source names their size."""
    left = EmbeddingVector("e", (1,), pack_floats([1, 2, 3]))
    right = EmbeddingVector("e", (1,), pack_floats([4, 5, 6]))
    found = compare_vectors(left, right)
    assert isinstance(found, Alike)
    assert found.cosine == pytest.approx(32 / math.sqrt(14 * 77))
    assert found.words == "embedding of 3 numbers"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "is empty"),
        ([1.0], "has 2 numbers, the other 1"),
        ([0.0, 0.0], "all zeros"),
        ([math.nan, 1.0], "no number"),
    ],
)
def test_an_embedding_without_direction_says_why(values: list[float], words: str) -> None:
    """Never a cosine of 0 or 1."""
    left = EmbeddingVector("e", (1,), pack_floats([1, 2]))
    found = compare_vectors(left, EmbeddingVector("e", (1,), pack_floats(values)))
    assert isinstance(found, Incomparable)
    assert words in found.reason
