"""What the server answers is no answer, or breaks HTTP."""

from __future__ import annotations

from functools import partial

from tests.faults.faulty import BEGUN, fault

_answers = partial(fault, "the server answers wrongly")
_BEGUN = (*BEGUN, "log")
_first = partial(fault, "the server answers wrongly", keeps=_BEGUN)
_http = partial(fault, "the server breaks HTTP")

FAULTS = (
    partial(_first, keeps=BEGUN)(
        "loading-for-ever",
        "/health answers 503 for ever",
        ("not healthy within 2 s", "--start-limit"),
        "--start-limit",
        "2",
    ),
    _answers("busy-once", "a turn is answered with 503", "answered 503: Loading model"),
    _first("slots-busy", "every turn is answered with 503", "answered 503: no slot is free"),
    _answers("internal-error", "a turn is answered with 500", "answered 500: Compute error"),
    _answers("no-such-endpoint", "/completion is answered with 404", "answered 404: File Not"),
    _answers("too-many-requests", "a turn is answered with 429", "answered 429: slow down"),
    _answers("error-without-json", "502 with an HTML page", "answered 502 with text/html"),
    _first("malformed-json", "/props has two commas", "/props did not answer with JSON"),
    _first("cut-json", "/props ends half-way", "/props did not answer with JSON"),
    _first("nan-literal", "/props has NaN and Infinity", "/props did not answer with JSON"),
    _first("deep-json", "/props is 100,000 objects deep", "/props did not answer with JSON"),
    _first("list-for-object", "/props is a list", "/props should be a JSON object"),
    _first("html-page", "/props is an HTML page", "/props did not answer with JSON"),
    _answers(
        "html-for-stream",
        "a turn is answered with an HTML page",
        "expected a stream of events, got text/html",
    ),
    _answers("empty-body", "a turn's stream is empty", "the stream ended before"),
    _answers(
        "wrong-content-type",
        "a turn's stream says that it is text/plain",
        "expected a stream of events, got text/plain",
    ),
    _first("huge-body", "/props has 100 MiB", "/props: the answer is larger than 64 MiB"),
    _first("endless-body", "/props never ends", "/props: the answer is larger than 64 MiB"),
    _first("gzip-bomb", "/props has 512 MiB in 2 MiB of gzip", "/props.*larger than|compress"),
    _answers("redirect", "a turn redirects to another address", "redirects .307. to"),
    _first("redirect-of-props", "/props redirects to another host", "redirects .302. to"),
    _http("body-too-short", "the body is shorter than Content-Length", "the connection broke"),
    _http(
        "body-too-long",
        "the body is longer than Content-Length",
        "cut in the middle of an event|the stream ended before|the connection broke",
    ),
    _http("broken-chunks", "a chunk's size is no number", "the connection broke"),
    _http("no-last-chunk", "the last chunk never comes", "the connection broke"),
    _http("garbage-for-http", "the answer is no HTTP", "the connection broke"),
    _http("header-of-a-megabyte", "a header has 1 MB", "the connection broke"),
    _http("reset-before-headers", "the connection is reset unanswered", "the connection broke"),
    _http("reset-after-headers", "the connection is reset after the head", "the connection broke"),
    _http("closed-before-headers", "the connection is closed unanswered", "the connection broke"),
    _http(
        "informational-for-ever",
        "1xx answers without end, and no answer",
        "request.*limit|limit.*request",
        "--request-limit",
        "2",
    ),
    _http(
        "two-answers",
        "each /tokenize is answered twice on its connection",
        r"PASS +small",
        code=0,
    ),
)
