"""The longest common prefix is found whatever the lengths."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from benchsuite.collect.prefix import common_prefix


@given(st.text("ab", max_size=40), st.text("ab", max_size=40))
def test_it_is_that_of_a_walk(one: str, other: str) -> None:
    """For characters and for tokens alike."""
    alike = (a == b for a, b in zip(one, other, strict=False))
    expected = len(list(itertools.takewhile(bool, alike)))
    assert common_prefix(one, other) == expected
    assert common_prefix(tuple(one), tuple(other)) == expected
