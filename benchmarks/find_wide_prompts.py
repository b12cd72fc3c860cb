"""Find prompts on which the tiny model never nearly ties, and write them down with their texts.

    python benchmarks/find_wide_prompts.py [--server PATH] [--tries N]

Asks a real server for the greedy text of one seeded prompt after the other, with the logprobs of
the top two at every generated token, and keeps the prompts whose smallest gap is widest. Tests of
equal text across server settings use them: on such a prompt a difference is a fault, not a tie.
Run it again whenever the tiny model's bytes change.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchsuite.server.tiny_model import TINY_SHA256, tiny_model, tiny_words

_FIXTURE = Path(__file__).parents[1] / "tests" / "fixtures" / "tiny_prompts.json"
_START_LIMIT_S = 60.0
_REQUEST_LIMIT_S = 60.0


def main() -> None:
    """Search, print how it went, and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--server", help="a llama-server binary; default: the embedded server")
    parser.add_argument("--tries", type=int, default=1000, help="seeds to try, from 0")
    parser.add_argument("--keep", type=int, default=40, help="prompts to keep, the widest first")
    parser.add_argument("--words", type=int, default=150, help="words in a prompt")
    parser.add_argument("--tokens", type=int, default=24, help="tokens to generate")
    parser.add_argument("--least-gap", type=float, default=0.1, help="in logprob")
    parser.add_argument("--out", type=Path, default=_FIXTURE)
    asked = parser.parse_args()

    command = (
        [asked.server] if asked.server else [sys.executable, "-m", "benchsuite.server.embedded"]
    )
    found: list[dict[str, Any]] = []
    with _launched(command) as port:
        for seed in range(asked.tries):
            text, gap = _generate(port, tiny_words(seed, asked.words), asked.tokens)
            if gap >= asked.least_gap:
                found.append({"seed": seed, "gap": round(gap, 3), "text": text})
    print(f"{len(found)} of {asked.tries} prompts have gaps of {asked.least_gap} or more")
    found.sort(key=lambda prompt: (-prompt["gap"], prompt["seed"]))
    kept = sorted(found[: asked.keep], key=lambda prompt: prompt["seed"])
    if len(kept) < asked.keep:
        sys.exit(f"{asked.keep} were wanted: give more --tries")
    print(f"the {asked.keep} kept have gaps of {min(prompt['gap'] for prompt in kept)} or more")
    content = {
        "model_sha256": TINY_SHA256,
        "words": asked.words,
        "tokens": asked.tokens,
        "prompts": kept,
    }
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"written to {asked.out}")


@contextlib.contextmanager
def _launched(command: list[str]) -> Iterator[int]:
    """The port of a server of the tiny model, stopped at the end whatever happens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    flags = ["-m", str(tiny_model()), "--host", "127.0.0.1", "--port", str(port)]
    flags += ["-c", "2048", "-np", "1", "--fit", "off", "--cache-ram", "0"]
    environment = dict(os.environ)
    if len(command) == 1:  # a binary may keep its libraries beside it
        environment["LD_LIBRARY_PATH"] = str(Path(command[0]).resolve().parent)
    server = subprocess.Popen(
        command + flags, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    try:
        limit = time.monotonic() + _START_LIMIT_S
        while not _healthy(port):
            if server.poll() is not None:
                sys.exit(f"the server ended with {server.returncode} before it was healthy")
            if time.monotonic() > limit:
                sys.exit(f"the server was not healthy within {_START_LIMIT_S:g} s")
            time.sleep(0.01)
        yield port
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _healthy(port: int) -> bool:
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_REQUEST_LIMIT_S)
        with contextlib.closing(connection):
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
    return False


def _generate(port: int, prompt: str, tokens: int) -> tuple[str, float]:
    """The greedy text after a cold prompt, and the smallest gap between its top two logprobs."""
    body: dict[str, Any] = {
        "prompt": prompt,
        "n_predict": tokens,
        "temperature": 0,
        "n_probs": 2,
        "cache_prompt": False,
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_REQUEST_LIMIT_S)
    with contextlib.closing(connection):
        connection.request(
            "POST", "/completion", json.dumps(body), {"Content-Type": "application/json"}
        )
        reply = json.load(connection.getresponse())
    gaps = []
    for token in reply["completion_probabilities"]:
        first, second = token["top_logprobs"]
        gaps.append(first["logprob"] - second["logprob"])
    if len(gaps) != tokens:
        sys.exit(f"{len(gaps)} tokens were generated where {tokens} were asked for")
    return reply["content"], min(gaps)


if __name__ == "__main__":
    main()
