"""The benchmarks of the streaming client run, print their figures, and exit as their floors say.

How good the figures are is for a machine that does nothing else; here a floor is one that nothing
can miss, or that everything misses.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
ANY, NONE = float("inf"), -float("inf")
SHORT = ["--seconds", "0.2", "--rounds", "1"]


def _script(name: str, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    return importlib.import_module(name)


@pytest.mark.parametrize(("floor", "code"), [(ANY, 0), (NONE, 1)])
def test_accuracy_prints_each_case(
    floor: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Median and 99th percentile of both readers, their ratio, and the error of TTFT."""
    script = _script("accuracy", monkeypatch, SHORT)
    monkeypatch.setattr(script, "CASES", [(2, False), (3, True)])
    monkeypatch.setattr(script, "RATIO", floor)
    monkeypatch.setattr(script, "TTFT_MS", floor)
    assert script.main() == code
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert lines[0].startswith(" 2 streams in phase , median: ours ")
    assert lines[5].startswith(" 3 streams staggered, TTFT  : ")


@pytest.mark.parametrize("missed", ["RATIO", "TTFT_MS"])
def test_each_floor_of_accuracy_counts_by_itself(
    missed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is missed is enough."""
    script = _script("accuracy", monkeypatch, SHORT)
    monkeypatch.setattr(script, "CASES", [(2, False)])
    for name in ("RATIO", "TTFT_MS"):
        monkeypatch.setattr(script, name, NONE if name == missed else ANY)
    assert script.main() == 1


@pytest.mark.parametrize(("floor", "code"), [(ANY, 0), (NONE, 1)])
def test_disturbance_prints_what_both_cost(
    floor: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """CPU seconds for 1,000 tokens, and their ratio."""
    script = _script("disturbance", monkeypatch, [*SHORT, "--streams", "2"])
    monkeypatch.setattr(script, "RATIO", floor)
    assert script.main() == code
    line = capsys.readouterr().out
    printed = re.match(
        r"CPU seconds for 1,000 tokens: ours ([0-9.]+), plain ([0-9.]+), ratio ([0-9.]+) ", line
    )
    assert printed, line
    ours, plain, ratio = map(float, printed.groups())
    assert ours > 0
    assert plain > 0
    assert ratio == pytest.approx(ours / plain, abs=0.006)  # one round, and two places


@pytest.mark.parametrize(("floor", "code"), [(ANY, 0), (NONE, 1)])
def test_capacity_prints_what_is_followed(
    floor: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ours beside the bare reader, and each rate until one is not followed."""
    script = _script("capacity", monkeypatch, SHORT)
    monkeypatch.setattr(script, "STREAMS", 4)
    monkeypatch.setattr(script, "RATES", (100, 200))
    monkeypatch.setattr(script, "BEYOND_MS", floor)
    monkeypatch.setattr(script, "FOLLOWED_MS", floor)
    assert script.main() == code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("64 streams, 3,000 tokens/s, p99: ours ")
    if floor == NONE:
        assert len([line for line in lines if line.endswith("not followed")]) == 2
        assert lines[-2].startswith("  our health: event_loop_lag_ms ")
        assert lines[-1].startswith("4 streams, ours: 0 tokens/s followed")
