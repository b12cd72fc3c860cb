"""Readers of outside data read anything or refuse it in words: what was once found, and a share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchsuite.errors import ScenarioError
from benchsuite.metrics.select import format_series, parse_selector
from benchsuite.scenario.load import parse_scenario
from tests.fuzz.engine import check_case, fuzz
from tests.fuzz.targets import CORPUS, PARSERS, TARGETS, Target

SHARE = int(os.environ.get("BENCHSUITE_FUZZ_CASES", "1500"))
"""Cases of the engine over all targets; `python -m benchmarks.fuzz` runs a million."""
BY_NAME = {target.name: target for target in TARGETS}
KEPT = sorted(path for path in CORPUS.glob("*/*") if path.is_file())

quickly = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def test_every_parser_has_a_target() -> None:
    """The parsers that the million is counted over are all fuzzed."""
    assert set(PARSERS) <= {target.parser for target in TARGETS}


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_was_once_found_is_mended(path: Path, tmp_path: Path) -> None:
    """Inputs that once raised, hung or changed are read, or refused in words."""
    finding = check_case(BY_NAME[path.parent.name], path.read_bytes(), tmp_path)
    assert finding is None, finding.trace


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_share_of_the_million(target: Target) -> None:
    """Mutations of good inputs are read, or refused in words and in time."""
    tally = fuzz(target, max(1, SHARE // len(TARGETS)), seed=7)
    assert not tally.findings, "\n".join(one.trace for one in tally.findings)


def test_the_engine_finds_what_is_wrong(tmp_path: Path) -> None:
    """A check that raises, or takes too long, is a finding: the engine can fail."""

    def raises(data: bytes, folder: Path) -> None:
        raise KeyError("lost")

    def spins(data: bytes, folder: Path) -> None:
        while True:
            pass

    target = TARGETS[0]._replace(check=raises)
    assert fuzz(target, 3, seed=1).wrong == 3
    found = check_case(target, b"x", tmp_path)
    assert found is not None
    assert found.how.startswith("KeyError at test_fuzz.py")
    slow = check_case(target._replace(check=spins), b"x", tmp_path)
    assert slow is not None
    assert slow.how.startswith("TooLongError")


def test_cases_repeat(tmp_path: Path) -> None:
    """The same seed and number make the same case, whatever was made before."""
    from tests.fuzz.engine import make_case, seeds_of

    for target in TARGETS:
        seeds = seeds_of(target)
        assert make_case(target, seeds, 3, 11) == make_case(target, seeds, 3, 11)


# by hypothesis: what it finds, it makes small


@quickly
@given(data=st.binary(max_size=300))
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_any_bytes_are_read_or_refused(target: Target, data: bytes, tmp_path: Path) -> None:
    """Bytes of no form at all raise nothing but refusals."""
    finding = check_case(target, data, tmp_path)
    assert finding is None, finding.trace


_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["turn", "load", "A", "B", "1", "tokens", "5 MiB", "100%", "baseline"]),
)
_WORDS = (
    "title server sessions steps variants gates prompts known_issues tags turn complete load "
    "session prompt metric equals max flags x"
)
_KEYS = st.sampled_from(_WORDS.split())
_TREES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_KEYS, inner, max_size=5)),
    max_leaves=25,
)


@quickly
@given(tree=st.dictionaries(_KEYS, _TREES, max_size=8))
def test_any_tree_is_a_scenario_or_has_problems_with_lines(tree: dict[str, object]) -> None:
    """Mappings that only look like scenarios are refused at file:line."""
    import yaml

    text = yaml.safe_dump(tree, allow_unicode=True)
    try:
        parse_scenario(text)
    except ScenarioError as error:
        assert all(problem.startswith("scenario.yaml:") for problem in error.problems)


@quickly
@given(
    labels=st.dictionaries(
        st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True), st.text(), max_size=4
    )
)
def test_series_survive_being_written_and_read(labels: dict[str, str]) -> None:
    """A series as text selects that series and no other value of a label."""
    selector = parse_selector(format_series("kv_mib", labels))
    assert selector.accepts("kv_mib", labels)
    for label in labels:
        assert not selector.accepts("kv_mib", {**labels, label: labels[label] + "x"})
