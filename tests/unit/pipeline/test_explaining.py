"""Explaining may fail; a run may not lose anything by it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchsuite.errors import ConnectionLostError
from benchsuite.model.record import ServerFacts
from benchsuite.pipeline import driving


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionLostError("the connection broke"), "the connection broke"),
        (IndexError("tuple index out of range"), "tuple index out of range"),
        (TimeoutError(), "the server took longer than 20 s"),
    ],
)
def test_a_fault_becomes_a_warning(
    error: Exception, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the server, of our own, or of time."""

    async def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(driving, "explain_requests", fail)
    watch = cast(Any, SimpleNamespace(asked=[], foreign=False))
    found = asyncio.run(driving.explain(cast(Any, None), watch, None, ServerFacts("binary")))
    assert found.reevaluations == ()
    assert found.warnings == (f"why prompts were evaluated again is not told: {words}",)
