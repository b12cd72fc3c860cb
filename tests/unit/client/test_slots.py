"""/slots of every era: old and new field names, and counts only while they mean something."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from benchsuite.client.slots import Slot, parse_slots
from tests.unit.client.test_props import JSON

RECORDED = Path(__file__).parents[2] / "fixtures" / "http"
BUILDS = ("b10092", "b10434", "b11549_embedded")


def _recorded(build: str, name: str) -> tuple[Slot, ...]:
    slots = parse_slots(json.loads((RECORDED / build / name).read_text()))
    assert slots is not None
    return slots


@pytest.mark.parametrize("build", BUILDS)
def test_fresh_slots_have_no_counts(build: str) -> None:
    """Before the first request a slot tells its size and nothing else."""
    assert _recorded(build, "slots_idle.json") == (
        Slot(0, n_ctx=512, is_busy=False, is_speculative=False),
        Slot(1, n_ctx=512, is_busy=False, is_speculative=False),
    )


@pytest.mark.parametrize("build", BUILDS)
def test_a_busy_slot_tells_its_prompt(build: str) -> None:
    """159 of 160 prompt tokens were cached; the slot beside it is idle and its counts stale."""
    idle, busy = _recorded(build, "slots_busy.json")
    assert (busy.is_busy, busy.cached_tokens, busy.evaluated_tokens) == (True, 159, 1)
    assert busy.held_tokens is not None
    assert busy.output_tokens is not None
    assert busy.held_tokens - busy.output_tokens in (159, 160)  # the last is not yet decoded
    assert idle.is_busy is False
    assert idle.task is not None
    assert idle.held_tokens == 182
    assert (idle.cached_tokens, idle.evaluated_tokens) == (None, None)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # server.cpp of March to October 2024
        (
            {
                "n_ctx": 2048,
                "id": 0,
                "id_task": -1,
                "state": 0,
                "prompt": None,
                "next_token": {"has_next_token": True, "n_remain": -1, "n_decoded": 0},
            },
            Slot(0, n_ctx=2048, is_busy=False, output_tokens=0),
        ),
        (
            {"id": 1, "task_id": 7, "state": 1, "n_ctx": 2048, "prompt": "Say hello", "n_past": 31},
            Slot(1, n_ctx=2048, is_busy=True, task=7, held_tokens=31),
        ),
        ({"id": 0, "state": 3}, Slot(0, is_busy=True)),  # October 2024: generating
        ({"id": 0, "state": 0, "cache_tokens": [1, 2, 3]}, Slot(0, is_busy=False, held_tokens=3)),
        ({"id": 0, "state": 0, "cache_tokens": 9}, Slot(0, is_busy=False, held_tokens=9)),
        # February 2025
        (
            {
                "id": 0,
                "id_task": 12,
                "n_ctx": 4096,
                "speculative": False,
                "is_processing": True,
                "non_causal": False,
                "prompt": "x",
                "next_token": {"has_next_token": True, "n_decoded": 8},
            },
            Slot(0, 4096, is_busy=True, task=12, output_tokens=8, is_speculative=False),
        ),
        ({"id": 0, "is_processing": True, "next_token": []}, Slot(0, is_busy=True)),
        ({"id": "a", "state": "idle", "n_ctx": 0}, Slot(0)),
    ],
)
def test_each_era(body: dict[str, Any], expected: Slot) -> None:
    """Old field names mean what the new ones do; what is odd is unknown."""
    assert parse_slots([body]) == (expected,)


@pytest.mark.parametrize("body", [None, {}, {"error": {}}, "x", 3, [1], [{}], [{"id": 0}, None]])
def test_what_is_no_list_of_slots(body: Any) -> None:
    """It is not taken for a server without slots."""
    assert parse_slots(body) is None


@given(JSON)
def test_odd_json_never_raises(body: Any) -> None:
    """Whatever is sent."""
    parse_slots(body)
    parse_slots([body])
