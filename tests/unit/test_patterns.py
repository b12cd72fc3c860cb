"""Regular expressions of users: what can be matched in too many ways ends, and decides nothing."""

from __future__ import annotations

import time

import pytest

from benchsuite import patterns
from benchsuite.errors import ScenarioError
from benchsuite.gate.known_issues import shows
from benchsuite.metrics.select import parse_selector
from benchsuite.model.record import Failure
from benchsuite.patterns import SlowExpressionError, found, problem_of
from benchsuite.scenario.load import parse_scenario

SLOW = "(a|aa)*[bc]"
TEXT = "a" * 64


@pytest.fixture(autouse=True)
def _unspent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "LIMIT_SECONDS", 0.05)
    monkeypatch.setattr(patterns, "_spent", {})


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (SLOW, TEXT),
        ("(?:a{1,900}){1,900}[bc]", "a" * 5000),
        ("(a|ab|b)*[cd]", "ab" * 200),
        ("(.|..)*[xz]", "y" * 3000),
    ],
)
def test_what_can_match_in_too_many_ways_is_given_up_in_time(expression: str, text: str) -> None:
    """With a sentence and what to do; where a plain `re` would not return."""
    began = time.monotonic()
    with pytest.raises(SlowExpressionError, match="too many ways") as caught:
        found(expression, text)
    assert time.monotonic() - began < 20  # years otherwise
    assert caught.value.hint is not None


def test_slow_searches_of_one_expression_share_their_time() -> None:
    """So many texts take no longer than one."""
    with pytest.raises(SlowExpressionError):
        found(SLOW, TEXT)
    began = time.monotonic()
    for _ in range(1000):
        with pytest.raises(SlowExpressionError):
            found(SLOW, TEXT)
    assert time.monotonic() - began < 20


def test_a_busy_machine_makes_no_expression_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only time of the processor counts, and that which a long text explains does not."""
    clock = iter(range(0, 10_000_000, 1000))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    for _ in range(200):
        assert found(".*", "x", whole=True)
    for _ in range(20):
        assert not found("CUDA error", "slot release: id 0 | task 1\n" * 20_000)
    assert patterns._spent == {}


@pytest.mark.parametrize(
    ("expression", "text", "whole", "expected"),
    [
        (r"concat\.cu:\d+: GGML_ASSERT", "x concat.cu:12: GGML_ASSERT(", False, True),
        ("A|B", "AB", True, False),
        ("A|B", "B", True, True),
        ("(?i)cuda.*", "CUDA0", True, True),
        (r"(\w)\1", "aa", True, True),
        ("(?=x)y", "xy", False, False),
    ],
)
def test_expressions_mean_what_they_mean_to_re(
    expression: str, text: str, whole: bool, expected: bool
) -> None:
    """Searched, or held against the whole text."""
    assert problem_of(expression) is None
    assert found(expression, text, whole=whole) is expected


@pytest.mark.parametrize("expression", ["(", "a" * 1001, "[z-a]", "(?P<a>x)(?P<a>y)"])
def test_what_is_no_expression_is_told(expression: str) -> None:
    """Before anything is searched."""
    assert problem_of(expression)


def test_a_selector_that_never_ends_is_a_problem_of_its_line() -> None:
    """Neither selected nor not selected."""
    with pytest.raises(SlowExpressionError):
        parse_selector(f'cached_tokens{{session=~"{SLOW}"}}').matchers[0].accepts(TEXT)
    with pytest.raises(ScenarioError, match=r"s\.yaml:7: selector .* too many ways"):
        parse_scenario(
            f"title: t\nsessions: {{{'a' * 60}: {{}}}}\nsteps:\n"
            f"  - turn: {{session: {'a' * 60}, user: {{text: t}}}}\n"
            f"# the gate\ngates:\n"
            f'  - {{metric: \'cached_tokens{{session=~"{SLOW}",turn="1"}}\', min: 1}}\n',
            display="s.yaml",
        )


def test_a_signature_that_never_ends_excuses_nothing() -> None:
    """A crash is then no known issue."""
    assert not shows(SLOW, Failure(kind="crash", message=TEXT, last_lines=(TEXT,)))
    assert shows("a+", Failure(kind="crash", message=TEXT, last_lines=(TEXT,)))


def test_what_is_nested_too_deeply_is_said_so_and_quoted_in_part() -> None:
    """Not by the words of Python's own limit, nor with all of the selector."""
    assert problem_of("(" * 480 + ")" * 480) == "it is nested too deeply"
    with pytest.raises(ValueError, match="it has 6000 characters, more than 1000") as raised:
        parse_selector('m{a=~"' + "(" * 3000 + ")" * 3000 + '"}')
    assert len(str(raised.value)) < 400
