"""How fast a log is read, against a bare loop over the same file in the same run.

    python benchmarks/log_reader.py [--mib N] [--rounds N] [--verbosity N] [FILE]

Without FILE a real server's log is made first: twelve conversations over four slots, at `-lv 4`,
its serving part repeated until it is N MiB (1024) long. Prints, in MB/s and as medians over the
rounds, after one that fills the page cache:

- `LogReader`, fed 1 MiB at a time, to the end;
- a loop over the lines of the file, as bytes and as text, that counts those with `KV`;
- `grep -c KV`, where there is one.

Exits with 1 if the reader takes more than twice as long as the loop over bytes. That loop is the
measure since both read bytes; the loop over text is faster on plain ASCII, and printed too.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

LIMIT = 2.0
SESSIONS, SLOTS, TURNS = 12, 4, 48


def _bytes_loop(path: Path) -> int:
    with path.open("rb") as file:
        return sum(b"KV" in line for line in file)


def _text_loop(path: Path) -> int:
    with path.open(encoding="utf-8", errors="replace") as file:
        return sum("KV" in line for line in file)


def _grep(path: Path) -> int:
    found = subprocess.run(["grep", "-c", "KV", path], capture_output=True, check=False)
    return int(found.stdout)


def _reader(path: Path) -> int:
    from benchsuite.logform.reader import LogReader

    reader = LogReader()
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(1024 * 1024):
            reader.feed(chunk)
    return reader.finish().requests


def _make_log(folder: Path, verbosity: int) -> bytes:
    """The log of a real server that has served 48 turns and was stopped."""
    from benchsuite.client.api import LlamaClient
    from benchsuite.collect.log_follower import LogFollower
    from benchsuite.pipeline.driving import wait_for
    from benchsuite.server.guard import Guard
    from benchsuite.server.launch import launch
    from benchsuite.server.locate import locate
    from benchsuite.server.tiny_model import tiny_model, tiny_words

    path = folder / "server.log"
    flags = [
        "--ctx-size",
        "16384",
        "--parallel",
        str(SLOTS),
        "--threads",
        "1",
        "-lv",
        str(verbosity),
    ]
    with Guard() as guard:
        server = launch(
            locate(None, None, os.environ),
            flags,
            model=str(tiny_model()),
            log_path=path,
            env={},
            guard=guard,
        )

        async def healthy() -> None:
            client = LlamaClient(server.url, api_key=server.api_key)
            await wait_for(server, client, LogFollower(path), 60)
            await client.aclose()

        def talk(session: int) -> None:
            messages: list[dict[str, Any]] = [{"role": "system", "content": tiny_words(7, 100)}]
            headers = {
                "Authorization": f"Bearer {server.api_key}",
                "Content-Type": "application/json",
            }
            for turn in range(TURNS // SESSIONS):
                content = tiny_words(100 * session + turn, 30).strip()
                messages.append({"role": "user", "content": content})
                body = json.dumps({"messages": messages, "max_tokens": 16, "temperature": 0})
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
                connection.request("POST", "/v1/chat/completions", body, headers)
                answer = json.loads(connection.getresponse().read())
                connection.close()
                messages.append(answer["choices"][0]["message"])

        try:
            asyncio.run(healthy())
            with ThreadPoolExecutor(SLOTS) as pool:
                list(pool.map(talk, range(SESSIONS)))
        finally:
            server.stop(10)
    return path.read_bytes()


def _lengthen(log: bytes, mib: int, path: Path) -> None:
    """Write the log with its serving part repeated."""
    served = log.find(b"processing task")
    start = log.rfind(b"\n", 0, served) + 1
    end = log.rfind(b"\n", 0, log.rfind(b"eval time")) + 1
    body = log[start:end]
    with path.open("wb") as file:
        file.write(log[:start])
        for _ in range(max(1, (mib * 1024 * 1024 - len(log)) // len(body) + 1)):
            file.write(body)
        file.write(log[end:])


def _seconds(read: Callable[[Path], int], path: Path) -> float:
    started = time.perf_counter()
    read(path)
    return time.perf_counter() - started


def main() -> int:
    """Make the log, time every reader in turn, print, and say whether the limit holds."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("file", nargs="?", type=Path)
    options.add_argument("--mib", type=int, default=1024)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--verbosity", type=int, default=4)
    given = options.parse_args()
    readers: dict[str, Callable[[Path], int]] = {
        "LogReader": _reader,
        "loop over bytes": _bytes_loop,
        "loop over text": _text_loop,
    }
    if shutil.which("grep"):
        readers["grep -c"] = _grep
    with tempfile.TemporaryDirectory() as name:
        path = given.file or Path(name, "long.log")
        if given.file is None:
            _lengthen(_make_log(Path(name), given.verbosity), given.mib, path)
        for read in readers.values():
            read(path)
        taken: dict[str, list[float]] = {label: [] for label in readers}
        for number in range(given.rounds):
            order = list(readers) if number % 2 == 0 else list(reversed(readers))
            for label in order:
                taken[label].append(_seconds(readers[label], path))
        size_mb = path.stat().st_size / 1e6
        requests = _reader(path)
    print(f"{size_mb:.0f} MB, {requests} requests, {given.rounds} rounds, {os.cpu_count()} cores")
    medians = {label: statistics.median(times) for label, times in taken.items()}
    for label, median in medians.items():
        ratio = medians["LogReader"] / median
        print(f"{label:16} {size_mb / median:7.0f} MB/s   reader/this {ratio:5.2f}")
    ratio = medians["LogReader"] / medians["loop over bytes"]
    print(
        f"{ratio:.2f} of the loop over bytes, limit {LIMIT}: {'ok' if ratio <= LIMIT else 'SLOW'}"
    )
    return 0 if ratio <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
