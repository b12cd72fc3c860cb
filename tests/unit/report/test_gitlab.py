"""GitLab's metrics report reads as its parser reads it, and is OpenMetrics."""

from __future__ import annotations

import re
import shlex

import pytest

from benchsuite.model.record import Measurement
from benchsuite.report.gitlab import render_gitlab_metrics
from tests.unit.report.suite_records import HOSTILE, hostile, record

LINE = re.compile(r'[a-z][a-z0-9_]*\{[a-z_]+="[^"\\\n]*"(,[a-z_]+="[^"\\\n]*")*\} -?[0-9.]+')


def as_gitlab_reads(text: str) -> dict[str, str]:
    """Name -> value: a line is split as a shell does, without what follows `#`."""
    found = {}
    for line in text.splitlines():
        name, *values = shlex.split(re.sub(r"#.*$", "", line)) or [""]
        if name:
            found[name] = values[0]
    return found


def test_exact_values_are_listed_and_noisy_ones_are_not() -> None:
    """Values are compared as text there, so each one that is listed must be steady."""
    place = "deployment=tiny,scenario=scenarioB"
    assert as_gitlab_reads(render_gitlab_metrics([record()])) == {
        f"cached_tokens{{{place},session=A,turn=2,variant=B}}": "1217",
        f"kv_mib{{{place},variant=B}}": "16",
    }


def test_trials_that_agree_are_one_line() -> None:
    """Where they differ, each has its own."""
    alike = [Measurement("kv_mib", 16.0, "MiB", "B", trial=t) for t in (1, 2)]
    assert len(as_gitlab_reads(render_gitlab_metrics([record(measurements=alike)]))) == 1
    other = (*alike, Measurement("kv_mib", 17.0, "MiB", "B", trial=3))
    found = as_gitlab_reads(render_gitlab_metrics([record(measurements=other)]))
    assert sorted(found.values()) == ["16", "16", "17"]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_keeps_every_line_readable(text: str) -> None:
    """Labels are spelt in characters that neither a shell nor OpenMetrics minds."""
    shown = render_gitlab_metrics([hostile(text)])
    lines = [line for line in shown.splitlines() if not line.startswith("#")]
    assert all(LINE.fullmatch(line) for line in lines), shown[:500]
    assert len(as_gitlab_reads(shown)) == len(lines) == 1
    assert shown.endswith("# EOF\n")
