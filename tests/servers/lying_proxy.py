"""The embedded server behind a proxy that lies in one way, as a faulty server would.

    lying_proxy.py LIE [llama-server's flags]

copy          the last of several completions says something else
evaluates     each of several completions is asked for by itself, and evaluated by itself
leak          a reply ends with the one before it, of another conversation
excess        replies with cached tokens claim 7 more of them
refuses       every fifth raw completion is answered with 500
grows         every raw completion leaves 1 MiB behind that is never freed
fills         every raw completion leaves 1 MiB behind, until 16 MiB are full
empty         chats say nothing of what they were told
tells         every raw completion ends with a secret
dies          aborts as soon as two requests are under way
large         300 MiB are taken before the first request
neighbour     a prompt of token ids is answered by what another that is under way put at its places
honest        nothing

Counters would give most of these away at once, so /metrics is off, as without `--metrics`.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2])]

from tests.servers.hidden import start_hidden  # noqa: E402

REFUSED_EVERY = 5
EXTRA_CACHED = 7
FULL = 16
ASSERTION = "/src/llama-kv-cache.cpp:77: GGML_ASSERT(n_seqs == 1) failed"
_MIB = 1024 * 1024
TOGETHER_SECONDS = 0.1


class Lies:
    """What was seen so far, and what is made of it."""

    def __init__(self, lie: str) -> None:
        self.lie = lie
        self._lock = threading.Lock()
        self._said = ""
        self._asked = 0
        self._under_way = 0
        self._prompts: list[list[int]] = []
        self._kept: list[bytes] = [os.urandom(300 * _MIB)] if lie == "large" else []

    def keep(self) -> None:
        """Hold on to 1 MiB more, where that is the lie."""
        with self._lock:
            if self.lie == "grows" or (self.lie == "fills" and len(self._kept) < FULL):
                self._kept.append(os.urandom(_MIB))

    def begin(self) -> bool:
        """Count a request that generates; whether that is the end of the server."""
        with self._lock:
            self._under_way += 1
            return self.lie == "dies" and self._under_way > 1

    def end(self) -> None:
        """Such a request is over."""
        with self._lock:
            self._under_way -= 1

    def refuse(self) -> bool:
        """Whether this request is refused."""
        with self._lock:
            self._asked += 1
            return self.lie == "refuses" and self._asked % REFUSED_EVERY == 0

    def read_neighbour(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The request, with the tokens that another one under way has at the same places.

        As a slot would that reads another's cells: only the last token is its own.
        """
        prompt = asked.get("prompt")
        if self.lie != "neighbour" or not isinstance(prompt, list):
            return asked
        with self._lock:
            self._prompts.append(prompt)
        time.sleep(TOGETHER_SECONDS)  # those that were sent at once are all here by then
        with self._lock:
            others = [other for other in self._prompts if other is not prompt]
        time.sleep(TOGETHER_SECONDS)  # and none of them has left
        with self._lock:
            self._prompts = [other for other in self._prompts if other is not prompt]
        if not others:
            return asked
        place = len(prompt) - 1
        return {**asked, "prompt": [*others[0][:place], *prompt[len(others[0][:place]) :]]}

    def twist(self, body: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
        """One event of a reply, changed; `state` is the reply's own."""
        if self.lie == "copy" and body.get("index") == state.get("last") and body.get("content"):
            body["content"] = body["content"].upper()
        if self.lie == "excess":
            self._more_cached(body)
        if self.lie == "leak":
            self._leak(body, state)
        if self.lie == "tells" and "choices" not in body and body.get("content"):
            body["content"] += " bebo"
        for choice in body.get("choices") or [] if self.lie == "empty" else []:
            if (choice.get("delta") or {}).get("content"):
                choice["delta"]["content"] = "#"
        return body

    @staticmethod
    def _more_cached(body: dict[str, Any]) -> None:
        timings = body.get("timings") or {}
        if timings.get("cache_n", 0) and timings["prompt_n"] > EXTRA_CACHED:
            timings["cache_n"] += EXTRA_CACHED
            timings["prompt_n"] -= EXTRA_CACHED
            details = (body.get("usage") or {}).get("prompt_tokens_details")
            if details:
                details["cached_tokens"] += EXTRA_CACHED
        details = (body.get("usage") or {}).get("prompt_tokens_details")
        if details and not timings and details["cached_tokens"]:
            details["cached_tokens"] += EXTRA_CACHED

    def _leak(self, body: dict[str, Any], state: dict[str, Any]) -> None:
        for choice in body.get("choices") or []:
            delta = choice.get("delta") or {}
            state["said"] = state.get("said", "") + (delta.get("content") or "")
            if choice.get("finish_reason"):
                with self._lock:
                    delta["content"] = self._said
                    self._said = state["said"]
                choice["delta"] = delta


def relay(lies: Lies, host: str, port: int) -> type[BaseHTTPRequestHandler]:  # noqa: C901  # one class
    """A handler that passes requests on to a server and twists what comes back."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"  # a connection a request

        def do_GET(self) -> None:
            self._pass_on(None)

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length", "0"))
            self._pass_on(self.rfile.read(size))

        def _pass_on(self, content: bytes | None) -> None:
            if self.path == "/metrics":
                self._answer(501, b'{"error":{"code":501,"message":"off"}}')
                return
            generates = self.path in ("/completion", "/v1/chat/completions")
            if self.path == "/completion":
                lies.keep()
            if self.path == "/completion" and lies.refuse():
                self._answer(500, b'{"error":{"code":500,"message":"no","type":"server_error"}}')
                return
            asked = json.loads(content) if content else {}
            copies = asked.get("n_cmpl", 1)
            if self.path == "/completion":
                content = json.dumps(lies.read_neighbour(asked)).encode()
            if lies.lie == "evaluates" and copies > 1:
                self._separately(asked, copies)
                return
            if generates and lies.begin():
                os.write(2, ASSERTION.encode() + b"\n")
                os.killpg(0, signal.SIGABRT)
            try:
                upstream = self._ask(content)
            except ConnectionRefusedError:  # not listening yet
                self.close_connection = True
                return
            reply = upstream.getresponse()
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.getheader("Content-Type") or "")
            self.end_headers()
            if generates and reply.status == 200:
                self._relay_events(reply, {"last": copies - 1} if copies > 1 else {})
            else:
                self.wfile.write(reply.read())
            upstream.close()
            if generates:
                lies.end()

        def _separately(self, asked: dict[str, Any], copies: int) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for index in range(copies):
                one = {**asked, "n_cmpl": 1, "cache_prompt": False}
                upstream = self._ask(json.dumps(one).encode())
                for line in upstream.getresponse():
                    if line.startswith(b"data: {"):
                        body = {**json.loads(line[6:]), "index": index}
                        self.wfile.write(b"data: " + json.dumps(body).encode() + b"\n\n")
                upstream.close()

        def _ask(self, content: bytes | None) -> http.client.HTTPConnection:
            upstream = http.client.HTTPConnection(host, port, timeout=60)
            headers = {
                name: value
                for name, value in self.headers.items()
                if name.lower() in ("authorization", "content-type")
            }
            upstream.request(self.command, self.path, content, headers)
            return upstream

        def _relay_events(self, reply: http.client.HTTPResponse, state: dict[str, Any]) -> None:
            for line in reply:
                if line.startswith(b"data: {"):
                    body = lies.twist(json.loads(line[6:]), state)
                    line = b"data: " + json.dumps(body).encode() + b"\n"  # noqa: PLW2901
                self.wfile.write(line)

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name there
            pass

    return Handler


def main() -> None:
    """Start the server on a port of its own, and relay until told to leave."""
    server, port, outer = start_hidden(sys.argv[2:])
    proxy = ThreadingHTTPServer(("127.0.0.1", outer), relay(Lies(sys.argv[1]), "127.0.0.1", port))

    def leave(number: int, frame: object) -> None:
        server.terminate()
        sys.exit(server.wait())

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    sys.exit(server.wait())


if __name__ == "__main__":
    main()
