"""Fuzzes every reader of outside data: scenario files, logs, SSE, replies, journals, baselines,
selectors, and beside them model files and help texts.

    python -m benchmarks.fuzz --cases 1000000 --seed 1

Cases are shared evenly among the seven parsers, and within one among its targets; `others` come on
top and are not counted. Each finding is written to a folder, input and traceback; a finding that
was mended goes into `tests/fuzz/corpus/TARGET/` under a name that says what it was. Exit code 1
where anything was found.
"""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.fuzz.engine import Tally, fuzz
from tests.fuzz.targets import PARSERS, TARGETS, Target

_CHUNK = 5_000
_MEMORY_BYTES = 4 * 1024**3
"""Address space of a worker: who asks for more gets a MemoryError, which is a finding."""


class _Chunk(NamedTuple):
    target: str
    first: int
    cases: int
    seed: int


def main() -> int:
    """Fuzz, print a table, and tell by the exit code whether anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000_000, help="over the seven parsers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parser", action="append", help="only this parser or target; repeatable")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(".benchsuite/fuzz"))
    given = parser.parse_args()
    chosen = [
        target
        for target in TARGETS
        if not given.parser or {target.name, target.parser} & set(given.parser)
    ]
    chunks = list(_chunks(chosen, given.cases, given.seed))
    with ProcessPoolExecutor(given.jobs, initializer=_limit_memory) as pool:
        told: dict[str, list[Tally]] = {target.name: [] for target in chosen}
        for chunk, tally in zip(chunks, pool.map(_work, chunks), strict=True):
            told[chunk.target].append(tally)
            for finding in tally.findings:
                given.out.mkdir(parents=True, exist_ok=True)
                (given.out / finding.name).write_bytes(finding.data)
                (given.out / f"{finding.name}.txt").write_text(finding.trace)
                print(f"found {finding.name}: {finding.how}", flush=True)
    return _print_table(chosen, told)


def _chunks(targets: list[Target], cases: int, seed: int) -> Iterator[_Chunk]:
    share = -(-cases // len(PARSERS))
    for target in targets:
        among = sum(1 for one in TARGETS if one.parser == target.parser)
        own = -(-share // among)
        for first in range(0, own, _CHUNK):
            yield _Chunk(target.name, first, min(_CHUNK, own - first), seed)


def _work(chunk: _Chunk) -> Tally:
    target = next(one for one in TARGETS if one.name == chunk.target)
    return fuzz(target, chunk.cases, chunk.seed, first=chunk.first)


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))


def _print_table(targets: list[Target], told: dict[str, list[Tally]]) -> int:
    print("| parser | target | cases | went wrong | slowest case, ms | cases a second |")
    print("|---|---|---:|---:|---:|---:|")
    total = wrong = 0
    for target in targets:
        tallies = told[target.name]
        cases = sum(tally.cases for tally in tallies)
        bad = sum(tally.wrong for tally in tallies)
        seconds = sum(tally.seconds for tally in tallies)
        slowest = max(tally.slowest_ms for tally in tallies)
        rate = cases / seconds if seconds else 0.0
        print(f"| {target.parser} | {target.name} | {cases} | {bad} | {slowest:.0f} | {rate:.0f} |")
        wrong += bad
        if target.parser in PARSERS:
            total += cases
    print(f"{total} cases over the parsers {', '.join(PARSERS)}; {wrong} of all went wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
