"""/health of every era."""

from __future__ import annotations

from typing import Any

import pytest

from benchsuite.client.health import Health, parse_health


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"status": "ok"}, Health("ready")),
        ({"status": "ok", "slots_idle": 1, "slots_processing": 3}, Health("ready", 1, 3)),
        ({"status": "no slot available", "slots_idle": 0}, Health("ready", 0)),
        ({"status": "loading model"}, Health("loading")),
        ({"error": {"message": "Loading model", "code": 503}}, Health("loading")),
        ({"status": "error"}, Health("unknown")),
        ({"status": "UP"}, Health("unknown")),
        ({}, Health("unknown")),
        ([1], Health("unknown")),
        (None, Health("unknown")),
        ({"error": "Loading"}, Health("unknown")),
    ],
)
def test_each_body(body: Any, expected: Health) -> None:
    """Ready, loading, or nothing that llama-server says."""
    assert parse_health(body) == expected
