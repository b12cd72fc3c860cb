"""How often the rule for latency errs, on simulated launches; prints `docs/calibration.md`.

    python benchmarks/calibration.py [--runs N] [--write]

Simulated are comparisons of up to 10 interleaved pairs of launches, in the order AB, BA, AB, ...
Every rule judges the same launches. The rule of benchsuite is `benchsuite.stats.paired.look`; it is
computed here for all comparisons at once, and held against that function on some of them.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchsuite.stats.paired import CONFIDENCES, LOOKS, look
from benchsuite.stats.ratios import Decision, t_quantile

TOLERANCE_PERCENT = 10.0
CVS = (0.02, 0.04, 0.08)
# change of the candidate in multiples of the tolerance
CHANGES = (0.0, 1.0, 1.25, 1.5, 2.0)
PAIRS = LOOKS[-1]
RUNS = 100_000
CHECKED = 40  # comparisons of each case that are also judged by the function itself
PAGE = Path(__file__).parents[1] / "docs" / "calibration.md"

Array = NDArray[np.float64]
Codes = NDArray[np.int8]
WORSE, WITHIN, UNDECIDED = 1, -1, 0
_CODES: dict[Decision, int] = {"worse": WORSE, "within": WITHIN, "undecided": UNDECIDED}
_BOUND = math.log1p(TOLERANCE_PERCENT / 100)


class Machine(msgspec.Struct, frozen=True):
    """A kind of noise."""

    name: str
    words: str
    # noise of each launch in logarithms: from a generator, the shape wanted, and the CV; the last
    # axis is time, two launches a pair
    noise: Callable[[np.random.Generator, tuple[int, int], float], Array]


def _normal(random: np.random.Generator, shape: tuple[int, int], cv: float) -> Array:
    return random.normal(0, cv, shape)


def _heavy(random: np.random.Generator, shape: tuple[int, int], cv: float) -> Array:
    return random.standard_t(3, shape) * (cv / math.sqrt(3))


def _spikes(random: np.random.Generator, shape: tuple[int, int], cv: float) -> Array:
    slow = (random.random(shape) < 0.1) * random.exponential(3 * cv, shape)
    noise = random.normal(0, cv, shape) + slow
    return noise / math.sqrt(1 + 0.1 * 2 * 9 - (0.1 * 3) ** 2)  # as a whole of spread CV


def _drift(random: np.random.Generator, shape: tuple[int, int], cv: float) -> Array:
    ramp = random.uniform(-0.2, 0.2, (shape[0], 1)) * np.linspace(0, 1, shape[1])
    walk = np.cumsum(random.normal(0, 0.01, shape), axis=1)
    return random.normal(0, cv, shape) + ramp + walk


MACHINES = (
    Machine("normal", "normally distributed logarithms", _normal),
    Machine("heavy-tailed", "Student's t with 3 degrees of freedom, of the same spread", _heavy),
    Machine("spikes", "every tenth launch slower by 3 CV on average, exponentially", _spikes),
    Machine(
        "drifting",
        "normal, on a level that moves by up to 20% from the first launch to the last, and by 1% "
        "at random from launch to launch",
        _drift,
    ),
)


class Sides(msgspec.Struct, frozen=True):
    """Logarithms of simulated launches, one row a comparison, one column a pair."""

    baseline: Array
    candidate: Array


class Judged(msgspec.Struct, frozen=True):
    """What a rule says of each comparison."""

    decision: Codes
    pairs: Array  # used until then


def simulate(
    random: np.random.Generator, machine: Machine, cv: float, change: float, runs: int
) -> Sides:
    """Interleaved launches in which the candidate is slower by a multiple of the tolerance."""
    noise = machine.noise(random, (runs, 2 * PAIRS), cv)
    first, second = noise[:, 0::2], noise[:, 1::2]
    turned = (np.arange(PAIRS) % 2 == 1)[np.newaxis, :]  # BA
    baseline = np.where(turned, second, first)
    candidate = np.where(turned, first, second)
    return Sides(baseline, candidate + math.log1p(change * TOLERANCE_PERCENT / 100))


def _decide(middle: Array, reach: Array) -> Codes:
    return np.where(
        middle - reach > _BOUND, WORSE, np.where(middle + reach < _BOUND, WITHIN, UNDECIDED)
    ).astype(np.int8)


def _paired_at(sides: Sides, pairs: int, confidence: float) -> Codes:
    ratios = (sides.candidate - sides.baseline)[:, :pairs]
    reach = t_quantile(confidence, pairs - 1) * ratios.std(axis=1, ddof=1) / math.sqrt(pairs)
    return _decide(ratios.mean(axis=1), reach)


def _at_first(sides: Sides, looks: tuple[int, ...], confidences: tuple[float, ...]) -> Judged:
    """The first look that decides."""
    decision = np.zeros(len(sides.baseline), np.int8)
    pairs = np.full(len(sides.baseline), float(looks[-1]))
    for count, confidence in zip(looks, confidences, strict=True):
        found = _paired_at(sides, count, confidence)
        fresh = (decision == UNDECIDED) & (found != UNDECIDED)
        decision[fresh] = found[fresh]
        pairs[fresh] = count
    return Judged(decision, pairs)


def two_looks(sides: Sides) -> Judged:
    """The rule of benchsuite."""
    return _at_first(sides, LOOKS, CONFIDENCES)


def every_pair(sides: Sides) -> Judged:
    """Rejected: a look after every pair from the third on, at 90%."""
    looks = tuple(range(3, PAIRS + 1))
    return _at_first(sides, looks, tuple(0.9 for _ in looks))


def lenient(sides: Sides) -> Judged:
    """Rejected: both looks at 95%."""
    return _at_first(sides, LOOKS, (0.95, 0.95))


def fixed_welch(sides: Sides) -> Judged:
    """inference-doctor's rule: a fixed number of launches, Welch's interval, unpaired."""
    count = PAIRS
    parts = [side.var(axis=1, ddof=1) / count for side in (sides.baseline, sides.candidate)]
    total = parts[0] + parts[1]
    degrees = total**2 / ((parts[0] ** 2 + parts[1] ** 2) / (count - 1))
    from scipy.special import stdtrit

    reach = stdtrit(degrees, 0.975) * np.sqrt(total)
    middle = sides.candidate.mean(axis=1) - sides.baseline.mean(axis=1)
    return Judged(_decide(middle, reach), np.full(len(middle), float(count)))


class Rates(msgspec.Struct, frozen=True):
    """What a rule came to in one case, in percent of the comparisons."""

    worse: float
    within: float
    undecided: float
    pairs: float  # mean

    @classmethod
    def of(cls, judged: Judged) -> Rates:
        """The shares of a rule's decisions."""

        def share(code: int) -> float:
            return float((judged.decision == code).mean()) * 100

        return cls(share(WORSE), share(WITHIN), share(UNDECIDED), float(judged.pairs.mean()))


class Case(msgspec.Struct, frozen=True):
    """One machine, CV and change."""

    machine: Machine
    cv: float
    change: float
    ours: Rates
    fixed: Rates
    peeking: Rates
    lenient: Rates


def cases(runs: int) -> Iterator[Case]:
    """Every case in turn, each from a seed of its own."""
    for i, machine in enumerate(MACHINES):
        for j, cv in enumerate(CVS):
            for k, change in enumerate(CHANGES):
                sides = simulate(np.random.default_rng([20261, i, j, k]), machine, cv, change, runs)
                ours = two_looks(sides)
                check(sides, ours)
                rest = [Rates.of(rule(sides)) for rule in (fixed_welch, every_pair, lenient)]
                yield Case(machine, cv, change, Rates.of(ours), *rest)


def check(sides: Sides, judged: Judged) -> None:
    """Hold what was computed at once against the function that judges real launches.

    Raises:
        SystemExit: They differ.
    """
    for row in range(min(CHECKED, len(judged.decision))):
        before, after = np.exp(sides.baseline[row]), np.exp(sides.candidate[row])
        for count in LOOKS:
            found = look(
                before[:count].tolist(),
                after[:count].tolist(),
                tolerance_percent=TOLERANCE_PERCENT,
                better="lower",
            )
            if found.decision != "undecided" or found.final:
                break
        if _CODES[found.decision] != judged.decision[row] or count != judged.pairs[row]:
            sys.exit(f"calibration: the rule computed here is not that of look() in row {row}")


_FALSE_FAILS, _AT_TOLERANCE = 0.5, 5.0  # percent, at most
_CLEAR_PAIRS = 0.55  # of the pairs that a fixed rule takes, at most, mean of the machines


def page(found: list[Case], runs: int) -> str:
    """The whole page in Markdown."""
    return "\n".join([*_introduction(runs), *_table(found), "", *_summary(found), ""])


def _introduction(runs: int) -> list[str]:
    machines = [f"- {m.name}: {m.words};" for m in MACHINES]
    return [
        "# Calibration of latency verdicts",
        "",
        (
            "Made by `python benchmarks/calibration.py --write`; figures are percent of "
            f"{runs:,} simulated comparisons each."
        ),
        "",
        f"The tolerance is {TOLERANCE_PERCENT:g}%. A launch's value varies by the CV on:",
        "",
        *machines[:-1],
        machines[-1].removesuffix(";") + ".",
        "",
        (
            "*benchsuite* pairs interleaved launches (AB, BA, ...) and looks at 5 pairs with a 99% "
            "interval of Student's t of the log ratio, at 10 with a 97% one: fail if wholly above "
            "the tolerance, pass if wholly below, else go on, and after 10 pairs inconclusive. "
            "*fixed Welch* is the rule of inference-doctor on the same launches: always 10 a side, "
            "Welch's interval of the unpaired logarithms."
        ),
        "",
        (
            "Of no change and of a change of exactly the tolerance a fail is false, of larger ones "
            "a pass (a miss)."
        ),
        "",
    ]


def _table(found: list[Case]) -> list[str]:
    lines = [
        (
            "| machine | CV | change | fail | pass | inconclusive | pairs | Welch: fail | pass "
            "| inconclusive | pairs |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case in found:
        change = "none" if not case.change else f"{case.change:g} T"
        cells = [case.machine.name, f"{case.cv:.0%}", change]
        for rates in (case.ours, case.fixed):
            cells += [f"{v:.2f}" for v in (rates.worse, rates.within, rates.undecided)]
            cells.append(f"{rates.pairs:.1f}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _worst(found: list[Case], change: float, rule: str, field: str) -> float:
    return max(float(getattr(getattr(c, rule), field)) for c in found if c.change == change)


def _summary(found: list[Case]) -> list[str]:
    lines = [
        "## What it comes to",
        "",
        "Highest of all machines and CVs, in percent:",
        "",
        "| | benchsuite | fixed Welch | 95% twice | every pair, 90% |",
        "|---|---|---|---|---|",
    ]
    rules = ("ours", "fixed", "lenient", "peeking")
    for words, change, field in (
        (f"false fails of no change (at most {_FALSE_FAILS:g} wanted)", 0.0, "worse"),
        (f"fails at exactly the tolerance (at most {_AT_TOLERANCE:g} wanted)", 1.0, "worse"),
        ("misses at 1.25 T", 1.25, "within"),
        ("misses at 1.5 T", 1.5, "within"),
        ("misses at 2 T", 2.0, "within"),
    ):
        row = " | ".join(f"{_worst(found, change, rule, field):.2f}" for rule in rules)
        lines.append(f"| {words} | {row} |")
    for cv in CVS:
        for words, change in (("no change", 0.0), ("2 T", 2.0)):
            alike = [c for c in found if c.change == change and c.cv == cv]
            means = (_mean([getattr(c, rule).pairs for c in alike]) for rule in rules)
            row = " | ".join(f"{mean:.1f}" for mean in means)
            lines.append(f"| pairs used, {words}, CV {cv:.0%} (mean of the machines) | {row} |")
    return [*lines, "", *_conclusions(found)]


def _conclusions(found: list[Case]) -> list[str]:
    rules = ("ours", "fixed", "lenient", "peeking")
    at_tolerance = {rule: _worst(found, 1.0, rule, "worse") for rule in rules}
    missed = {rule: max(_missed(found, rule)) for rule in rules}
    drifting = [c for c in found if c.machine.name == "drifting" and c.cv == CVS[0]]
    steep = next(c for c in drifting if c.change == 1.5)
    noisy = [c for c in found if c.cv == CVS[-1] and c.change in (0.0, 2.0)]
    open_ours, open_fixed = (
        _mean([getattr(c, rule).undecided for c in noisy]) for rule in ("ours", "fixed")
    )
    return [
        (
            f"- Two looks err at exactly the tolerance up to {at_tolerance['ours']:.1f}% of the "
            f"time, one look of fixed Welch up to {at_tolerance['fixed']:.1f}%; they pass a larger "
            f"change up to {missed['ours']:.2f}% of the time, Welch up to {missed['fixed']:.2f}%. "
            "Clear cases, either way, take about half the launches."
        ),
        (
            f"- The price is paid where noise is high: at a CV of {CVS[-1]:.0%} no change and 2 T "
            f"are left inconclusive {open_ours:.0f}% of the time, by Welch {open_fixed:.0f}%. "
            "A quieter machine or more pairs (`--pairs`) are the remedy."
        ),
        (
            f"- On a drifting machine pairing finds {steep.ours.worse:.0f}% of changes of 1.5 T at "
            f"a CV of {CVS[0]:.0%}, unpaired Welch {steep.fixed.worse:.0f}%. Welch is rarely wrong "
            "there because it rarely decides."
        ),
        (
            f"- Two looks with 95% intervals err up to {at_tolerance['lenient']:.1f}% at exactly "
            f"the tolerance and pass larger changes up to {missed['lenient']:.2f}%; looking after "
            f"every pair with a 90% interval fails up to {at_tolerance['peeking']:.0f}%. Both were "
            "rejected."
        ),
    ]


def _missed(found: list[Case], rule: str) -> list[float]:
    """The highest share of passes of each change beyond the tolerance."""
    return [_worst(found, change, rule, "within") for change in CHANGES if change > 1]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def missed(found: list[Case]) -> list[str]:
    """Which targets the rule misses, in words."""
    wanted = (("no change", 0.0, _FALSE_FAILS), ("exactly the tolerance", 1.0, _AT_TOLERANCE))
    lost = [
        f"{case.machine.name}, CV {case.cv:.0%}: {case.ours.worse:.2f}% fail at {words}, "
        f"more than {most:g}%"
        for words, change, most in wanted
        for case in found
        if case.change == change and case.ours.worse > most
    ]
    fails = [_worst(found, 1.0, rule, "worse") for rule in ("ours", "fixed")]
    misses = [max(_missed(found, rule)) for rule in ("ours", "fixed")]
    for words, (ours, fixed) in (("fails at the tolerance", fails), ("misses", misses)):
        if ours > fixed:
            lost.append(f"{words}: up to {ours:.2f}%, fixed Welch {fixed:.2f}%")
    clear = [c for c in found if c.cv == CVS[0] and c.change in (0.0, 2.0)]
    pairs = _mean([c.ours.pairs for c in clear])
    if pairs > _CLEAR_PAIRS * PAIRS:
        lost.append(f"clear cases: {pairs:.1f} pairs, more than {_CLEAR_PAIRS:.0%} of {PAIRS}")
    return lost


def main() -> None:
    """Simulate, print, and write the page where asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="comparisons of each case")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    options = parser.parse_args()
    found = list(cases(options.runs))
    text = page(found, options.runs)
    print(text)
    if options.write:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(text)
    if lost := missed(found):
        sys.exit("\n".join(lost))


if __name__ == "__main__":
    main()
