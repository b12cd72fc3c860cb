"""`benchsuite accept` and `benchsuite diff` as a user types them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from benchsuite.cli.main import run_command_line
from benchsuite.model.record import Measurement, RunRecord
from benchsuite.model.verdict import Verdict
from benchsuite.store.records import read_record, write_record

GOLDEN = Path(__file__).parents[2] / "golden"
replace = msgspec.structs.replace


SCENARIO = """
title: a test
sessions: {A: {}}
steps:
  - turn: {session: A, user: {tokens: 20, seed: 1}, max_tokens: 2}
  - turn: {session: A, user: {tokens: 20, seed: 2}, max_tokens: 2}
variants: {B: {}}
gates:
  - {metric: kv_mib, equals: baseline}
  - {metric: 'cached_tokens{session="A",turn="2"}', equals: baseline}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with two runs and no baselines; not in CI."""

    monkeypatch.delenv("CI", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "scenarioB.yaml").write_text(SCENARIO)
    record = replace(
        read_record(GOLDEN / "pass" / "record.json"), verdict=Verdict("pass", 0, (), {})
    )
    save(tmp_path, "20261103T100000Z-scenarioB-aaaa0001", replace(record, id="aaaa0001"))
    changed = [replace(m, value=12.25) if m.name == "kv_mib" else m for m in record.measurements]
    info = replace(record.info, build="b10440")
    other = replace(record, id="bbbb0002", measurements=tuple(changed), info=info)
    save(tmp_path, "20261103T100001Z-scenarioB-bbbb0002", other)
    return tmp_path


def save(place: Path, name: str, record: RunRecord) -> None:
    """Put a run where runs live."""
    write_record(place / ".benchsuite" / "runs" / name / "record.json", record)


def test_accepting_then_diffing_tells_nothing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The accepted run is its baseline; another build's run is not."""
    assert run_command_line(["accept", "aaaa", "--reason", "first"]) == 0
    said = capsys.readouterr().out
    assert "wrote" in said
    assert "of scenarioB on tiny" in said
    assert run_command_line(["diff", "baselines", "aaaa"]) == 0
    assert run_command_line(["diff", "baselines", "last"]) == 1
    said = capsys.readouterr().out
    assert "kv_mib" in said
    assert "build b10434 -> b10440" in said
    assert "changed -23.4%" in said


def test_one_scope_can_be_accepted(place: Path) -> None:
    """A baseline for every machine is `config.json` alone."""
    assert run_command_line(["accept", "aaaa", "--scope", "config", "--reason", "first"]) == 0
    files = [file.name for file in (place / "baselines").rglob("*") if file.is_file()]
    assert files == ["config.json"]


def test_one_metric_can_be_accepted(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The others stay as they were."""
    assert run_command_line(["accept", "aaaa", "--reason", "first"]) == 0
    args = ["accept", "last", "--metric", 'kv_mib{device="CPU"}', "--metric", "kv_mib"]
    assert run_command_line([*args, "--reason", "x"]) == 0
    assert "kept from before" in capsys.readouterr().out
    assert run_command_line(["diff", "last"]) == 0


def judged_by(place: Path, against: str | None, baseline: str | None) -> RunRecord:
    """The run with half the KV, judged by what says that this is right, so without a failure."""
    (folder,) = (place / ".benchsuite" / "runs").glob("*bbbb0002")
    record = replace(read_record(folder), against=against, baseline=baseline)
    save(place, folder.name, record)
    return record


@pytest.mark.parametrize(
    ("against", "baseline"),
    [
        (None, None),  # a side of `ab`
        ("cccc", "run cccc0003"),
        ("git:bad", "git:bad:baselines"),
        ("other", "baselines"),
        (None, "/home/else/baselines"),  # an archive from another machine
    ],
)
def test_a_run_is_judged_by_what_it_is_accepted_into(
    place: Path, capsys: pytest.CaptureFixture[str], against: str | None, baseline: str | None
) -> None:
    """Whatever judged it before: a failure here that is not being accepted refuses it."""
    assert run_command_line(["accept", "aaaa", "--reason", "first"]) == 0
    before = {p: p.read_bytes() for p in (place / "baselines").rglob("*.json")}
    judged_by(place, against, baseline)
    args = ["accept", "bbbb", "--metric", 'cached_tokens{session="A",turn="2"}', "--reason", "x"]
    assert run_command_line(args) == 2
    said = capsys.readouterr().err
    assert "also fails on what is not being accepted: kv_mib" in said
    assert {p: p.read_bytes() for p in (place / "baselines").rglob("*.json")} == before
    assert run_command_line(["accept", "bbbb", "--reason", "x"]) == 0


def test_a_run_judged_elsewhere_without_its_scenario_is_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to type; one judged by such a folder is believed, with a warning."""
    record = replace(judged_by(place, None, None), scenario="gone", scenario_path="gone.yaml")
    save(place, "20261103T100002Z-gone-cccc0003", record)
    assert run_command_line(["accept", "cccc", "--reason", "x"]) == 2
    assert "benchsuite run gone -d tiny" in capsys.readouterr().err
    save(place, "20261103T100002Z-gone-cccc0003", replace(record, baseline="baselines"))
    assert run_command_line(["accept", "cccc", "--reason", "x"]) == 0
    assert "believed" in capsys.readouterr().err


def test_likeness_to_vectors_of_elsewhere_is_no_likeness_here(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gate on stored vectors that was measured against others does not count as passed."""
    gate = '  - {metric: \'logprob_cosine{against="stored",request=~".*"}\', min: 0.999}\n'
    step = "  - logprobs: {id: one, prompt: {tokens: 20, seed: 3}, tokens: 2}\nvariants:"
    text = SCENARIO.replace("variants:", step) + gate
    (place / "scenarios" / "scenarioB.yaml").write_text(text)
    record = judged_by(place, "cccc", "run cccc0003")
    cosine = Measurement(
        "logprob_cosine", 1.0, "", "B", labels={"against": "stored", "request": "1"}
    )
    measured = (*record.measurements, cosine)
    save(place, "20261103T100001Z-scenarioB-bbbb0002", replace(record, measurements=measured))
    assert run_command_line(["accept", "bbbb", "--metric", "kv_mib", "--reason", "x"]) == 2
    assert "measured against cccc" in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [
        ["accept", "aaaa"],
        ["accept", "aaaa", "--reason", ""],
        ["accept", "zzzz", "--reason", "x"],
        ["accept", "aaaa", "--reason", "x", "--metric", "kv_mib{"],
        ["diff", "aaaa"],
        ["diff", "aaaa", "bbbb", "--json", "--markdown"],
        ["diff", "aaaa", "git:main"],
        ["diff"],
    ],
)
def test_bad_usage_is_2_with_one_error(
    place: Path, capsys: pytest.CaptureFixture[str], args: list[str]
) -> None:
    """On standard error, without a traceback, and nothing is written."""
    assert run_command_line(args) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "rror" in said.err
    assert "Traceback" not in said.err
    assert not (place / "baselines").exists()


def test_ci_refuses(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the variable that CI systems set."""
    monkeypatch.setenv("CI", "true")
    assert run_command_line(["accept", "aaaa", "--reason", "x"]) == 2
    assert "CI" in capsys.readouterr().err


def test_two_runs_as_json(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows hold what changed, and a count of the rest."""
    assert run_command_line(["diff", "aaaa", "bbbb", "--json"]) == 1
    found = msgspec.json.decode(capsys.readouterr().out)
    assert {row["series"] for row in found["rows"]} == {"kv_mib", 'kv_mib{device="CPU"}'}
    assert found["same"] > 30
    assert found["is_same"] is False
    assert found["differs"] == ["build b10434 -> b10440"]


def test_a_revision_against_the_working_tree(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`git:HEAD` alone is compared with the baselines as they are now."""
    assert run_command_line(["accept", "aaaa", "--reason", "first"]) == 0
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    for args in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *args], check=True)
    assert run_command_line(["diff", "git:HEAD"]) == 0
    assert run_command_line(["accept", "bbbb", "--reason", "second"]) == 0
    assert run_command_line(["diff", "git:HEAD", "--markdown"]) == 1
    assert run_command_line(["diff", "git:HEAD", "git:HEAD"]) == 0
    assert run_command_line(["diff", "git:HEAD", "bbbb"]) == 1
    shutil.rmtree(place / "baselines")
    assert run_command_line(["diff", "git:HEAD"]) == 2
    assert "there are no baselines yet" in capsys.readouterr().err
