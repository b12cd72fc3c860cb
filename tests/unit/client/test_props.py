"""/props of every era: what a build does not tell is None, never 0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchsuite.client.props import Props, parse_props

RECORDED = Path(__file__).parents[2] / "fixtures" / "http"

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["default_generation_settings", "n_ctx", "total_slots", "modalities", "role", "id"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("build", "name"),
    [
        ("b10092", "b1-3ce7da2"),
        ("b10434", "b1-7e4c0a9"),
        ("b11549_embedded", "b0-unknown"),
    ],
)
def test_recorded_builds(build: str, name: str) -> None:
    """Slots, context of one slot, model, what it takes, which endpoints are on."""
    props = parse_props(json.loads((RECORDED / build / "props.json").read_text()))
    assert props == Props(
        build=name,
        total_slots=2,
        n_ctx_slot=512,
        model_path="/models/tiny.gguf",
        model_alias="/models/tiny.gguf",
        model_type="(guessed) F16",
        modalities={"vision": False, "video": False, "audio": False},
        is_sleeping=False,
        slots_enabled=True,
        metrics_enabled=True,
        recognised=True,
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # server.cpp of December 2023
        (
            {
                "user_name": "",
                "assistant_name": "",
                "default_generation_settings": {"n_ctx": 2048, "model": "m.gguf"},
            },
            Props(n_ctx_slot=2048, model_alias="m.gguf", recognised=True),
        ),
        # of February 2024
        (
            {
                "assistant_name": "",
                "default_generation_settings": {"n_ctx": 512, "model": "llama"},
                "total_slots": 4,
            },
            Props(total_slots=4, n_ctx_slot=512, model_alias="llama", recognised=True),
        ),
        # of February 2025
        (
            {
                "default_generation_settings": {"id": 0, "n_ctx": 4096, "params": {}},
                "total_slots": 1,
                "model_path": "/m.gguf",
                "chat_template": "",
                "build_info": "b4750-c392e50",
            },
            Props(
                build="b4750-c392e50",
                total_slots=1,
                n_ctx_slot=4096,
                model_path="/m.gguf",
                recognised=True,
            ),
        ),
        # a router of 11434: its context of 0 and its model are no server's
        (
            {
                "role": "router",
                "model_alias": "llama-server",
                "model_path": "none",
                "default_generation_settings": {"params": {}, "n_ctx": 0},
                "build_info": "b11434-1",
            },
            Props(build="b11434-1", is_router=True, recognised=True),
        ),
        (
            {"total_slots": 0, "default_generation_settings": {"n_ctx": -1}, "build_info": ""},
            Props(recognised=True),
        ),
        (
            {"total_slots": "2", "default_generation_settings": [], "is_sleeping": "no"},
            Props(recognised=True),
        ),
        ({"total_slots": True, "modalities": ["vision"]}, Props(recognised=True)),
        ({"object": "list", "data": []}, Props()),
        ([], Props()),
        (None, Props()),
    ],
)
def test_each_era(body: Any, expected: Props) -> None:
    """Old forms, a router, and answers that are nobody's properties."""
    assert parse_props(body) == expected


@given(JSON)
def test_odd_json_never_raises(body: Any) -> None:
    """And makes neither slots nor context of 0."""
    props = parse_props(body)
    assert props.total_slots != 0
    assert props.n_ctx_slot != 0
