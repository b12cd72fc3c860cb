"""The server tells the client's key, in each form that it could have, wherever it can."""

from __future__ import annotations

import base64
import json
import os
import urllib.parse
from typing import Any

from tests.servers.strikes.strike import CHAT, COMPLETION, Exchange, event, strike


def _key(exchange: Exchange) -> str:
    return (exchange.key or "").removeprefix("Bearer ")


def told(key: str) -> str:
    """A key in every form, as text."""
    basic = base64.b64encode(f"me:{key}".encode()).decode()
    bare = base64.b64encode(key.encode()).decode()
    quoted = urllib.parse.quote(key, safe="")
    return (
        f"{key} http://h/x?k={quoted} http://h/{quoted.lower()} http://me:{quoted}@h/ "
        f"Authorization: Basic {basic} Bearer {bare} {json.dumps(key)} {key!r} {key.encode()!r} "
        f"{_unicode(key)} {json.dumps(json.dumps(key))}"
    )


def _unicode(key: str) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in key)


def _error(key: str, code: int = 500) -> dict[str, Any]:
    return {"error": {"code": code, "message": f"bad key {told(key)}", "type": f"t {told(key)}"}}


@strike()
def key_in_error(exchange: Exchange) -> None:
    exchange.reply(500, json.dumps(_error(_key(exchange))).encode())


@strike()
def key_in_long_error(exchange: Exchange) -> None:
    text = f"{_key(exchange)} " * 200
    exchange.reply(500, json.dumps({"error": {"code": 500, "message": text}}).encode())


@strike("/props", 1)
def key_in_refusal(exchange: Exchange) -> None:
    exchange.reply(401, json.dumps(_error(_key(exchange), 401)).encode())


@strike()
def key_in_page(exchange: Exchange) -> None:
    page = f"<html><body>{told(_key(exchange))}</body></html>"
    exchange.reply(502, page.encode(), "text/html")


@strike("/props", 1)
def key_in_no_json(exchange: Exchange) -> None:
    exchange.reply(200, b'{"a": "' + _unicode(_key(exchange)).encode() + b'", ,}')


@strike()
def key_in_header(exchange: Exchange) -> None:
    key = _key(exchange)
    exchange.head(500, f'text/html; key="{key}"', f"X-Key: {told(key)}", "Content-Length: 0")


@strike()
def key_in_broken_header(exchange: Exchange) -> None:
    exchange.send(f"HTTP/1.1 200 OK\r\n{_key(exchange)}\r\n\r\n".encode())


@strike()
def key_in_status(exchange: Exchange) -> None:
    exchange.send(f"HTTP/1.1 599 {_key(exchange)}\r\nContent-Length: 0\r\n\r\n".encode())


@strike("/props", 1)
def key_in_no_http(exchange: Exchange) -> None:
    exchange.send(f"{_key(exchange)}\r\n\r\n".encode())


@strike()
def key_in_redirect(exchange: Exchange) -> None:
    place = f"http://127.0.0.2:9/?key={urllib.parse.quote(_key(exchange), safe='')}"
    exchange.head(307, "text/plain", f"Location: {place}", "Content-Length: 0")


@strike()
def key_in_stream_error(exchange: Exchange) -> None:
    error = _error(_key(exchange))
    exchange.stream([*exchange.events()[:3], event(error)])


@strike()
def key_in_no_event(exchange: Exchange) -> None:
    words = f"data: {{{_key(exchange)} {_unicode(_key(exchange))}\n\n"
    exchange.stream([*exchange.events()[:3], words.encode()])


@strike(CHAT, 0)
def key_in_text(exchange: Exchange) -> None:
    key = told(_key(exchange))
    objects = exchange.objects()
    for one in objects:
        one.update(id=key, model=key, system_fingerprint=key)
        for choice in one.get("choices", ()):
            if choice.get("delta", {}).get("content"):
                choice["delta"]["content"] = key
    exchange.say(objects)


@strike(f"{CHAT}|{COMPLETION}", 0)
def key_in_pieces(exchange: Exchange) -> None:
    pieces = iter(_pieces(_key(exchange), 6))
    objects = exchange.objects()
    for one in objects:
        if one.get("content"):
            one["content"] = next(pieces, "")
        for choice in one.get("choices", ()):
            if choice.get("delta", {}).get("content"):
                choice["delta"]["content"] = next(pieces, "")
    exchange.say(objects, done=exchange.path != COMPLETION)


def _pieces(key: str, count: int) -> list[str]:
    size = -(-len(key) // count)
    return [key[at : at + size] for at in range(0, len(key), size)]


@strike("/props", 0)
def key_in_props(exchange: Exchange) -> None:
    _, _, body = exchange.upstream()
    exchange.reply(200, json.dumps(_filled(json.loads(body), told(_key(exchange)))).encode())


@strike("/props", 0)
def key_across_a_cut(exchange: Exchange) -> None:
    """Of a message that quotes the first 80 characters of an answer."""
    exchange.reply(200, f"{'x' * 55}{_key(exchange)}".encode())


@strike()
def key_across_the_cut_of_a_value(exchange: Exchange) -> None:
    objects = exchange.objects()
    for one in objects:
        if "timings" in one:
            one["timings"]["prompt_n"] = f"{'x' * 30}{_key(exchange)}"
    exchange.say(objects)


@strike("/slots", 0)
def key_in_slots(exchange: Exchange) -> None:
    _, _, body = exchange.upstream()
    exchange.reply(200, json.dumps(_filled(json.loads(body), told(_key(exchange)))).encode())


def _filled(value: Any, text: str) -> Any:
    """The same with a text in every text, and one field more."""
    if isinstance(value, dict):
        return {**{name: _filled(one, text) for name, one in value.items()}, text: text}
    if isinstance(value, list):
        return [_filled(one, text) for one in value]
    return f"{value}{text}" if isinstance(value, str) else value


@strike("/metrics", 0)
def key_in_metrics(exchange: Exchange) -> None:
    _, _, body = exchange.upstream()
    key = _key(exchange)
    label = json.dumps(key)
    more = f"# HELP x {key}\nllamacpp:x{{key={label}}} 1\nllamacpp:{key} {key}\n"
    exchange.reply(200, body + more.encode(), "text/plain")


@strike("/tokenize|/v1/models|/apply-template", 0)
def key_in_other_answers(exchange: Exchange) -> None:
    exchange.reply(500, json.dumps(_error(_key(exchange))).encode())


@strike()
def logged_key(exchange: Exchange) -> None:
    key = _key(exchange)
    lines = [
        f"0.00.000.001 E srv  operator(): got exception: {told(key)}",
        f"0.00.000.002 W slot update_slots: id  0 | task 0 | {told(key)}",
        f"0.00.000.003 I slot update_slots: id  0 | task 0 | n_past = 3, {key * 20}",
        f"/a/{key}/b.cpp:12: GGML_ASSERT({key}) failed",
        f"error: {key} {key}",
    ]
    os.write(2, "".join(f"{line}\n" for line in lines).encode())
    exchange.reply(500, json.dumps(_error(key)).encode())
