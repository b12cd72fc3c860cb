"""The events of a stream are cut, doubled, too many, or no events."""

from __future__ import annotations

from tests.servers.strikes.strike import COMPLETION, Exchange, event, strike

DONE = b"data: [DONE]\n\n"


@strike()
def stream_cut_between_events(exchange: Exchange) -> None:
    exchange.stream(exchange.events()[:4])


@strike()
def stream_cut_in_event(exchange: Exchange) -> None:
    events = exchange.events()
    exchange.stream([*events[:3], events[3][:20]])


@strike()
def done_missing(exchange: Exchange) -> None:
    exchange.stream([one for one in exchange.events() if one != DONE])


@strike(COMPLETION, 1)
def stop_twice(exchange: Exchange) -> None:
    events = exchange.objects()
    exchange.say([*events, events[-1]], done=False)


@strike(COMPLETION, 1)
def stop_missing(exchange: Exchange) -> None:
    exchange.say(exchange.objects()[:-1], done=False)


@strike()
def error_in_stream(exchange: Exchange) -> None:
    error = {"error": {"code": 500, "message": "Context size has been exceeded."}}
    exchange.stream([*exchange.events()[:3], event(error)])


@strike()
def event_without_json(exchange: Exchange) -> None:
    exchange.stream([*exchange.events()[:3], b"data: {not json\n\n", DONE])


@strike()
def event_not_utf8(exchange: Exchange) -> None:
    exchange.stream([*exchange.events()[:3], b'data: {"choices": "\xff\xfe"}\n\n', DONE])


@strike()
def event_is_a_list(exchange: Exchange) -> None:
    exchange.stream([*exchange.events()[:3], b"data: [1, 2]\n\n", DONE])


@strike()
def text_is_a_number(exchange: Exchange) -> None:
    exchange.say([*exchange.objects()[:3], {"choices": [{"delta": {"content": 7}}]}])


@strike()
def many_comments(exchange: Exchange) -> None:
    events = exchange.events()
    exchange.stream([*events[:3], b":\n\n" * 100_000, *events[3:]])


@strike()
def lines_end_with_crlf(exchange: Exchange) -> None:
    exchange.stream([one.replace(b"\n", b"\r\n") for one in exchange.events()])


@strike()
def byte_by_byte(exchange: Exchange) -> None:
    body = b"".join(exchange.events())
    exchange.stream(body[i : i + 1] for i in range(len(body)))


def _with_timings(exchange: Exchange, **changed: object) -> None:
    """A chat whose timings say something else."""
    events = exchange.objects()
    for one in events:
        if "timings" in one:
            one["timings"].update(changed)
    exchange.say(events)


@strike()
def count_is_text(exchange: Exchange) -> None:
    _with_timings(exchange, prompt_n="42")


@strike()
def count_is_a_list(exchange: Exchange) -> None:
    _with_timings(exchange, cache_n=[1])


@strike()
def count_is_true(exchange: Exchange) -> None:
    _with_timings(exchange, cache_n=True)


@strike()
def count_is_negative(exchange: Exchange) -> None:
    _with_timings(exchange, cache_n=-1)


@strike()
def count_is_huge(exchange: Exchange) -> None:
    _with_timings(exchange, prompt_n=2**70)


@strike()
def time_is_infinite(exchange: Exchange) -> None:
    events = exchange.events()
    exchange.stream([one.replace(b'"prompt_ms":', b'"prompt_ms":1e400,"was":') for one in events])


@strike()
def cached_and_evaluated_differ(exchange: Exchange) -> None:
    """Fewer evaluated than the prompt has beyond what was cached."""
    _with_timings(exchange, prompt_n=1)
