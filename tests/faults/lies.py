"""What the server answers has the right form, and is not true."""

from __future__ import annotations

from functools import partial

from tests.faults.faulty import BEGUN, SCENARIO, fault

_PINNED = SCENARIO.replace("threads: 1", "threads: 1, parallel: 2").replace(
    "complete: {id: R,", "complete: {id: R, slot: 0,"
)
_LOAD = SCENARIO.replace(
    "gates:",
    "  - load: {as: L, requests: 8, concurrency: 2, prompt: {tokens: 16, seed: 5}, max_tokens: 8}\n"
    "gates:\n  - {metric: 'requests_failed{step=\"L\"}', equals: 0}",
)
_NO_HARM = r"PASS +small"
_lie = partial(fault, "the server lies")
_first = partial(_lie, keeps=(*BEGUN, "log"))

FAULTS = (
    _lie(
        "wrong-slot",
        "a completion names another slot than it was pinned to",
        "asked for slot 0, but slot 1",
        scenario=_PINNED,
    ),
    _lie(
        "someone-elses-cache",
        "more is cached than the counters say",
        "counted .* tokens .* the replies",
    ),
    _lie("counters-stand-still", "/metrics never counts", "/metrics counted 0"),
    _first(
        "other-slots-than-asked",
        "/props has 7 slots, 2 were asked for",
        "ignored what it was asked for: parallel: asked for 2 slots, the server has 7",
        scenario=_PINNED,
    ),
    _lie("slots-as-an-object", "/slots, not needed here, is an object", _NO_HARM, code=0),
    _first("ready-while-loading", "/health says ok, all else 503", "Loading model"),
    _lie("fewer-tokens", "3 of 8 tokens", "counted 8 output tokens .* the replies count 3"),
    _lie("no-tokens", "no token", "counted 8 output tokens .* the replies count 0|of 0 generated"),
    _lie("more-tokens", "12 tokens, 8 were asked for", "counted 8 .* the replies count 12"),
    _lie("events-twice", "each event comes twice", "events with text came of 8 generated tokens"),
    _lie(
        "chat-event-twice",
        "one event of a turn comes twice",
        "/v1/chat/completions: 9 events with text came of 8 generated tokens",
    ),
    _lie(
        "chat-events-twice",
        "each event of a turn with text comes twice",
        "/v1/chat/completions: 16 events with text came of 8 generated tokens",
    ),
    _lie(
        "generated-counts-differ",
        "'usage' counts 8 tokens, 'timings' 3",
        "reports 8 generated tokens in 'usage.completion_tokens' and 3 in 'timings.predicted_n'",
    ),
    _lie("events-out-of-order", "the events come from last to first", "they are out of order"),
    _lie("event-of-100-mb", "an event has 100 MB", "larger than 64 MiB"),
    _first(
        "props-name-another-model",
        "/props names a model that it was not started with",
        r"model: asked for tiny-\S+\.gguf, the server has other-7b\.gguf \(/props model_path\)",
    ),
    _lie(
        "last-event-with-text",
        "a completion's last event has text beyond its tokens",
        "9 events with text came of 8 generated tokens",
    ),
    _lie(
        "last-chat-event-with-text",
        "a turn's last event has text beyond its tokens, as held-back text has",
        _NO_HARM,
        code=0,
    ),
    _lie(
        "slot-that-is-not-there",
        "a completion that was pinned to no slot names one that the server does not have",
        "request R: slot 7 served it, but the server has 4 slots",
    ),
    _lie(
        "slots-of-a-load-as-an-object",
        "/slots, read beside a load, is an object",
        _NO_HARM,
        scenario=_LOAD,
        code=0,
    ),
    _lie(
        "lies-without-metrics",
        "more is cached than was left, and /metrics is off",
        r"turn 1 of session A: the log counts 150 evaluated prompt tokens .*, the reply 120",
    ),
    _lie(
        "metrics-as-html",
        "/metrics is an HTML page",
        "/metrics has none of the counters that replies add up to",
        code=0,
    ),
    _lie("data-after-done", "an event follows [DONE]", "an event follows '.DONE.'"),
    _lie("stream-stays-open", "the connection stays open after [DONE]", _NO_HARM, code=0),
    _lie(
        "completion-stays-open",
        "a completion's connection stays open after its last event",
        _NO_HARM,
        code=0,
    ),
)
