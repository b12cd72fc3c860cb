"""The rule's false verdicts on simulated launches, in a small edition of the calibration."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.scripts import load_script

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "calibration.py"
RUNS = 4000


@pytest.fixture(scope="module")
def calibration() -> ModuleType:
    """The script as a module."""
    return load_script(SCRIPT)


@pytest.mark.parametrize("machine", range(4))
@pytest.mark.parametrize("cv", [0.02, 0.04, 0.08])
def test_false_fails_are_rare(calibration: ModuleType, machine: int, cv: float) -> None:
    """At most 0.5% of no change; at the tolerance 2.5%, and a little of the sample's own."""
    for change, most in ((0.0, 0.5), (1.0, 3.2)):
        random = np.random.default_rng(7)
        sides = calibration.simulate(random, calibration.MACHINES[machine], cv, change, RUNS)
        judged = calibration.two_looks(sides)
        calibration.check(sides, judged)
        assert calibration.Rates.of(judged).worse <= most


def test_clear_cases_take_half_the_launches(calibration: ModuleType) -> None:
    """On a quiet machine five pairs mostly tell no change and twice the tolerance, and rightly."""
    for change, field in ((0.0, "within"), (2.0, "worse")):
        random = np.random.default_rng(7)
        sides = calibration.simulate(random, calibration.MACHINES[0], 0.02, change, RUNS)
        rates = calibration.Rates.of(calibration.two_looks(sides))
        assert getattr(rates, field) > 99.9
        assert rates.pairs < 5.6


def test_the_page_is_of_this_rule(calibration: ModuleType) -> None:
    """The page in docs names the tolerance, the looks and all machines that the script has."""
    page = calibration.PAGE.read_text()
    head = "\n".join(calibration._introduction(calibration.RUNS))
    assert page.startswith(head)
    for machine in calibration.MACHINES:
        assert page.count(f"| {machine.name} |") == len(calibration.CVS) * len(calibration.CHANGES)
