"""Real runs become a history: their trend, a run that goes on or was killed, and cleaning."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.desk import Desk, wait_until
from tests.integration.server_under_test import linux_only, needs_embedded

pytestmark = [pytest.mark.server, needs_embedded]

SLOW = """title: slow
server: {parallel: 1, ctx-size: 1024}
sessions: {A: {}}
steps:
  - turn: {session: A, user: {tokens: 8}, max_tokens: 2}
  - idle: 60
gates:
  - {metric: 'output_tokens{session="A",turn="1"}', equals: 2}
"""


def _series(desk: Desk, *words: str) -> dict[str, Any]:
    """The one series that a trend shows."""
    done = desk.run("trend", *words, "--json")
    assert done.code == 0, done.text
    (one,) = json.loads(done.out)["series"]
    found: dict[str, Any] = one
    return found


def _runs(desk: Desk) -> Path:
    return desk.folder / ".benchsuite" / "runs"


def test_runs_of_scenario_b_have_a_trend(desk: Desk) -> None:
    """Equal runs are level; a changed flag is a change, named with its run and the flag."""
    words = ("run", "scenarioB", "--server", "embedded", "--variant", "P")
    assert desk.run(*words).code == 0
    assert len(_series(desk, "kv_mib")["points"]) == 1
    assert desk.run(*words, "--trials", "2").code == 0
    changed = desk.run(*words, "--set", "ctx-size=16384")
    assert changed.code == 1, changed.text
    ids = [path.name.rsplit("-", 1)[1] for path in sorted(_runs(desk).iterdir())]
    connection = sqlite3.connect(desk.folder / ".benchsuite" / "history.sqlite")
    # the runs after the first trend went in when they were stored
    assert connection.execute("SELECT count(*) FROM runs").fetchone() == (3,)
    connection.close()

    kv = _series(desk, "kv_mib")
    assert [point["run"] for point in kv["points"]] == ids
    assert [len(point["samples"]) for point in kv["points"]] == [1, 2, 1]
    first, second, third = (point["value"] for point in kv["points"])
    assert first == second < third
    (change,) = kv["changes"]
    assert (change["first"], change["last"]) == (ids[1], ids[2])
    assert any(words.startswith("ctx-size") for words in change["differs"])
    shown = desk.run("trend", "kv_mib")
    assert "changed from" in shown.text
    assert "differs: ctx-size" in shown.text
    assert max(len(line) for line in shown.out.splitlines()) <= 80

    cached = _series(desk, 'cached_tokens{session="B",turn="6"}')
    assert len({point["value"] for point in cached["points"]}) == 1
    assert cached["changes"] == []
    timed = desk.run("trend", 'ttft_ms{session="A",turn="2"}')
    assert "too few to tell changes from noise" in timed.text

    (desk.folder / ".benchsuite" / "history.sqlite").unlink()
    assert _series(desk, "kv_mib") == kv


def test_a_crash_is_shown_and_is_no_value(desk: Desk) -> None:
    """The run has its place in the series, and its half-measured numbers have not."""
    from tests.integration.desk import wrapper

    words = ("run", "scenarioB", "--variant", "P", "--server")
    assert desk.run(*words, "embedded").code == 0
    dying = wrapper(desk.folder / "dying", [], kill_at_request=9)
    assert desk.run(*words, str(dying)).code == 4
    one = _series(desk, 'cached_tokens{session="A",turn="2"}')
    assert [point["failure"] for point in one["points"]] == [None, "crash"]
    assert one["points"][1]["value"] is None
    assert one["changes"] == []


@linux_only
def test_a_run_that_goes_on_or_was_killed(desk: Desk) -> None:
    """In progress it is no point yet and cannot be cleaned; killed it is cut, and can once old."""
    (desk.folder / "slow.yaml").write_text(SLOW)
    process = desk.start("run", "slow.yaml", "--server", "embedded")
    try:
        assert wait_until(desk.has_reply, 60)
        (folder,) = _runs(desk).iterdir()
        cleaned = desk.run("clean", "--keep", "0", "--older-than", "0d", "--yes")
        assert cleaned.code == 0, cleaned.text
        assert "in progress" in cleaned.text
        assert folder.is_dir()
        os.utime(folder / "samples.jsonl", (0, 0))  # the lock tells, not the age
        assert "in progress" in desk.run("clean", "--keep", "0", "--yes").text
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    listed = desk.run("clean", "--keep", "0", "--dry-run")
    assert listed.code == 0, listed.text
    assert desk.run("trend", 'output_tokens{session="A",turn="1"}').code == 2  # nothing finished
    for path in (*folder.iterdir(), folder):
        os.utime(path, (0, 0))
    cleaned = desk.run("clean", "--keep", "0", "--yes")
    assert "removed 1 run" in cleaned.text
    assert not folder.exists()


def test_two_runs_at_once_are_both_remembered(desk: Desk) -> None:
    """With a history that is there already."""
    text = SLOW.replace("  - idle: 60\n", "")
    (desk.folder / "quick.yaml").write_text(text)
    words = ("run", "quick.yaml", "--server", "embedded")
    assert desk.run(*words).code == 0
    _series(desk, 'output_tokens{session="A",turn="1"}')
    command = [sys.executable, "-m", "benchsuite", *words]
    both = [
        subprocess.Popen(command, cwd=desk.folder, env=desk.env, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in both:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert "warning" not in err
    assert len(_series(desk, 'output_tokens{session="A",turn="1"}')["points"]) == 3
