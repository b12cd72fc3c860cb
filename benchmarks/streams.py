"""What the benchmarks of the streaming client share: a paced server, and two readers of it."""

from __future__ import annotations

import asyncio
import gc
import json
import selectors
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

from benchsuite.client.api import LlamaClient
from benchsuite.client.reply import Reply
from benchsuite.collect.client_health import ClientHealth, server_cores

SERVER = Path(__file__).parent.parent / "tests" / "servers" / "paced.py"
READERS = ("plain", "ours")
MS = 1_000_000
START_SECONDS = 0.004
"""From one stream's start to the next one's, so that the server reads each request at once: what it
is late by would else count as our error."""


class Load(NamedTuple):
    """What is asked of the server at once."""

    streams: int
    rate: float  # tokens a second of each stream
    staggered: bool
    seconds: float

    @property
    def tokens(self) -> int:
        """Of each stream."""
        return max(8, round(self.rate * self.seconds))

    def fields(self, number: int) -> dict[str, object]:
        """What a request's body says of it."""
        pace = {
            "rate": self.rate, "of": self.streams, "number": number, "staggered": self.staggered
        }  # fmt: skip
        return {"n_predict": self.tokens, "paced": pace}


class OwnHealth(NamedTuple):
    """What our client knows of itself, as a run measures it."""

    held_up: int  # times that bytes were left in a socket since too many waited to be read
    behind_ns: int  # the longest that stamped bytes waited to be looked at
    lag_ms: float | None  # `event_loop_lag_ms`
    cpu_share: float | None  # `client_cpu_share`, of the cores that we may use
    send_late_ns: int  # the most that a request was asked for behind its time (`send_lateness_ms`)


class Seen(NamedTuple):
    """What one reader saw of one load, paired with the server's log by the requests' ids."""

    late_ns: list[int]  # of each token but a stream's first four: arrival stamp - server's stamp
    ttft_error_ns: list[int]  # of each stream: our time to first token - the server's
    cpu_seconds: float
    wall_seconds: float
    tokens: int
    blocked: int  # tokens that the server could not write at once: the reader did not follow
    paced: float  # the rate at which the server wrote, as a share of what was asked for
    behind_ns: int  # how long after the last token had come its reader was through
    health: OwnHealth | None = None  # of ours only


@contextmanager
def paced_server() -> Iterator[str]:
    """The address of a paced server in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def read(url: str, reader: str, load: Load) -> Seen:
    """Drive one load with one reader: `plain`, `ours` or `bare`."""
    gc.collect()
    began, began_ns = time.process_time(), time.monotonic_ns()
    health: OwnHealth | None = None
    if reader == "bare":
        stamps = _bare(url, load)
    elif reader == "plain":
        stamps = asyncio.run(_plain(url, load))
    else:
        stamps, health = asyncio.run(_ours(url, load))
    through_ns = time.monotonic_ns()
    cpu = time.process_time() - began
    log = httpx.get(f"{url}/log", trust_env=False, timeout=60).json()
    late: list[int] = []
    errors: list[int] = []
    for name, (sent_ns, arrived) in stamps.items():
        server = log[name]
        if len(arrived) != len(server["sent_ns"]):
            raise SystemExit(f"{reader}: {len(arrived)} tokens of {len(server['sent_ns'])} seen")
        pairs = list(zip(arrived, server["sent_ns"], strict=True))
        late += [ours - theirs for ours, theirs in pairs[4:]]
        served_ns = server["sent_ns"][0] - server["received_ns"]
        errors.append(arrived[0] - sent_ns - served_ns)
    blocked = sum(one["blocked"] for one in log.values())
    spans = [one["sent_ns"][-1] - one["sent_ns"][0] for one in log.values()]
    paced = (load.tokens - 1) / load.rate / (statistics.median(spans) / 1e9)
    behind_ns = through_ns - max(one["sent_ns"][-1] for one in log.values())
    wall = (through_ns - began_ns) / 1e9
    tokens = load.streams * load.tokens
    return Seen(late, errors, cpu, wall, tokens, blocked, paced, behind_ns, health)


async def _plain(url: str, load: Load) -> dict[str, tuple[int, list[int]]]:
    """A reader as anyone would write it on httpx: it stamps what it has parsed."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)

    async def one(client: httpx.AsyncClient, number: int) -> tuple[int, list[int]]:
        body = {"prompt": "x", "stream": True, **load.fields(number)}
        stamps: list[int] = []
        await asyncio.sleep(number * START_SECONDS)
        sent_ns = time.monotonic_ns()
        headers = {"X-Request-Id": str(number)}
        async with client.stream("POST", "/completion", json=body, headers=headers) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: ") and not json.loads(line[6:])["stop"]:
                    stamps.append(time.monotonic_ns())  # noqa: PERF401  # as anyone writes it
        return sent_ns, stamps

    async with httpx.AsyncClient(
        base_url=url, limits=limits, timeout=60, trust_env=False
    ) as client:
        found = await asyncio.gather(*(one(client, number) for number in range(load.streams)))
    return {str(number): stamps for number, stamps in enumerate(found)}


async def _ours(url: str, load: Load) -> tuple[dict[str, tuple[int, list[int]]], OwnHealth]:
    client = LlamaClient(url)
    sent = through = 0
    watch = ClientHealth(lambda: (sent - through, sent), server_cores())
    began_ns = time.monotonic_ns()

    async def one(number: int) -> Reply:
        nonlocal sent, through
        await asyncio.sleep(number * START_SECONDS)
        sent += 1
        reply = await client.complete("x", load.fields(number), request_id=str(number))
        through += 1
        return reply

    watch.start()
    try:
        replies = await asyncio.gather(*(one(number) for number in range(load.streams)))
        watch.look(0)
    finally:
        watch.stop()
        await client.aclose()
    planned = (began_ns + int(number * START_SECONDS * 1e9) for number in range(load.streams))
    stamps = [reply.stamps for reply in replies]
    health = OwnHealth(
        held_up=sum(one.held_up for one in stamps),
        behind_ns=max(one.behind_ns for one in stamps),
        lag_ms=watch.lag_ms,
        cpu_share=watch.cpu_share,
        send_late_ns=max(one.scheduled_ns - due for one, due in zip(stamps, planned, strict=True)),
    )
    return {
        str(number): (reply.stamps.sent_ns, list(reply.token_ns))
        for number, reply in enumerate(replies)
    }, health


def _bare(url: str, load: Load) -> dict[str, tuple[int, list[int]]]:
    """What the server and the machine cause: sockets that are only read and stamped."""
    selector = selectors.DefaultSelector()
    pieces: list[list[tuple[int, bytes]]] = [[] for _ in range(load.streams)]
    sent = [0] * load.streams
    port = int(url.rsplit(":", 1)[1])
    under_way = waiting = load.streams
    next_ns = time.monotonic_ns()
    while under_way:
        if waiting and time.monotonic_ns() >= next_ns:
            number = load.streams - waiting
            body = json.dumps({"prompt": "x", "stream": True, **load.fields(number)}).encode()
            connection = socket.create_connection(("127.0.0.1", port))
            connection.sendall(
                b"POST /completion HTTP/1.1\r\nHost: x\r\nX-Request-Id: %d\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (number, len(body), body)
            )
            sent[number] = time.monotonic_ns()
            selector.register(connection, selectors.EVENT_READ, number)
            waiting -= 1
            next_ns += int(START_SECONDS * 1e9)
        for key, _ in selector.select(START_SECONDS if waiting else None):
            assert isinstance(key.fileobj, socket.socket)
            came = key.fileobj.recv(65536)
            pieces[key.data].append((time.monotonic_ns(), came))
            if not came or came.endswith(b"0\r\n\r\n"):
                selector.unregister(key.fileobj)
                key.fileobj.close()
                under_way -= 1
    selector.close()
    return {
        str(number): (sent[number], _ends(pieces[number])[: load.tokens])
        for number in range(load.streams)
    }


def _ends(pieces: list[tuple[int, bytes]]) -> list[int]:
    """When the end of each event had come."""
    found: list[int] = []
    before = b""
    for at_ns, content in pieces:
        found += [at_ns] * (before + content).count(b"\n\n")
        before = content[-1:]
    return found


def percentile(values: list[int], share: float) -> float:
    """The value that `share` of them do not exceed, in milliseconds."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] / MS
