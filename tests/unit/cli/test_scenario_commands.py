"""check, list and schema print what a person or a program can use, and exit as DESIGN says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchsuite.cli.main import run_command_line

GOOD = "title: {title}\ntags: [x]\nsteps:\n  - idle: 1\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "good.yaml").write_text(GOOD.format(title="fine"))
    return tmp_path


def test_check_says_what_is_fine(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments every scenario is checked, the shipped ones too."""
    assert run_command_line(["check"]) == 0
    out = capsys.readouterr().out
    assert "scenarios/good.yaml: fine (1 step, 1 variant, 0 gates)\n" in out
    assert "scenarioB.yaml: fine" in out


def test_check_prints_every_problem_of_every_file(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Problems of several files are printed together; exit 2."""
    (here / "one.yaml").write_text("titel: x\nsteps: 3\n")
    assert run_command_line(["check", "one.yaml", "good", "none.yaml"]) == 2
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        "one.yaml:1: unknown key 'titel' in the scenario; did you mean 'title'?",
        "one.yaml:2: 'steps' of the scenario: expected a list, found '3'",
        "none.yaml: no such file",
    ]
    assert captured.out == "scenarios/good.yaml: fine (1 step, 1 variant, 0 gates)\n"


def test_list_is_a_table_of_80_columns(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Long titles are wrapped."""
    (here / "scenarios" / "good.yaml").write_text(GOOD.format(title="word " * 40))
    assert run_command_line(["list"]) == 0
    out = capsys.readouterr().out
    assert ["scenarioB", "B", "U", "P", "m0", "smoke"] in [
        line.split() for line in out.splitlines()
    ]
    assert max(len(line) for line in out.splitlines()) <= 80


def test_list_as_json_is_a_list(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Name, title, tags, variants and place of each."""
    assert run_command_line(["list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["good"] == {
        "name": "good",
        "title": "fine",
        "tags": ["x"],
        "variants": ["default"],
        "path": "scenarios/good.yaml",
    }


def test_list_names_files_that_cannot_be_read(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are listed all the same; exit 2."""
    (here / "scenarios" / "bad.yaml").write_text("")
    assert run_command_line(["list"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("scenarios/bad.yaml:1: is empty")
    assert "good" in captured.out


def test_schema_is_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It names the keys of a scenario."""
    assert run_command_line(["schema"]) == 0
    assert "steps" in json.loads(capsys.readouterr().out)["properties"]
