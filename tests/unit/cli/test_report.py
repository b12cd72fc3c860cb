"""`benchsuite report`, and `accept` of what a pipeline kept."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import msgspec
import pytest

from benchsuite.cli.main import run_command_line
from benchsuite.model.record import RunRecord
from benchsuite.model.verdict import GateResult, Verdict
from benchsuite.store.journal import KIND_BEGIN, Journal
from benchsuite.store.records import read_record, write_record

GOLDEN = Path(__file__).parents[2] / "golden" / "pass"
replace = msgspec.structs.replace

_SCENARIO = """title: of the recorded run, with the gate that it had
variants: {B: {}}
steps: [snapshot: here]
gates: [{metric: kv_mib, equals: baseline}]
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two runs of scenarioB on tiny, the older one passed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)
    (tmp_path / "benchsuite.toml").write_text("")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "scenarioB.yaml").write_text(_SCENARIO)  # to judge them anew by
    run(tmp_path, "20261103T100000Z", "aaaa0001", passed=True)
    run(tmp_path, "20261104T100000Z", "bbbb0002", passed=False)
    return tmp_path


def run(desk: Path, stamp: str, run_id: str, *, passed: bool, scenario: str = "scenarioB") -> Path:
    """Store a run that passed, or one whose KV memory is another."""
    record = read_record(GOLDEN / "record.json")
    gate = GateResult(
        "kv_mib", "B", "equals baseline", "fail", "block", "16 MiB", "12 MiB", "why", "changed",
        against="baseline",
    )  # fmt: skip
    day = f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}T10:00:00+00:00"
    record = replace(
        record,
        id=run_id,
        scenario=scenario,
        started_at=day,
        fingerprint=replace(record.fingerprint, scenario=scenario),
        gates=() if passed else (gate,),
        verdict=Verdict("pass", 0, (), {}) if passed else Verdict("fail", 1, ("why",), {"fail": 1}),
    )
    folder = desk / ".benchsuite" / "runs" / f"{stamp}-{scenario}-{run_id}"
    write_record(folder / "record.json", record)
    return folder


def test_the_last_run_is_meant(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where none is named; several are in the order named, each once."""
    assert run_command_line(["report", "--format", "json"]) == 0
    assert [r["id"] for r in json.loads(capsys.readouterr().out)["runs"]] == ["bbbb0002"]
    assert run_command_line(["report", "last", "aaaa", "bbbb", "--format", "json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [r["id"] for r in runs] == ["bbbb0002", "aaaa0001"]


def test_a_file_is_written_in_the_format_of_its_name(desk: Path) -> None:
    """Whole, with its own line ends; `--format` outranks the name."""
    assert run_command_line(["report", "--to", "a/run.csv"]) == 0
    assert (desk / "a" / "run.csv").read_bytes().startswith(b"run,side,")
    assert b"\r\n" in (desk / "a" / "run.csv").read_bytes()
    assert run_command_line(["report", "--format", "markdown", "--to", "run.csv"]) == 0
    assert (desk / "run.csv").read_text().startswith("<!-- benchsuite:report -->\n")
    assert run_command_line(["report", "--to", "run.md", "--key", "gpu"]) == 0
    assert (desk / "run.md").read_text().startswith("<!-- benchsuite:gpu -->\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nothing", "--to", "a.csv"], "the latest runs: bbbb0002, aaaa0001"),
        (["--format", "cvs"], "did you mean 'csv'?"),
        (["--to", "a.xyz"], ".csv (csv)"),
        ([], "no format is named"),
    ],
)
def test_what_does_not_exist_is_answered_with_what_does(
    desk: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    """Exit code 2, and nothing is written."""
    assert run_command_line(["report", *words]) == 2
    assert told in capsys.readouterr().err
    assert not (desk / "a.csv").exists()


def test_several_reports_are_written_at_once(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option for each format, beside `--to`."""
    words = ["report", "--junit", "j.xml", "--markdown", "m.md", "--openmetrics", "o.txt"]
    assert run_command_line([*words, "--to", "c.csv"]) == 0
    assert (desk / "j.xml").read_text().startswith("<?xml")
    assert (desk / "m.md").read_text().startswith("<!-- benchsuite:report -->")
    assert (desk / "o.txt").read_text().endswith("# EOF\n")
    assert (desk / "c.csv").read_bytes().startswith(b"run,side,")
    assert capsys.readouterr().out == ""


def test_every_format_is_listed(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the end of its files."""
    assert run_command_line(["report", "--list"]) == 0
    out = capsys.readouterr().out
    assert "openmetrics" in out
    assert ".pytest-benchmark.json" in out


def test_a_killed_run_is_read_and_says_where_it_ends(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a journal that was cut in the middle of a line."""
    record = read_record(GOLDEN / "record.json")
    folder = desk / ".benchsuite" / "runs" / "20261105T100000Z-scenarioB-cccc0003"
    folder.mkdir()
    empty = replace(record, id="cccc0003", launches=(), measurements=())
    with Journal(folder / "samples.jsonl") as journal:
        journal.write(KIND_BEGIN, record=empty)
        for one in record.measurements[:4]:
            journal.write("measurement", measurement=one)
    whole = (folder / "samples.jsonl").read_bytes()
    (folder / "samples.jsonl").write_bytes(whole[:-20])
    assert run_command_line(["report", "--format", "csv"]) == 0
    done = capsys.readouterr()
    assert len(done.out.splitlines()) == 1 + 3
    last = record.measurements[2]
    assert f"after 0 launches and 3 measurements, the last one {last.name}" in done.err
    number = whole.count(b"\n") - 1
    assert f"ends in line {number} after byte " in done.err
    assert "in the middle of a line" in done.err


def git(folder: Path, *words: str) -> None:
    """Run git, which must succeed."""
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


def test_changed_baselines_in_a_shallow_clone(
    desk: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Without the base branch the error has the command that brings it; then it works."""
    shutil.copytree(GOLDEN / "baselines", desk / "baselines")
    git(desk, "init", "-q", "-b", "main")
    git(desk, "add", "-A")
    git(desk, "commit", "-qm", "first")
    git(desk, "checkout", "-qb", "branch")
    (file,) = (desk / "baselines").rglob("config.json")
    text = file.read_text()
    assert "16.0" in text
    file.write_text(text.replace("16.0", "12.0", 1))
    git(desk, "commit", "-qam", "smaller")
    clone = tmp_path_factory.mktemp("runner") / "clone"
    git(desk, "clone", "-q", "--depth=1", "--branch=branch", desk.as_uri(), str(clone))
    monkeypatch.chdir(clone)
    words = ["report", "aaaa", "--format", "markdown", "--base", "git:origin/main"]
    assert run_command_line(words) == 2
    hint = capsys.readouterr().err.splitlines()[-1].strip()
    assert hint == "fetch it: git fetch --depth=1 origin main:refs/remotes/origin/main"
    git(clone, *hint.removeprefix("fetch it: git ").split())
    assert run_command_line(words) == 0
    assert "**This branch changes 1 baseline** since git:origin/main" in capsys.readouterr().out


def archive(desk: Path, kind: str) -> Path:
    """The runs as a pipeline would keep them."""
    runs = desk / ".benchsuite" / "runs"
    if kind == "folder":
        return runs
    path = desk / f"artifact.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as made:
            for file in sorted(runs.rglob("*.json")):
                made.write(file, file.relative_to(runs))
    else:
        with tarfile.open(path, "w:gz") as tar:
            tar.add(runs, "some/where")
    return path


@pytest.mark.parametrize("kind", ["folder", "zip", "tar.gz"])
def test_what_did_not_pass_of_several_runs_is_accepted(
    desk: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """The newest of each scenario; what passed is left alone, and both are told."""
    run(desk, "20261105T100000Z", "dddd0004", passed=True, scenario="scenarioA")
    assert run_command_line(["accept", str(archive(desk, kind)), "--reason", "smaller"]) == 0
    out = capsys.readouterr().out
    assert "left run aaaa0001, scenarioB on tiny: run bbbb0002 is newer" in out
    assert "left run dddd0004, scenarioA on tiny: it passed" in out
    assert "values of scenarioB on tiny; commit them" in out
    assert [p.name for p in (desk / "baselines" / "tiny").iterdir()] == ["scenarioB"]


def test_nothing_is_accepted_where_all_passed(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A newer run that passed stands for the one before it."""
    run(desk, "20261105T100000Z", "dddd0004", passed=True)
    assert run_command_line(["accept", str(archive(desk, "zip")), "--reason", "x"]) == 2
    assert "all 1 runs here passed" in capsys.readouterr().err
    assert not (desk / "baselines").exists()


def test_names_in_an_archive_lead_nowhere(desk: Path, tmp_path: Path) -> None:
    """A member that climbs out of the folder is read as the run it is, and writes nothing there."""
    path = tmp_path / "evil.zip"
    record = read_record(desk / ".benchsuite/runs/20261104T100000Z-scenarioB-bbbb0002")
    content = msgspec.json.encode(record)
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("../../outside/record.json", content)
        made.writestr("/inside/record.json", content)
    before = set(tmp_path.parent.iterdir())
    assert run_command_line(["accept", str(path), "--reason", "x"]) == 0
    assert set(tmp_path.parent.iterdir()) == before
    assert isinstance(record, RunRecord)
