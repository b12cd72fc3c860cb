"""The server answers in good form, and not the truth."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

from tests.servers.strikes.streams import DONE
from tests.servers.strikes.strike import CHAT, COMPLETION, Exchange, strike

_MIB = 1024 * 1024


def _final(exchange: Exchange, **changed: object) -> None:
    """A completion whose last event says something else."""
    events = exchange.objects()
    events[-1].update(changed)
    exchange.say(events, done=False)


def _props(exchange: Exchange, **changed: object) -> None:
    _, _, body = exchange.upstream()
    exchange.reply(200, json.dumps({**json.loads(body), **changed}).encode())


@strike(COMPLETION, 1)
def wrong_slot(exchange: Exchange) -> None:
    asked = json.loads(exchange.body).get("id_slot", 0)
    _final(exchange, id_slot=asked + 1)


@strike()
def someone_elses_cache(exchange: Exchange) -> None:
    """More of the prompt is said to have been cached than this session ever sent."""
    _shifted(exchange, 30)


def _shifted(exchange: Exchange, more: int) -> None:
    events = exchange.objects()
    for one in events:
        if "timings" in one:
            one["timings"]["cache_n"] += more
            one["timings"]["prompt_n"] -= more
        details = (one.get("usage") or {}).get("prompt_tokens_details")
        if details:
            details["cached_tokens"] += more
    exchange.say(events)


@strike("/metrics", 0)
def counters_stand_still(exchange: Exchange) -> None:
    exchange.reply(
        200,
        b"llamacpp:prompt_tokens_total 7\nllamacpp:tokens_predicted_total 7\n",
        "text/plain; version=0.0.4",
    )


@strike("/props", 0)
def other_slots_than_asked(exchange: Exchange) -> None:
    _props(exchange, total_slots=7)


@strike("/slots", 0)
def slots_as_an_object(exchange: Exchange) -> None:
    exchange.reply(200, b'{"slots": []}')


@strike(r"(?!/health).*", 0)
def ready_while_loading(exchange: Exchange) -> None:
    exchange.reply(503, b'{"error":{"code":503,"message":"Loading model"}}')


def _counted(exchange: Exchange, count: int, **more: Any) -> None:
    events = exchange.objects()
    events[-1].update(tokens_predicted=count, **more)
    events[-1]["timings"]["predicted_n"] = count
    exchange.say([*events[:-1][:count], events[-1]], done=False)


@strike(COMPLETION, 1)
def fewer_tokens(exchange: Exchange) -> None:
    _counted(exchange, 3)


@strike(COMPLETION, 1)
def no_tokens(exchange: Exchange) -> None:
    _counted(exchange, 0)


@strike(COMPLETION, 1)
def more_tokens(exchange: Exchange) -> None:
    _counted(exchange, 12)


@strike(COMPLETION, 1)
def events_twice(exchange: Exchange) -> None:
    events = exchange.objects()
    exchange.say([one for one in events[:-1] for _ in (1, 2)] + events[-1:], done=False)


def _with_text(objects: list[dict[str, Any]]) -> list[int]:
    """Where the events of a chat with text are."""
    return [
        place
        for place, one in enumerate(objects)
        if one["choices"] and one["choices"][0]["delta"].get("content")
    ]


@strike()
def chat_event_twice(exchange: Exchange) -> None:
    """One of them, which makes one event more than there are tokens."""
    events = exchange.objects()
    place = _with_text(events)[3]
    exchange.say([*events[:place], events[place], *events[place:]])


@strike()
def chat_events_twice(exchange: Exchange) -> None:
    events = exchange.objects()
    twice = _with_text(events)
    exchange.say([one for i, one in enumerate(events) for _ in range(1 + (i in twice))])


@strike()
def generated_counts_differ(exchange: Exchange) -> None:
    """`usage` counts all tokens, `timings` three."""
    events = exchange.objects()
    for one in events:
        if "timings" in one:
            one["timings"]["predicted_n"] = 3
    exchange.say(events)


@strike(COMPLETION, 1)
def events_out_of_order(exchange: Exchange) -> None:
    events = exchange.objects()
    exchange.say([*reversed(events[:-1]), events[-1]], done=False)


@strike()
def event_of_100_mb(exchange: Exchange) -> None:
    with contextlib.suppress(ConnectionError):
        exchange.stream([b'data: {"x": "', *([b"x" * _MIB] * 100), b'"}\n\n', DONE])


@strike()
def data_after_done(exchange: Exchange) -> None:
    events = exchange.events()
    exchange.stream([*events, events[1]])


@strike()
def stream_stays_open(exchange: Exchange) -> None:
    """All was said; the connection does not end."""
    exchange.stream(exchange.events())
    time.sleep(10**6)


@strike(COMPLETION, 1)
def completion_stays_open(exchange: Exchange) -> None:
    exchange.stream(exchange.events())
    time.sleep(10**6)


@strike("/props", 0)
def props_name_another_model(exchange: Exchange) -> None:
    _props(exchange, model_path="/models/other-7b.gguf", model_alias="other-7b")


@strike(COMPLETION, 1)
def last_event_with_text(exchange: Exchange) -> None:
    """After as many events with text as tokens were generated comes more text."""
    _final(exchange, content=" and more")


@strike()
def last_chat_event_with_text(exchange: Exchange) -> None:
    events = exchange.objects()
    last = next(one for one in events if one["choices"] and one["choices"][0]["finish_reason"])
    last["choices"][0]["delta"] = {"content": " and more"}
    exchange.say(events)


@strike(COMPLETION, 1)
def slot_that_is_not_there(exchange: Exchange) -> None:
    _final(exchange, id_slot=7)


@strike("/slots", 0)
def slots_of_a_load_as_an_object(exchange: Exchange) -> None:
    exchange.reply(200, b'{"slots": []}')


@strike(f"/metrics|{CHAT}", 0)
def lies_without_metrics(exchange: Exchange) -> None:
    """Nothing counts beside the replies, and they claim more of the cache than was in it."""
    if exchange.path == "/metrics":
        exchange.reply(501, b'{"error":{"code":501,"message":"off"}}')
    else:
        _shifted(exchange, 30)


@strike("/metrics", 0)
def metrics_as_html(exchange: Exchange) -> None:
    exchange.reply(200, b"<!DOCTYPE html><html><body>Hello</body></html>", "text/html")


@strike("/slots", 0)
def slots_silent(exchange: Exchange) -> None:
    time.sleep(10**6)
