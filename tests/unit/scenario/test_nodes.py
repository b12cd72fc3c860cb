"""YAML becomes nodes with lines, scalars stay as written, and hostile files end quickly."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.errors import ScenarioError
from benchsuite.scenario.nodes import Mapping, Scalar, Sequence, parse_nodes, read_nodes


def mapping(text: str) -> dict[str, object]:
    node = parse_nodes(text, "s.yaml")
    assert isinstance(node, Mapping)
    return {key.text: value for key, value in node.pairs}


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(ScenarioError) as caught:
        parse_nodes(text, "s.yaml")
    return caught.value.problems


@pytest.mark.parametrize("word", ["on", "1_000", "0x10", "08", "1e3", "2027-03-01", "yes", "1:30"])
def test_scalars_stay_as_written(word: str) -> None:
    """What YAML would turn into a boolean, number or date keeps its spelling."""
    value = mapping(f"a: {word}")["a"]
    assert isinstance(value, Scalar)
    assert (value.text, value.plain) == (word, True)


def test_quotes_are_remembered() -> None:
    """A quoted scalar is not plain, so a quoted null is text."""
    found = mapping("a: 'null'\nb: null\nc:\nd: \"~\"\n")
    assert [v.is_null for v in found.values() if isinstance(v, Scalar)] == [
        False,
        True,
        True,
        False,
    ]


def test_every_node_knows_its_line() -> None:
    """Lines count from 1, also in nested lists."""
    found = mapping("a: 1\n\nb:\n  - x\n  - {y: z}\n")
    items = found["b"]
    assert isinstance(items, Sequence)
    assert [item.line for item in items.items] == [4, 5]


def test_duplicate_keys_are_all_named_with_the_first_line() -> None:
    """Each duplicate is its own problem, at its own line."""
    assert problems("a: 1\nb: 2\na: 3\nc: {d: 1, d: 2}\n") == (
        "s.yaml:3: duplicate key 'a', first given on line 1",
        "s.yaml:4: duplicate key 'd', first given on line 4",
    )


def test_aliases_are_followed() -> None:
    """An alias stands for what its anchor named."""
    found = mapping("a: &x {k: v}\nb: *x\n")
    assert found["a"] == found["b"]


def test_an_alias_needs_an_anchor_before_it() -> None:
    """Neither an unknown anchor nor a node inside itself can be named."""
    assert "has no anchor" in problems("a: *x\n")[0]
    assert problems("a: &x [*x]\n")[0].startswith("s.yaml:1:")


def test_alias_expansion_is_bounded() -> None:
    """A billion laughs ends with one sentence, not with the memory."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert "aliases expanded" in problems("\n".join(lines))[0]


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 5_000 + "x", "{a: " * 40 + "1" + "}" * 40])
def test_depth_is_bounded(text: str) -> None:
    """Nesting that could exhaust the stack is refused."""
    assert "s.yaml:1:" in problems(text)[0]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "s.yaml:1: is empty; a scenario has at least 'steps'"),
        ("# only a comment\n", "s.yaml:1: is empty; a scenario has at least 'steps'"),
        ("a:\n\tb: 1\n", "s.yaml:2: a tab in the indentation; YAML takes only spaces"),
        (
            "a:\n  \tb: 1\n\tc: 2\n",
            "s.yaml:2: a tab in the indentation (and on 1 more lines); YAML takes only spaces",
        ),
        ("a: 1\n---\nb: 2\n", "s.yaml:2: a second document; a scenario file holds one"),
        (
            "a: !!python/name:os.system x\n",
            "s.yaml:1: tag 'tag:yaml.org,2002:python/name:os.system'",
        ),
        ("? [a]\n: 1\n", "s.yaml:1: a key must be a word, not a list or mapping"),
        ("a: [1\nb: 2\n", "s.yaml:"),
        ("a: b: c\n", "s.yaml:1: is not YAML"),
        ("a: \x07\n", "s.yaml:1: is not YAML"),
    ],
)
def test_broken_files_name_line_and_reason(text: str, sentence: str) -> None:
    """Each kind of broken file gives one sentence."""
    assert problems(text)[0].startswith(sentence)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A folder, a missing file, a large one and one that is not UTF-8 are told apart."""
    large = tmp_path / "large.yaml"
    large.write_bytes(b"a: " + b"x" * 10_000_000)
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"a: 1\nb: \xe9\n")
    expected = {
        tmp_path: "s: is a folder; name a scenario file in it",
        tmp_path / "none.yaml": "s: no such file",
        large: "s: is larger than 1 MiB, the limit of a scenario file",
        latin: "s:2: is not UTF-8 text",
    }
    for path, sentence in expected.items():
        with pytest.raises(ScenarioError) as caught:
            read_nodes(path, "s")
        assert caught.value.problems == (sentence,)


@given(st.text(alphabet=st.sampled_from("ab:-[]{}&*!|>'\"#%,? \n\t0\x00é"), max_size=80))
def test_any_text_gives_nodes_or_problems(text: str) -> None:
    """No text makes the reader fail in another way."""
    named: tuple[str, ...] = ()
    try:
        parse_nodes(text, "s.yaml")
    except ScenarioError as error:
        named = error.problems
    assert all(problem.startswith("s.yaml:") for problem in named)
