"""Verdicts of `benchsuite ab scenarioB` on a real server: of equal builds, and of slowed ones.

    python benchmarks/ab_real.py [--verdicts 40] [--times 3] [--only aa|threads|ubatch|kv]
                                 [--server PATH] [--variant V]... [--scenario NAME]

First so many A/A verdicts, the same server on both sides: none may fail; inconclusive ones are
counted apart, and are what a busy machine gives. Then each planted regression so many times: it
must fail, and by the metrics that it slows or enlarges. Exits 1 where a verdict is false or a
regression was not found. Meant for a machine that does nothing else: an hour or so on two cores.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

LATENCY = frozenset({"ttft_ms", "prefill_tokens_per_second", "decode_tokens_per_second"})


class Planted(NamedTuple):
    """A regression of the candidate."""

    words: str
    flags: tuple[str, ...]  # of the candidate
    blamed: frozenset[str]  # at least one of these must fail, and nothing else


PLANTED = {
    "threads": Planted("--threads 1", ("threads=1",), LATENCY),
    "ubatch": Planted(
        "--ubatch-size 8", ("ubatch-size=8",), LATENCY - {"decode_tokens_per_second"}
    ),
    "kv": Planted(
        "KV in F32 instead of F16",
        ("cache-type-k=f32", "cache-type-v=f32", "flash-attn=off"),
        frozenset({"kv_mib"}),
    ),
}
# flash attention casts F32 to F16 as it reads, so it is off where KV is F32, on both sides
BASELINE_FLAGS = {"kv": ("flash-attn=off",)}


class Seen(NamedTuple):
    """One verdict."""

    outcome: str
    code: int
    pairs: int
    seconds: float
    failed: frozenset[str]  # metrics
    largest: str  # the largest change of a latency metric, in words


def verdict(folder: Path, options: Sequence[str]) -> Seen:
    """Run `benchsuite ab` once."""
    command = [sys.executable, "-m", "benchsuite", "ab", *options, "--quiet", "--json", "-"]
    started = time.monotonic()
    done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True)
    seconds = time.monotonic() - started
    if not done.stdout:
        raise SystemExit(f"no record: {done.stderr.strip()}")
    record = json.loads(done.stdout)
    failed = {
        gate["metric"].partition("{")[0]
        for gate in record["gates"]
        if gate["outcome"] in ("fail", "error")
    }
    return Seen(
        record["verdict"]["outcome"],
        done.returncode,
        max(turn["pair"] for turn in record["turns"]),
        seconds,
        frozenset(failed),
        _largest(record["gates"]),
    )


def _largest(gates: Sequence[dict[str, Any]]) -> str:
    found = [
        (gate["estimate"]["value"], gate["variant"], gate["metric"].partition("{")[0])
        for gate in gates
        if gate["estimate"] is not None
        and gate["estimate"]["unit"] == "%"
        and gate["estimate"]["value"] is not None
    ]
    if not found:
        return ""
    value, variant, metric = max(found, key=lambda one: one[0])
    return f"{value:+.1f}% {metric} ({variant})"


def _row(number: int, seen: Seen) -> None:
    failed = ", ".join(sorted(seen.failed)) or "-"
    print(
        f"{number:4}  {seen.outcome:14} {seen.code:4} {seen.pairs:6} {seen.seconds:8.1f}  "
        f"{failed:40}  {seen.largest}",
        flush=True,
    )


def _head(words: str) -> None:
    print(f"\n{words}\n   #  outcome        exit  pairs  seconds  {'failed':40}  largest change")


def equal_builds(folder: Path, common: Sequence[str], count: int) -> bool:
    """A/A verdicts; whether none of them failed."""
    _head("the same server on both sides")
    seen = []
    for number in range(1, count + 1):
        seen.append(verdict(folder, common))
        _row(number, seen[-1])
    outcomes = Counter(one.outcome for one in seen)
    false = [one for one in seen if one.code not in (0, 3)]
    told = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.most_common())
    pairs = statistics.median(one.pairs for one in seen)
    print(f"{count} verdicts: {told}; false fails: {len(false)}; pairs, median: {pairs:g}")
    return not false


def planted(folder: Path, common: Sequence[str], name: str, times: int) -> bool:
    """Verdicts on one regression; whether it was found each time by the right metric."""
    regression = PLANTED[name]
    flags = [word for flag in regression.flags for word in ("--candidate-set", flag)]
    flags += [word for flag in BASELINE_FLAGS.get(name, ()) for word in ("--baseline-set", flag)]
    _head(f"the candidate has {regression.words}")
    found = 0
    for number in range(1, times + 1):
        seen = verdict(folder, [*common, *flags])
        _row(number, seen)
        right = bool(seen.failed & regression.blamed) and seen.failed <= regression.blamed
        found += seen.code == 1 and right
    blamed = ", ".join(sorted(regression.blamed))
    print(f"found by {blamed}: {found} of {times}")
    return found == times


def main() -> int:
    """Print the tables; 1 where a verdict is false or a regression was not found."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--verdicts", type=int, default=40, help="A/A verdicts")
    options.add_argument("--times", type=int, default=3, help="verdicts on each regression")
    options.add_argument("--only", choices=["aa", *PLANTED], action="append")
    options.add_argument("--server", help="the llama-server of both sides")
    options.add_argument("--variant", action="append", default=[], help="all where not given")
    options.add_argument("--scenario", default="scenarioB")
    given = options.parse_args()
    common = [given.scenario]
    if given.server:
        server = Path(given.server)
        common += ["--server", str(server.absolute()) if server.exists() else given.server]
    for variant in given.variant:
        common += ["--variant", variant]
    wanted = given.only or ["aa", *PLANTED]
    well = True
    with tempfile.TemporaryDirectory() as folder:
        for name in wanted:
            if name == "aa":
                well &= equal_builds(Path(folder), common, given.verdicts)
            else:
                well &= planted(Path(folder), common, name, given.times)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
