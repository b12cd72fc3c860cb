"""The events of a stream are cut, doubled, too many, or no events; counts are no counts."""

from __future__ import annotations

from functools import partial

from tests.faults.faulty import fault

_stream = partial(fault, "the stream breaks")
_count = partial(fault, "the counts are none")
_NO_HARM = r"PASS +small"

FAULTS = (
    _stream("stream-cut-between-events", "ends after four events", r"ended before '\[DONE\]'"),
    _stream("stream-cut-in-event", "ends inside an event", "cut in the middle of an event"),
    _stream("done-missing", "ends without [DONE]", r"ended before '\[DONE\]'"),
    _stream("stop-twice", "the last event comes twice", "ended twice"),
    _stream("stop-missing", "no event has stop: true", "ended before an event with 'stop: true'"),
    _stream("error-in-stream", "an error follows three events", "ended the stream with an error"),
    _stream("event-without-json", "an event is cut JSON", "did not answer with JSON"),
    _stream("event-not-utf8", "an event is not UTF-8", "should be a list, got"),
    _stream("event-is-a-list", "an event is a list", "an event should be a JSON object"),
    _stream("text-is-a-number", "an event's text is 7", "'content' should be text, got 7"),
    _stream("many-comments", "100,000 comments between events", _NO_HARM, code=0),
    _stream("lines-end-with-crlf", "lines end with CR and LF", _NO_HARM, code=0),
    _stream("byte-by-byte", "each byte is sent by itself", _NO_HARM, code=0),
    _count("count-is-text", "prompt_n is '42'", "'prompt_n' should be a count, got '42'"),
    _count("count-is-a-list", "cache_n is [1]", r"'cache_n' should be a count, got \[1\]"),
    _count("count-is-true", "cache_n is true", "'cache_n' should be a count, got True"),
    _count("count-is-negative", "cache_n is -1", "'cache_n' should be a count, got -1"),
    _count(
        "count-is-huge",
        "prompt_n is 2 to the 70th",
        "1180591620717411303424 evaluated prompt tokens make .* but the reply counts 199",
    ),
    _count("time-is-infinite", "prompt_ms is 1e400", "did not answer with JSON|should be a number"),
    _count(
        "cached-and-evaluated-differ",
        "cached and evaluated tokens are not the prompt",
        "157 cached and 1 evaluated prompt tokens make 158, but the reply counts 199",
    ),
)
