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
