"""Token counts of every endpoint, streamed and not, recorded and old."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchsuite.client.counts import read_counts
from benchsuite.client.sse import EventReader
from benchsuite.errors import ServerLiedError

RECORDED = Path(__file__).parents[2] / "fixtures" / "http"
BUILDS = ("b10092", "b10434", "b11549_embedded")
_IN_USAGE = "usage.prompt_tokens_details.cached_tokens"


def _body(path: Path) -> dict[str, Any]:
    """A reply's object; of a stream, what its events add up to."""
    if path.suffix == ".json":
        body: dict[str, Any] = json.loads(path.read_text())
        return body
    merged: dict[str, Any] = {}
    for event in EventReader().feed(path.read_bytes()):
        if event.data != "[DONE]":
            merged |= json.loads(event.data)
    return merged


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(
    ("name", "prompt", "source"),
    [
        ("completion.json", 160, "tokens_evaluated"),
        ("completion_stream.txt", 160, "tokens_evaluated"),
        ("v1_completion.json", 160, "usage.prompt_tokens"),
        ("v1_completion_stream.txt", 160, "usage.prompt_tokens"),
        ("v1_completion_stream_usage.txt", 160, "usage.prompt_tokens"),
        ("chat.json", 179, "usage.prompt_tokens"),
        ("chat_stream.txt", 179, "timings.cache_n + timings.prompt_n"),
        ("chat_stream_usage.txt", 179, "usage.prompt_tokens"),
    ],
)
def test_recorded_replies(build: str, name: str, prompt: int, source: str) -> None:
    """An exact repeat: all but one prompt token cached, four generated, wherever it is told."""
    counts = read_counts(_body(RECORDED / build / name), name)
    assert (counts.prompt, counts.cached, counts.evaluated) == (prompt, prompt - 1, 1)
    assert counts.output == 4
    assert counts.sources["cached"] == "timings.cache_n"
    assert counts.sources["evaluated"] == "timings.prompt_n"
    assert counts.sources["prompt"] == source


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # /completion before September 2025: what is cached is not told, tokens_cached is not it
        (
            {
                "tokens_cached": 57,
                "tokens_evaluated": 50,
                "tokens_predicted": 8,
                "timings": {"prompt_n": 10, "predicted_n": 8},
            },
            (50, None, 10, 8),
        ),
        # chat before: usage without details
        (
            {
                "usage": {"prompt_tokens": 50, "completion_tokens": 8},
                "timings": {"prompt_n": 10, "prompt_ms": 2.5},
            },
            (50, None, 10, 8),
        ),
        # a chat of 2024 has no timings at all
        ({"usage": {"prompt_tokens": 50, "completion_tokens": 8}}, (50, None, None, 8)),
        # a proxy that leaves the OpenAI fields
        (
            {
                "usage": {
                    "prompt_tokens": 50,
                    "completion_tokens": 8,
                    "prompt_tokens_details": {"cached_tokens": 40},
                }
            },
            (50, 40, None, 8),
        ),
        ({"usage": None, "timings": None}, (None, None, None, None)),
        ({"usage": {"prompt_tokens_details": None}, "timings": {}}, (None, None, None, None)),
        ({}, (None, None, None, None)),
    ],
)
def test_each_era(body: dict[str, Any], expected: tuple[int | None, ...]) -> None:
    """What an era does not send is unknown, not 0."""
    counts = read_counts(body, "a reply")
    assert (counts.prompt, counts.cached, counts.evaluated, counts.output) == expected


def test_cached_tokens_of_usage_alone_say_so() -> None:
    """The source is named."""
    body = {"usage": {"prompt_tokens_details": {"cached_tokens": 0}}}
    counts = read_counts(body, "a reply")
    assert counts.cached == 0
    assert counts.sources == {"cached": _IN_USAGE}


@pytest.mark.parametrize(
    "body",
    [
        {"usage": []},
        {"usage": {"prompt_tokens": "9"}},
        {"timings": {"cache_n": -1}},
        {"timings": {"cache_n": 1}, "usage": {"prompt_tokens_details": {"cached_tokens": 2}}},
        {"timings": {"predicted_n": 3}, "usage": {"completion_tokens": 16}},
        {"timings": {"predicted_n": 3}, "tokens_predicted": 16},
    ],
)
def test_odd_counts_are_a_lie(body: dict[str, Any]) -> None:
    """Counts are measured, so a wrong type or a contradiction is an error."""
    with pytest.raises(ServerLiedError):
        read_counts(body, "a reply")
