"""How often does the leak rule call a flat server leaking, and how often does it miss a leak?

    python benchmarks/leak_rule.py [--tries 100]

The rule is the shipped one: the slope over the last half of the requests and its interval
(`benchsuite.pipeline.memory_slope`), against the limit of `scenarios/soak.yaml`. Readings are made
up: 240 of them, evenly over the requests, since that is about what a soak keeps. The noise is
normal, 1 MiB, alone or each reading remembering the one before (AR(1)); a cache fills evenly, by
64 MiB, and is then full; a leak grows evenly under AR(1) noise of 0.5.

Told is how often the whole interval lies above the limit (a leak), below it (none), or holds it.
Exit code 1 when more than 5% of a flat server's series are called a leak, at any length.
"""

# a program prints

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable

from benchsuite.collect.memory_growth import GrowthPoint
from benchsuite.pipeline.memory_slope import last_half
from benchsuite.stats.slopes import slope
from benchsuite.units import MIB

LIMIT_MIB = 0.03125
MOST_FALSE = 0.05
READINGS = 240
NOISE_MIB = 1.0
CACHE_MIB = 64.0
LENGTHS = (300, 1_000, 10_000)
LEAKS_KIB = (1, 4, 16, 64)


def noise(chance: random.Random, count: int, remembers: float) -> list[float]:
    """Normal noise of `NOISE_MIB`, each value keeping so much of the one before."""
    fresh = (1 - remembers**2) ** 0.5
    values = [chance.gauss(0, 1)]
    while len(values) < count:
        values.append(remembers * values[-1] + fresh * chance.gauss(0, 1))
    return [value * NOISE_MIB for value in values]


def judged(requests: int, memory: list[float], limit: float) -> str:
    """What the rule says of readings that lie evenly over so many requests."""
    points = [
        GrowthPoint(round((i + 1) * requests / len(memory)), "soak", round((200 + mib) * MIB))
        for i, mib in enumerate(memory)
    ]
    late = last_half(points)
    fit = slope([p.finished for p in late], [p.anon_bytes / MIB for p in late])
    if fit.low is None or fit.high is None:
        return "untold"
    return "leak" if fit.low > limit else "none" if fit.high <= limit else "unsure"


def tried(
    tries: int, requests: int, limit: float, remembers: float, grown: Callable[[float], float]
) -> Counter[str]:
    """Verdicts over so many series; `grown` is MiB by the share of requests that is done."""
    found: Counter[str] = Counter()
    for seed in range(tries):
        chance = random.Random(f"{seed} {requests} {remembers}")
        steps = min(READINGS, requests)
        made = noise(chance, steps, remembers)
        memory = [value + grown((i + 1) / steps) for i, value in enumerate(made)]
        found[judged(requests, memory, limit)] += 1
    return found


def main() -> int:
    """Print the table; 1 if a floor was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tries", type=int, default=100)
    tries = parser.parse_args().tries

    def flat(share: float) -> float:
        return 0.0 * share

    def cache(full: float) -> Callable[[float], float]:
        return lambda share: CACHE_MIB * min(1.0, share / full)

    def leak(kib: int, requests: int) -> Callable[[float], float]:
        return lambda share: kib / 1024 * requests * share

    missed = 0
    print(f"{tries} series each; limit {LIMIT_MIB:g} MiB a request, and 0 beside it")
    print(f"{'server':34}{'requests':>9}  {'leak':>6}{'unsure':>8}{'none':>7}   {'above 0':>8}")
    for requests in LENGTHS:
        rows: list[tuple[str, float, Callable[[float], float], bool]] = [
            ("flat, independent noise", 0.0, flat, True),
            ("flat, AR(1) 0.5", 0.5, flat, True),
            ("flat, AR(1) 0.9", 0.9, flat, True),
            ("cache full at 30%, AR(1) 0.5", 0.5, cache(0.30), True),
            ("cache full at 45%, AR(1) 0.5", 0.5, cache(0.45), True),
        ]
        rows += [(f"leak of {k} KiB, AR(1) 0.5", 0.5, leak(k, requests), False) for k in LEAKS_KIB]
        for name, remembers, grown, is_flat in rows:
            found = tried(tries, requests, LIMIT_MIB, remembers, grown)
            above = tried(tries, requests, 0.0, remembers, grown)["leak"]
            shares = [found[word] / tries for word in ("leak", "unsure", "none")]
            print(
                f"{name:34}{requests:>9}  {shares[0]:>6.0%}{shares[1]:>8.0%}{shares[2]:>7.0%}   "
                f"{above / tries:>8.0%}"
            )
            missed += is_flat and shares[0] > MOST_FALSE
    if missed:
        print(f"MISSED: {missed} kinds of flat server are called a leak by more than 5%")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
