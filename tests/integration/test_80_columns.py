"""What commands print fits a plain terminal of 80 columns."""

from __future__ import annotations

import re

import pytest

from tests.integration.desk import Desk, Done

pytestmark = pytest.mark.server

_PASTED = re.compile(r"/|^  python|--port PORT|^Command")
"""Paths and commands are for copying, so they stay in one piece."""


def wide_lines(done: Done) -> list[str]:
    """Lines of more than 80 columns that hold nothing to be copied."""
    lines = f"{done.out}\n{done.err}".splitlines()
    return [line for line in lines if len(line) > 80 and not _PASTED.search(line)]


_LOADS = """title: loads
server: {parallel: {min: 2}}
steps:
  - load: {as: steady, rate: 50, requests: 50, prompt: {tokens: 8}, max_tokens: 2}
  - sweep:
      as: capacity
      over: concurrency
      values: [1, 2, 4]
      load: {requests: 80, prompt: {tokens: 8, seed: 90}, max_tokens: 2}
      objectives: {ttft_ms: {p95: 5 s}, error_share: 1%}
"""


def test_tables_of_loads_and_sweeps_fit_80_columns(desk: Desk) -> None:
    """A load step's percentiles and a sweep's stages."""
    desk.env["COLUMNS"] = "80"
    (desk.folder / "loads.yaml").write_text(_LOADS)
    for words in (("show", "loads.yaml"), ("run", "loads.yaml")):
        done = desk.run(*words)
        assert wide_lines(done) == [], words
    assert "load steady (variant default)" in done.out
    assert "sweep capacity (variant default); times are p95" in done.out


def test_tables_fit_80_columns(desk: Desk) -> None:
    """Runs, comparisons, histories and plans are laid out for 80 columns."""
    desk.env["COLUMNS"] = "80"
    words = [
        ("run", "scenarioB"),
        ("run", "scenarioB", "--variant", "U", "--set", "ctx-size=16384", "--verbose"),
        ("show", "scenarioB"),
        ("show", "m5-stack"),
        ("list",),
        ("diff", "last"),
        ("trend", "kv_mib"),
        ("clean", "--keep", "1", "--dry-run"),
        ("doctor", "--no-server"),
        ("check", "scenarioB"),
        ("run", "no-such-scenario"),
    ]
    for each in words:
        done = desk.run(*each)
        assert done.out or done.err, each
        assert wide_lines(done) == [], each
    run = next((desk.folder / ".benchsuite" / "runs").glob("*-scenarioB-*"))
    assert wide_lines(desk.run("inspect", "log", str(next(run.glob("server.*.log"))))) == []
    assert wide_lines(desk.run("inspect", "model", str(desk.tiny_model()))) == []
