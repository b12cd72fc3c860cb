#!/usr/bin/env python3
"""A fake llama-server that answers at once, for what only many thousand requests show.

It takes llama-server's flags and speaks its HTTP as far as benchsuite asks: /health, /props,
/slots, /metrics, /tokenize, /completion and /v1/chat/completions, both streamed. A token is a word.
`FAST_SERVER` in the environment says how it behaves, as words of the form NAME=NUMBER:

leak_kib         keeps so many KiB of each completion for ever, every page of them touched
cache_mib        keeps up to so many MiB, evenly over the first `cache_requests` completions
cache_requests   see there
stall_after      answers /slots and /metrics no more after so many completions
stall_seconds    for so long only
service_ms       a completion keeps one of `--parallel` places for so long; others wait their turn
slower_percent   by so much less speed is told in each reply per 1,000 completions
"""

# ruff: noqa: T201  # a program prints

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import sys
import time
import zlib
from typing import Any

HELP = """--model FNAME
--ctx-size N
--parallel N
--host HOST
--port PORT
--metrics
--slots
--cache-ram N
--threads N
--batch-size N
--n-gpu-layers N
--log-verbosity N
--fit MODE
--slot-save-path PATH
--seed N
"""
_PAGE = 4096
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
_STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def options(text: str) -> dict[str, float]:
    """What `FAST_SERVER` says."""
    return {name: float(value) for name, _, value in (w.partition("=") for w in text.split())}


def held(kib: float) -> bytearray:
    """Memory that is really there: each page has a byte written."""
    kept = bytearray(int(kib * 1024))
    for place in range(0, len(kept), _PAGE):
        kept[place] = 1
    return kept


def words(text: str) -> list[int]:
    """One token id a word."""
    return [2 + zlib.crc32(word.encode()) % 30_000 for word in text.split()]


class State:
    """What the server counts and keeps."""

    def __init__(self, slots: int, context: int, told: dict[str, float]) -> None:
        self.slots = slots
        self.context = context
        self.told = told
        self.served = 0
        self.evaluated = 0
        self.predicted = 0
        self.kept: list[bytearray] = []
        self.stalled_at: float | None = None
        self.places = asyncio.Semaphore(slots)
        self.waiting: set[asyncio.Task[None]] = set()

    @property
    def is_stalled(self) -> bool:
        """Whether /slots and /metrics are answered no more."""
        after = self.told.get("stall_after")
        if after is None or self.served < after:
            return False
        now = time.monotonic()
        self.stalled_at = now if self.stalled_at is None else self.stalled_at
        return now - self.stalled_at < self.told.get("stall_seconds", math.inf)

    def complete(self, prompt: str, predict: int) -> dict[str, Any]:
        """Count one completion, keep what is leaked of it, and say what its last event says."""
        evaluated = len(words(prompt)) + 1
        predicted = max(1, predict)
        self.served += 1
        self.evaluated += evaluated
        self.predicted += predicted
        if self.told.get("leak_kib"):
            self.kept.append(held(self.told["leak_kib"]))
        of_cache = self.told.get("cache_requests", 0)
        if self.served <= of_cache:
            self.kept.append(held(self.told.get("cache_mib", 0) * 1024 / of_cache))
        speed = 1000.0 * (1 - self.told.get("slower_percent", 0) / 100) ** (self.served / 1000)
        return {
            "tokens_evaluated": evaluated,
            "tokens_predicted": predicted,
            "id_slot": self.served % self.slots,
            "timings": {
                "cache_n": 0,
                "prompt_n": evaluated,
                "prompt_ms": 0.1,
                "predicted_n": predicted,
                "predicted_ms": predicted / speed * 1000,
                "predicted_per_second": speed,
            },
        }


class Connection(asyncio.Protocol):
    """One connection: requests are answered in order, each in one write."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._read = b""
        self._out: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._out = transport

    def data_received(self, data: bytes) -> None:
        self._read += data
        while (end := self._read.find(b"\r\n\r\n")) >= 0:
            head = self._read[:end]
            size = 0
            for line in head.split(b"\r\n")[1:]:
                if line[:15].lower() == b"content-length:":
                    size = int(line[15:])
            if len(self._read) < end + 4 + size:
                return
            body = self._read[end + 4 : end + 4 + size]
            self._read = self._read[end + 4 + size :]
            self._answer(head.split(b" ", 2)[1].decode(), body)

    def _answer(self, path: str, body: bytes) -> None:
        state, path = self._state, path.partition("?")[0]
        if path in ("/slots", "/metrics") and state.is_stalled:
            return
        if path == "/metrics":
            self._send(_metrics(state).encode(), b"text/plain")
        elif path in ("/completion", "/v1/chat/completions"):
            self._stream(path, json.loads(body))
        else:
            asked = json.loads(body) if body else {}
            self._send(json.dumps(_plain(state, path, asked)).encode(), b"application/json")

    def _send(self, content: bytes, kind: bytes) -> None:
        if self._out is not None:
            self._out.write(_ANSWER % (kind, len(content)) + content)

    def _stream(self, path: str, asked: dict[str, Any]) -> None:
        is_chat = path != "/completion"
        text = asked.get("prompt", "")
        if is_chat:
            text = " ".join(str(one.get("content")) for one in asked["messages"])
        last = self._state.complete(text, asked.get("max_tokens" if is_chat else "n_predict", 16))
        events: list[Any] = []
        if is_chat:
            said: dict[str, Any] = {
                "choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]
            }
            events += [said] * last["tokens_predicted"]
            end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
            usage = {
                "prompt_tokens": last["tokens_evaluated"],
                "completion_tokens": last["tokens_predicted"],
                "prompt_tokens_details": {"cached_tokens": 0},
            }
            events += [end, {"choices": [], "usage": usage, "timings": last["timings"]}]
        else:
            said = {"content": "word ", "stop": False, "id_slot": -1, "tokens": []}
            events += [said] * last["tokens_predicted"]
            events.append({"content": "", "stop": True, "stop_type": "limit", **last})
        chunks = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]
        if is_chat:
            chunks.append(b"data: [DONE]\n\n")
        framed = [b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks]
        whole = b"".join([_STREAM, *framed, b"0\r\n\r\n"])
        service_ms = self._state.told.get("service_ms")
        if service_ms:
            task = asyncio.ensure_future(self._in_turn(whole, service_ms / 1000))
            self._state.waiting.add(task)
            task.add_done_callback(self._state.waiting.discard)
        elif self._out is not None:
            self._out.write(whole)

    async def _in_turn(self, content: bytes, seconds: float) -> None:
        """Answer once a place was free and kept for so long."""
        async with self._state.places:
            await asyncio.sleep(seconds)
        if self._out is not None:
            self._out.write(content)


def _plain(state: State, path: str, asked: dict[str, Any]) -> Any:
    if path == "/props":
        settings = {"n_ctx": state.context // state.slots}
        return {
            "total_slots": state.slots,
            "default_generation_settings": settings,
            "build_info": "b0-fast",
            "model_path": text_flag("--model", "fast.gguf"),
            "is_sleeping": False,
        }
    if path == "/slots":
        size = state.context // state.slots
        return [
            {"id": i, "n_ctx": size, "is_processing": False, "id_task": state.served}
            for i in range(state.slots)
        ]
    if path == "/tokenize":
        ids = words(asked.get("content", ""))
        if asked.get("add_special"):
            ids.insert(0, 1)
        if asked.get("with_pieces"):
            return {"tokens": [{"id": i, "piece": "word"} for i in ids]}
        return {"tokens": ids}
    if path == "/apply-template":
        return {"prompt": " ".join(str(one.get("content")) for one in asked["messages"])}
    return {"status": "ok"}


def _metrics(state: State) -> str:
    figures = {
        "prompt_tokens_total": state.evaluated,
        "prompt_tokens_cached_total": 0,
        "tokens_predicted_total": state.predicted,
        "n_decode_total": state.predicted,
        "requests_processing": 0,
        "requests_deferred": 0,
        "n_busy_slots_per_decode": 1,
    }
    return "".join(f"llamacpp:{name} {value:.6g}\n" for name, value in figures.items())


def flag(name: str, default: int) -> int:
    """The number behind a flag of the command line."""
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else default


def text_flag(name: str, default: str) -> str:
    """The text behind a flag of the command line."""
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


async def serve() -> None:
    """Listen until told to leave."""
    slots = max(1, flag("--parallel", 4))
    state = State(slots, flag("--ctx-size", 4096), options(os.environ.get("FAST_SERVER", "")))
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    server = await loop.create_server(
        lambda: Connection(state), "127.0.0.1", flag("--port", 8080), backlog=512
    )
    await stopped.wait()
    server.close()


def main() -> None:
    """Say what a server says when asked, else serve."""
    if "--help" in sys.argv:
        print(HELP)
    elif "--list-devices" in sys.argv:
        print("Available devices:\n  (none)")
    elif "--version" in sys.argv:
        print("version: 0 (fast)")
    else:
        asyncio.run(serve())


if __name__ == "__main__":
    main()
