"""How often `trend` cries wolf, and what it finds: simulated series, one value a run.

Quiet series are normal, heavy-tailed (Student's t with 3 degrees of freedom) and of a machine whose
state outlasts a run (autoregressive, 0.3). A step of 5% lies in the middle; a drift is 0.7% a run.
Run: python benchmarks/trend_detection.py [--series 1000]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from benchsuite.stats.change_points import find_changes

_Floats = npt.NDArray[np.float64]
_NEAR = 2  # runs that a found step may lie from the true one


def _normal(random: np.random.Generator, n: int) -> _Floats:
    return random.standard_normal(n)


def _heavy(random: np.random.Generator, n: int) -> _Floats:
    return np.asarray(random.standard_t(3, n) / np.sqrt(3.0))


def _lasting(random: np.random.Generator, n: int) -> _Floats:
    fresh = random.standard_normal(n + 50) * np.sqrt(1 - 0.3**2)
    values = np.zeros(n + 50)
    for i in range(1, n + 50):
        values[i] = 0.3 * values[i - 1] + fresh[i]
    return values[50:]


_NOISE: dict[str, Callable[[np.random.Generator, int], _Floats]] = {
    "normal": _normal,
    "heavy-tailed": _heavy,
    "autocorrelated 0.3": _lasting,
}


def _false_alarms(count: int) -> None:
    print("| noise | runs | a step seen | a drift seen | either |")
    print("|---|---|---|---|---|")
    for name, noise in _NOISE.items():
        for n in (10, 20, 30, 60, 100):
            random = np.random.default_rng(n)
            steps = drifts = either = 0
            for _ in range(count):
                found = find_changes(list(100 * (1 + 0.03 * noise(random, n))))
                steps += bool(found.steps)
                drifts += bool(found.drifts)
                either += bool(found.steps or found.drifts)
            shares = " | ".join(f"{x / count:.1%}" for x in (steps, drifts, either))
            print(f"| {name} | {n} | {shares} |", flush=True)


def _steps_found(count: int) -> None:
    print(f"| CV | runs | 5% step found | within {_NEAR} runs | called a drift | more than one |")
    print("|---|---|---|---|---|---|")
    for cv in (0.02, 0.03, 0.04):
        for n in (10, 20, 30, 60):
            random = np.random.default_rng(n)
            found_any = near = drifts = more = 0
            for _ in range(count):
                values = 100 * (1 + cv * random.standard_normal(n))
                values[n // 2 :] *= 1.05
                found = find_changes(list(values))
                found_any += bool(found.steps)
                near += any(abs(s.index - n // 2) <= _NEAR for s in found.steps)
                drifts += bool(found.drifts) and not found.steps
                more += len(found.steps) > 1
            shares = " | ".join(f"{x / count:.0%}" for x in (found_any, near, drifts, more))
            print(f"| {cv:.0%} | {n} | {shares} |", flush=True)


def _drifts_found(count: int) -> None:
    print("| drift | CV | runs | found as drift | found as steps | size, median (truth) |")
    print("|---|---|---|---|---|---|")
    for name, first in (("from the first run", 0), ("from the middle on", None)):
        for cv in (0.02, 0.03, 0.04):
            for n in (15, 30, 60):
                random = np.random.default_rng(n)
                start = n // 2 if first is None else first
                drifts = steps = 0
                sizes = []
                ramp = np.maximum(0, np.arange(n) - start)
                for _ in range(count):
                    values = 100 * 1.007**ramp * (1 + cv * random.standard_normal(n))
                    found = find_changes(list(values))
                    drifts += bool(found.drifts)
                    steps += bool(found.steps) and not found.drifts
                    sizes += [d.percent for d in found.drifts if d.percent is not None]
                size = f"{np.median(sizes):.1f}%" if sizes else "-"
                truth = f"{(1.007 ** float(ramp[-1]) - 1):.1%}"
                shares = f"{drifts / count:.0%} | {steps / count:.0%} | {size} ({truth})"
                print(f"| {name} | {cv:.0%} | {n} | {shares} |", flush=True)


def main() -> int:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, default=1000, help="quiet series a line")
    count = parser.parse_args().series
    began = time.monotonic()
    for table, share in ((_false_alarms, 1), (_steps_found, 5), (_drifts_found, 5)):
        table(max(1, count // share))
        print()
    print(f"{count} series a line, a fifth with changes; {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
