"""What benchsuite adds to the servers it drives, as a ratio against a floor of the same run.

    python benchmarks/overhead.py [--pairs N] [--variant V]

Records one run of scenarioB as a tape of server commands and requests, then times, in turn,
`benchsuite run scenarioB` and `floor.py` replaying that tape with the standard library. Prints

- the ratio (run - imports) / floor, which should stay below 1.3, where imports is what the import
  of httpx, yaml, msgspec and rich costs a bare interpreter;
- the wall time of one variant and of all of them;
- `benchsuite --help` against `python -c "import click"`, which should stay below 1.5.

All figures are medians over the pairs, after one warm-up of each command.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ENV = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
"""As an installed program runs: its bytecode is kept."""
RUN = [sys.executable, "-m", "benchsuite", "run", "scenarioB", "--quiet"]


def _record_tape(path: Path, extra: Sequence[str]) -> None:
    """Run the scenario once in this process and keep every command and request but /health."""
    from benchsuite.cli.main import run_command_line
    from benchsuite.client.exchange import Exchanges
    from benchsuite.server import launch as launching

    tape: list[dict[str, Any]] = []
    exchange, start = Exchanges.exchange, launching._start

    def recording_start(command: Sequence[str], environment: Any, log: int) -> Any:
        words = list(command)
        words[words.index("--port") + 1] = "{port}"
        tape.append({"command": words, "env": {}, "requests": []})
        return start(command, environment, log)

    @asynccontextmanager
    async def recording_exchange(
        self: Exchanges, method: str, path: str, payload: Any = None, stamps: Any = None
    ) -> AsyncIterator[Any]:
        if path != "/health":
            body = None if payload is None else json.dumps(payload)
            tape[-1]["requests"].append([method, path, body])
        async with exchange(self, method, path, payload, stamps) as response:
            yield response

    Exchanges.exchange = recording_exchange  # type: ignore[method-assign]  # for this tape only
    launching._start = recording_start
    try:
        code = run_command_line(["run", "scenarioB", "--quiet", *extra])
    finally:
        Exchanges.exchange = exchange  # type: ignore[method-assign]  # put back
        launching._start = start
    if code != 0:
        raise SystemExit(f"scenarioB exits with {code}: no tape of a passing run")
    path.write_text(json.dumps(tape))


def _seconds(command: Sequence[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=ENV)
    return time.perf_counter() - started


def _compare(pairs: int, *commands: Sequence[str]) -> list[list[float]]:
    """Seconds of each command, one column a command; the order alternates from pair to pair."""
    for command in commands:
        _seconds(command)  # not counted: fills caches, writes bytecode
    rows: list[list[float]] = []
    for number in range(pairs):
        order = range(len(commands)) if number % 2 == 0 else reversed(range(len(commands)))
        row = [0.0] * len(commands)
        for i in order:
            row[i] = _seconds(commands[i])
        rows.append(row)
    return rows


def _overhead(pairs: int, title: str, extra: Sequence[str], folder: Path) -> None:
    tape = folder / "tape.json"
    out = ["--out", str(folder / "runs")]
    _record_tape(tape, [*extra, *out])
    bare = [sys.executable, "-c", ""]
    imports = [sys.executable, "-c", "import httpx, yaml, msgspec, rich.console"]
    floor = [sys.executable, str(HERE / "floor.py"), str(tape)]
    rows = _compare(pairs, [*RUN, *extra, *out], floor, imports, bare)
    run, least, loaded, empty = (statistics.median(column) for column in zip(*rows, strict=True))
    ratios = [(r[0] - (r[2] - r[3])) / r[1] for r in rows]
    print(
        f"{title}: {run:.2f} s, floor {least:.2f} s, imports {loaded - empty:.2f} s, "
        f"ratio {statistics.median(ratios):.2f} (at most 1.3; {min(ratios):.2f} to "
        f"{max(ratios):.2f} over {pairs} pairs)"
    )


def _help(pairs: int) -> None:
    ours = [sys.executable, "-m", "benchsuite", "--help"]
    rows = _compare(pairs, ours, [sys.executable, "-c", "import click"])
    ratios = [row[0] / row[1] for row in rows]
    ours_s, click_s = (statistics.median(column) for column in zip(*rows, strict=True))
    print(
        f"benchsuite --help: {ours_s * 1000:.0f} ms, import click {click_s * 1000:.0f} ms, "
        f"ratio {statistics.median(ratios):.2f} (at most 1.5)"
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--variant", default="B", help="the one variant that is timed alone")
    options = parser.parse_args()
    os.environ.pop("LLAMA_SERVER_BIN_PATH", None)
    with tempfile.TemporaryDirectory() as name:
        _overhead(options.pairs, "one variant", ["--variant", options.variant], Path(name))
        _overhead(options.pairs, "all variants", [], Path(name))
    _help(options.pairs * 3)


if __name__ == "__main__":
    main()
