"""What the options of `benchsuite ab` make of its two sides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchsuite.errors import UsageError
from benchsuite.pipeline.ab import pairs_ahead, prepare_ab
from benchsuite.pipeline.ab_command import read_ab_options
from benchsuite.scenario.workspace import load_workspace


def _given(**changes: Any) -> dict[str, Any]:
    names = ("deployment", "server", "model")
    given: dict[str, Any] = dict.fromkeys(names)
    given |= {f"{side}_{name}": None for side in ("baseline", "candidate") for name in names}
    given |= {"sets": (), "baseline_set": (), "candidate_set": (), "variants": ("B",)}
    given |= {
        "tolerance": "10%",
        "pairs": None,
        "exact": False,
        "seed": 3,
        "out": None,
        "machine": None,
    }
    return {**given, **changes}


def test_sides_share_what_is_not_their_own() -> None:
    """Servers and flags of their own; variant, seed and common flags the same."""
    found = read_ab_options(
        _given(
            baseline_server="./old",
            candidate_server="./new",
            model="m.gguf",
            sets=("threads=2",),
            candidate_set=("cache-type-k=q8_0",),
        )
    )
    assert (found.baseline.server, found.candidate.server) == ("./old", "./new")
    assert found.baseline.model == found.candidate.model == "m.gguf"
    assert found.baseline.sets == ("threads=2",)
    assert found.candidate.sets == ("threads=2", "cache-type-k=q8_0")
    assert found.baseline.seed == found.candidate.seed == 3
    assert found.baseline.variants == found.candidate.variants == ("B",)


def test_nothing_of_its_own_is_an_a_a_run() -> None:
    """Both sides are the very same."""
    found = read_ab_options(_given(server="embedded"))
    assert found.baseline == found.candidate


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"server": "a", "candidate_server": "b"}, "--server is for both sides"),
        (
            {"sets": ("ctx-size=1",), "baseline_set": ("--ctx_size=2",)},
            "--set ctx-size is for both",
        ),
        ({"tolerance": "ten"}, "--tolerance 'ten' is not a number"),
        ({"tolerance": "5 ms"}, "'5 ms' is not in %"),
        ({"tolerance": "0"}, "expected above 0%"),
        ({"tolerance": "100%"}, "below 100%"),
        ({"tolerance": "nan"}, "is not a number"),
    ],
)
def test_contradictions_are_refused(changes: dict[str, Any], words: str) -> None:
    """A common option and one of a side's own would leave open which counts."""
    with pytest.raises(UsageError, match=words):
        read_ab_options(_given(**changes))


def test_a_tolerance_may_be_given() -> None:
    """With or without its sign."""
    assert read_ab_options(_given(tolerance="7.5%")).rules.latency_percent == 7.5
    assert read_ab_options(_given(tolerance="20")).rules.latency_percent == 20


def test_a_server_that_is_not_there_is_told_with_its_side(tmp_path: Path) -> None:
    """`--server` is what a side's own option becomes; nobody may have typed it."""
    workspace = load_workspace(tmp_path)
    options = read_ab_options(_given(server="embedded", baseline_server=None))
    missing = msgspec.structs.replace(options.baseline, server=str(tmp_path / "none"))
    options = msgspec.structs.replace(options, baseline=missing)
    (scenario,) = workspace.find(["scenarioB"])
    with pytest.raises(UsageError) as caught:
        prepare_ab(workspace, scenario, options, {})
    assert str(caught.value).startswith("baseline side: --server names a file")


@pytest.mark.parametrize(
    ("pair", "planned", "pairs"), [(1, None, 5), (5, None, 5), (6, None, 10), (2, 20, 20)]
)
def test_time_is_told_up_to_the_next_look(pair: int, planned: int | None, pairs: int) -> None:
    """So many pairs come until something may be decided."""
    assert pairs_ahead(pair, planned) == pairs
