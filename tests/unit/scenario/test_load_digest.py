"""The digest of a load step that says nothing new is what it was before there was more to say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from benchsuite.model.load import Arrivals, Length, Think
from benchsuite.model.scenario import LoadStep, PromptSpec, RequestSpec
from benchsuite.scenario.digest import digest_of

PLAIN = LoadStep("many", 8, 2, PromptSpec(tokens=40, seed=3))
FULL = LoadStep(
    "many",
    8,
    2,
    PromptSpec(tokens=40, seed=3),
    PromptSpec(text="x"),
    same=True,
    max_tokens=4,
    request=RequestSpec(cache_prompt=False),
    warm_up=2,
)


@pytest.mark.parametrize(
    ("step", "digest"),
    [
        (PLAIN, "97776837afda07fed7dc50635729c717f10f030908dfad5edb97b20333d77113"),
        (FULL, "57b9f7ff6d8d154b107a4393eb2a6166aa24a8e7600bc31605cc297c7e47d218"),
    ],
)
def test_old_steps_keep_their_digests(step: LoadStep, digest: str) -> None:
    """As written by the version that knew closed loops of equal lengths only."""
    assert digest_of({}, {}, {}, (step,)) == digest


@pytest.mark.parametrize(
    "changed",
    [
        {"duration": 5.0},
        {"arrivals": Arrivals("constant", 10)},
        {"in_flight": 3},
        {"think": Think("fixed", 1)},
        {"turns": 2},
        {"prefix_share": 0.5},
        {"prompt_tokens": Length("uniform", 1, 9)},
        {"output_tokens": Length("uniform", 1, 9)},
        {"distinct": 4},
        {"api": "chat"},
        {"timeout": 1.0},
        {"warm_up_seconds": 1.0},
        {"seed": 1},
    ],
)
def test_what_changes_the_measurement_changes_the_digest(changed: dict[str, Any]) -> None:
    """Each of the later keys does."""
    step = msgspec.structs.replace(PLAIN, **changed)
    assert digest_of({}, {}, {}, (step,)) != digest_of({}, {}, {}, (PLAIN,))
