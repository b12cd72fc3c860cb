"""A build newer than the tested ones is told apart."""

from __future__ import annotations

import pytest

from benchsuite.logform.builds import TESTED_BUILDS, beyond_tested


@pytest.mark.parametrize("build", [None, "", "b0-unknown", "unknown", "b10434-7e4c0a9", "11549"])
def test_tested_older_and_unnumbered_builds_give_no_sentence(build: str | None) -> None:
    """Older forms are all known; a build without a number tells nothing."""
    assert beyond_tested(build) is None


def test_a_newer_build_is_named_with_the_newest_tested() -> None:
    """So that a reader of the message knows how far apart they are."""
    assert tuple(sorted(TESTED_BUILDS)) == TESTED_BUILDS
    sentence = beyond_tested("b99999-abcdef0")
    assert sentence is not None
    assert "b99999" in sentence
    assert str(TESTED_BUILDS[-1]) in sentence
