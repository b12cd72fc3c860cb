"""`benchsuite accept` and `benchsuite diff` as a user types them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from benchsuite.cli.main import run_command_line
from benchsuite.model.record import RunRecord
from benchsuite.model.verdict import Verdict
from benchsuite.store.records import read_record, write_record

GOLDEN = Path(__file__).parents[2] / "golden"
replace = msgspec.structs.replace


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with two runs and no baselines; not in CI."""

    monkeypatch.delenv("CI", raising=False)
    monkeypatch.chdir(tmp_path)
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
    args = ["accept", "last", "--metric", 'cached_tokens{session="A",turn="2"}', "--reason", "x"]
    assert run_command_line(args) == 0
    assert "kept from before" in capsys.readouterr().out
    assert run_command_line(["diff", "last"]) == 1


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
