"""Each measurement of a reply says where it was read."""

from __future__ import annotations

from typing import Any

import pytest

from benchsuite.client.body import ChatParts, completion_reply
from benchsuite.client.reply import Reply, Stamps
from benchsuite.collect.requests import measure_reply

STAMPS = Stamps(scheduled_ns=0, sent_ns=1, first_token_ns=5, last_token_ns=9, end_ns=10)
TIMINGS = {
    "cache_n": 40,
    "prompt_n": 10,
    "prompt_ms": 2.5,
    "predicted_n": 8,
    "predicted_ms": 4.0,
    "predicted_per_second": 2000.0,
}


def _completion() -> Reply:
    final = {"id_slot": 1, "tokens_evaluated": 50, "tokens_predicted": 8, "timings": TIMINGS}
    return completion_reply(final, "text", STAMPS, ())


def _chat(*chunks: dict[str, Any]) -> Reply:
    parts = ChatParts()
    for chunk in chunks:
        parts.take({"choices": [], **chunk})
    return parts.reply(STAMPS, ())


USAGE = {
    "prompt_tokens": 50,
    "completion_tokens": 8,
    "prompt_tokens_details": {"cached_tokens": 40},
}


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (
            _completion(),
            {
                "cached_tokens": "reply timings.cache_n",
                "evaluated_tokens": "reply timings.prompt_n",
                "prompt_tokens": "reply tokens_evaluated",
                "output_tokens": "reply tokens_predicted",
                "slot": "reply id_slot",
                "text": "reply content",
                "ttft_ms": "client clock",
                "e2e_ms": "client clock",
                "tpot_ms": "client clock",
                "server_prefill_ms": "reply timings.prompt_ms",
                "server_decode_ms": "reply timings.predicted_ms",
                "prefill_tokens_per_second": "reply timings.prompt_n / timings.prompt_ms",
                "decode_tokens_per_second": "reply timings.predicted_per_second",
            },
        ),
        (
            _chat({"usage": USAGE}),
            {
                "cached_tokens": "reply usage.prompt_tokens_details.cached_tokens",
                "prompt_tokens": "reply usage.prompt_tokens",
                "output_tokens": "reply usage.completion_tokens",
                "slot": "log print_timing",
            },
        ),
        (
            _chat({"timings": TIMINGS}),
            {
                "cached_tokens": "reply timings.cache_n",
                "prompt_tokens": "reply timings.cache_n + timings.prompt_n",
                "output_tokens": "reply timings.predicted_n",
            },
        ),
    ],
)
def test_every_measurement_names_its_source(reply: Reply, expected: dict[str, str]) -> None:
    """The field of the reply, the log, or our own clock; none is left empty."""
    measured, _ = measure_reply(reply, 1, {"session": "A", "turn": "1"}, "B", 1)
    sources = {m.name: m.source for m in measured}
    assert "" not in sources.values()
    assert "reply" not in sources.values()
    assert {name: sources.get(name) for name in expected} == expected
