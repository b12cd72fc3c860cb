"""Argument lists with placeholders."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from benchsuite.scenario.templates import (
    PLACEHOLDERS,
    fill,
    fill_text,
    placeholders,
    template_problems,
)

TEXTS = {"host": "127.0.0.1", "port": "8123", "name": "benchsuite-1", "key_env": "LLAMA_API_KEY"}


def test_placeholders_are_filled_in_also_within_words() -> None:
    """`{flags}` becomes as many words as there are flags."""
    words = ["docker", "-p", "{host}:{port}:8080", "-e", "{key_env}", "image", "{flags}"]
    assert fill(words, TEXTS, ["--parallel", "2"]) == (
        *("docker", "-p", "127.0.0.1:8123:8080", "-e", "LLAMA_API_KEY", "image"),
        *("--parallel", "2"),
    )


def test_no_flags_leave_no_word() -> None:
    """An empty word would be an argument of its own."""
    assert fill(["a", "{flags}", "b"], TEXTS, []) == ("a", "b")


def test_other_braces_are_left_alone() -> None:
    """Engines and shells have templates of their own."""
    words = ["--format", "{{json .State}}", "{1,2}", "${HOME}x", "{}"]
    assert list(placeholders(words)) == []
    assert fill(words, TEXTS, []) == tuple(words)


def test_what_is_filled_in_is_not_filled_again() -> None:
    """A flag or model whose text looks like a placeholder stays as it is."""
    assert fill(["{flags}"], TEXTS, ["{port}"]) == ("{port}",)
    assert fill_text("{name}", {"name": "{port}", "port": "1"}) == "{port}"


def test_problems_name_the_nearest_placeholder() -> None:
    """Unknown ones, those that are not known at that place, and `{flags}` within a word."""
    assert template_problems(["{prot}"], ("port", "name")) == [
        "unknown placeholder '{prot}'; did you mean 'port'? (placeholders: port, name)"
    ]
    assert "'{model}' is not known here" in template_problems(["{model}"], ("name",))[0]
    (alone,) = template_problems(["--x={flags}"], tuple(PLACEHOLDERS))
    assert "must stand alone" in alone


@given(st.lists(st.text(alphabet="ab-={}/ ", min_size=1)))
def test_words_without_known_placeholders_come_out_as_they_went_in(words: list[str]) -> None:
    """Whatever braces they hold."""
    assert fill(words, TEXTS, ["x"]) == tuple(words)
