"""A run as text, beyond the golden cases."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchsuite.model.record import Failure, Measurement, RunRecord
from benchsuite.model.verdict import GateResult, Verdict
from benchsuite.report.json import render_json
from benchsuite.report.layout import Style
from benchsuite.report.terminal import render_run, verdict_line
from benchsuite.store.records import read_record

GOLDEN = Path(__file__).parents[2] / "golden"
replace = msgspec.structs.replace


@pytest.fixture
def record() -> RunRecord:
    """A run with one gate that passed."""
    gates = (GateResult("kv_mib", "B", "equals baseline", "pass", "block", "16 MiB", "16 MiB", ""),)
    run = read_record(GOLDEN / "pass" / "record.json")
    return replace(run, gates=gates, verdict=Verdict("pass", 0, (), {"pass": 1}))


def test_the_last_line_is_the_verdict(record: RunRecord) -> None:
    """With counts, and one newline at the end."""
    text = render_run(record, stored="runs/x")
    assert text.endswith("run: runs/x\nPASS  scenarioB on tiny: 1 gate passed\n")


def test_colours_change_no_column(record: RunRecord) -> None:
    """The coloured text without its colours is the plain text."""
    plain = render_run(record, style=Style(100, False))
    coloured = render_run(record, style=Style(100, True))
    assert "\x1b[32m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
def test_every_width_is_kept(record: RunRecord, width: int) -> None:
    """Whatever names and values are."""
    gates = tuple(
        GateResult(
            metric="cached_tokens{" + "x" * length + "}",
            variant="a-variant-of-some-length",
            rule="equals baseline",
            outcome="fail",
            level="block",
            expected="9" * length,
            observed="\u4f60" * length,
            reason="because " * length,
            state="changed",
            against="baseline",
        )
        for length in (1, 30, 90)
    )
    text = render_run(replace(record, gates=gates), style=Style(width, False))
    assert max(len(line) for line in text.splitlines()) <= width


def test_hostile_text_is_shown_and_does_nothing(record: RunRecord) -> None:
    """From the model, the log, a title, and a warning."""
    evil = "\x1b]0;owned\x07\r\n\u202e"
    gate = replace(record.gates[0], outcome="fail", observed=evil, reason=evil, differs=(evil,))
    failure = Failure("crash", evil, hint=evil, last_lines=(evil,), unknowable=(evil,))
    launch = replace(record.launches[0], failure=failure, warnings=(evil,), log=evil)
    bad = replace(
        record, title=evil, gates=(gate,), launches=(launch,), warnings=(evil,), baseline=evil
    )
    text = render_run(bad, stored=evil)
    assert "owned" in text
    assert all(c == "\n" or c.isprintable() for c in text)


def test_many_requests_are_not_all_listed(record: RunRecord) -> None:
    """The rest is counted."""
    many = tuple(
        Measurement("evaluated_tokens", 1, "tokens", "B", 1, {"session": "A", "turn": str(i)})
        for i in range(1, 101)
    )
    text = render_run(replace(record, measurements=many))
    assert "and 88 more requests, in the run's record" in text


def test_a_run_without_anything_still_has_a_verdict(record: RunRecord) -> None:
    """As after a failure before the first launch."""
    empty = replace(
        record,
        gates=(),
        launches=(),
        measurements=(),
        verdict=Verdict("machine failed", 5, ("no lock",), {}),
    )
    assert verdict_line(empty) == "MACHINE FAILED  scenarioB on tiny: no gates (exit 5)"
    assert render_run(empty).endswith("(exit 5)\n")
    assert verdict_line(replace(empty, verdict=None)) == "UNJUDGED  scenarioB on tiny"


def test_json_has_one_form_whatever_the_number_of_runs(record: RunRecord) -> None:
    """Each run holds verdict, gates and measurements."""
    for count in (0, 1, 2):
        found = msgspec.json.decode(render_json([record] * count))
        assert found["schema_version"] == 1
        assert len(found["runs"]) == count
    run = found["runs"][0]
    assert run["verdict"]["exit_code"] == 0
    assert run["gates"][0]["metric"] == "kv_mib"
    assert {"name", "labels", "value", "unit", "variant", "trial"} <= set(run["measurements"][0])


def test_reporting_imports_nothing_slow() -> None:
    """Judging and reporting cost no import of rich and its like."""
    script = (
        "import sys\n"
        "import benchsuite.gate.judge, benchsuite.gate.verdict, benchsuite.report.terminal\n"
        "import benchsuite.report.json, benchsuite.store.records, benchsuite.store.accept\n"
        "slow = {'rich', 'httpx', 'yaml', 'pandas', 'numpy', 'scipy', 'statistics', 'tarfile'}\n"
        "print(sorted(slow & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_gpu_memory_has_a_row_for_each_device(record: RunRecord) -> None:
    """At the last snapshot; runs without have none."""
    assert "GPU MiB" not in render_run(record)
    found = tuple(
        Measurement("gpu_mib", 64.0 * n, "MiB", "B", labels={"at": at, "device": f"CUDA{n}"})
        for at in ("ready", "end")
        for n in (1, 2)
    )
    text = render_run(replace(record, measurements=record.measurements + found))
    assert "GPU MiB on CUDA1 at end" in text
    assert "GPU MiB on CUDA2 at end" in text
    assert "at ready" not in text


def test_many_variants_are_told_by_what_is_left_out() -> None:
    """Names that do not fit are `all`, or all but one."""
    names = [f"conf-{i}" for i in range(4)]

    def gate(variant: str, metric: str) -> GateResult:
        return GateResult(metric, variant, "at most 4", "pass", "block", "<= 4", "4", "at most 4")

    gates = [gate(name, "kv_mib") for name in names]
    gates += [gate(name, "rs_mib") for name in names[1:]]
    run = replace(read_record(GOLDEN / "pass" / "record.json"), gates=tuple(gates))
    shown = render_run(run).splitlines()
    assert any(line.split()[:2] == ["all", "kv_mib"] for line in shown)
    assert any(line.split()[:3] == ["not", "conf-0", "rs_mib"] for line in shown)
