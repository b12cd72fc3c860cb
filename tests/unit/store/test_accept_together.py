"""Accepts at once and accepts that are killed: nothing is lost, nothing is left by halves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchsuite.metrics.select import parse_selector
from benchsuite.model.record import RunRecord
from benchsuite.model.verdict import Verdict
from benchsuite.store.accept import accept
from benchsuite.store.baselines import load_baselines, samples_by_variant
from benchsuite.store.records import read_record, write_record

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden" / "pass"
KILL = ROOT / "benchmarks" / "kill_accept.py"
replace = msgspec.structs.replace

ACCEPT = """
import sys
from pathlib import Path
from benchsuite.metrics.select import parse_selector
from benchsuite.store.accept import accept
from benchsuite.store.records import read_record
run, folder, *selectors = sys.argv[1:]
record = read_record(Path(run))
print("ready", flush=True)
sys.stdin.read()
for selector in selectors:
    accept(record, Path(folder), reason=selector, environ={}, metrics=[parse_selector(selector)])
"""


def doubled(record: RunRecord) -> RunRecord:
    """The run with every number twice as large and every text twice as long, accepted later."""
    changed = [replace(m, value=m.value * 2) for m in record.measurements]
    return replace(
        record,
        id="cafe0002",
        started_at="2026-12-01T10:00:00+00:00",
        measurements=tuple(changed),
        verdict=Verdict("pass", 0, (), {}),
    )


def test_accepts_of_many_processes_all_land(tmp_path: Path) -> None:
    """Each takes other metrics of the same files, all at once; each value is the new one."""
    folder = Path(shutil.copytree(GOLDEN / "baselines", tmp_path / "baselines"))
    record = doubled(read_record(GOLDEN / "record.json"))
    write_record(tmp_path / "record.json", record)
    wanted = [
        series
        for rows in samples_by_variant(record.measurements).values()
        for series, values in rows.items()
        if any(s.value for s in values)
    ]
    series = sorted(set(wanted))
    workers = 8
    started = [
        subprocess.Popen(
            [sys.executable, "-c", ACCEPT, tmp_path / "record.json", folder, *series[n::workers]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for n in range(workers)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.close()
    for process in started:
        assert process.wait() == 0, process.stderr.read() if process.stderr else ""
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()
    found = load_baselines([folder], "tiny", "scenarioB", record.fingerprint)
    rows = samples_by_variant(record.measurements)
    for scope in found.scopes.values():
        assert scope.file is not None
        for variant, values in scope.file.metrics.items():
            for name, samples in values.items():
                assert samples == rows[variant][name], f"{variant} {name} was lost"
                if name in series:
                    assert scope.file.info_for(variant, name).reason == name
    assert not [p for p in folder.rglob("*") if p.name.startswith(".")]


def test_a_later_accept_of_an_older_run_says_what_it_replaces(tmp_path: Path) -> None:
    """Whoever accepts second without having seen the first is told."""
    record = replace(read_record(GOLDEN / "record.json"), verdict=Verdict("pass", 0, (), {}))
    accept(doubled(record), tmp_path, reason="first come", environ={})
    done = accept(record, tmp_path, reason="late", environ={}, metrics=[parse_selector("kv_mib")])
    (warning,) = done.warnings
    assert "from run cafe0002" in warning
    assert "first come" in warning
    assert accept(doubled(record), tmp_path, reason="again", environ={}).warnings == ()


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
@pytest.mark.parametrize(
    ("words", "least"), [(["--each"], 30), (["--kills", "20"], 20), (["--readers", "50"], 50)]
)
def test_a_killed_accept_leaves_the_old_or_the_new_baseline(words: list[str], least: int) -> None:
    """Killed before each of its file operations, at random moments, and read while it works."""
    memory = Path("/dev/shm")  # where there is one, nothing waits for a disk
    done = subprocess.run(
        [sys.executable, KILL, *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={
            "PYTHONPATH": str(ROOT),
            **({"TMPDIR": str(memory)} if os.access(memory, os.W_OK) else {}),
        },
    )
    assert done.returncode == 0, done.stderr
    *states, total = done.stdout.splitlines()
    assert "never a mixture" in total
    assert int(total.split()[0]) >= least
    if words == ["--each"]:
        assert [line.split()[1] for line in states] == ["new", "old"]
