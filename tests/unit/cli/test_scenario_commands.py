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


def test_check_names_an_overlay_of_a_variant_that_is_not_there(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `show` and `run` would refuse is no news at their time."""
    (here / "benchsuite.toml").write_text(
        '[deployments.fork]\nserver = "x"\n[deployments.fork.overlays.good.Z]\nthreads = 2\n'
    )
    assert run_command_line(["check", "good"]) == 2
    assert "benchsuite.toml:1: overlay of deployment 'fork' for an unknown variant 'Z'" in (
        capsys.readouterr().err
    )


STEERING = r"""title: "a\e]0;b\a\u202Ec\x9b2J"
description: "d\e[2Je\u2066f\rg"
tags: [x]
variants: {V: {title: "h\e[31mi"}}
steps: [{idle: 1}]
gates: [{metric: 'anon_mib{at="end"}', max: 9, why: "j\ek\u202El"}]
"""


def _is_harmless(text: str) -> bool:
    controls = any(c != "\n" and (c < " " or "\x7f" <= c <= "\x9f") for c in text)
    return not controls and not any(c in text for c in "\u202e\u2066")


def test_what_a_scenario_says_does_not_steer_the_terminal(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Escapes and marks of direction are shown as `run` shows them, also where a key is wrong."""
    (here / "scenarios" / "good.yaml").write_text(STEERING)
    for words in (["list"], ["list", "--json"], ["show", "good"], ["check", "good"]):
        assert run_command_line(words) == 0, words
        printed = capsys.readouterr()
        assert _is_harmless(printed.out + printed.err), words
        assert words == ["check", "good"] or "\\u202e" in printed.out, words
    (here / "scenarios" / "bad.yaml").write_text(STEERING + r'"a\e[2J\u202E": 1' + "\n")
    for words in (["list"], ["show", "bad"], ["check", "bad"], ["run", "bad"]):
        assert run_command_line(words) == 2, words
        printed = capsys.readouterr()
        assert _is_harmless(printed.out + printed.err), words
        assert r"a\e[2J\u202e" in printed.err, words


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("port: '1'", "flag 'port' is set by benchsuite: a free port is chosen"),
        ("host: 0.0.0.0", "flag 'host' is set by benchsuite: a launched server listens on"),
        ("api-key: abc", "flag 'api-key' is set by benchsuite: a launched server gets a random"),
        ("log-file: x.log", "flag 'log-file' is set by benchsuite: the log is kept"),
        ("mu: http://h/m.gguf", "flag 'model-url' has the server download a model"),
        ("model-url: http://h/m.gguf", "flag 'model-url' has the server download a model"),
        ("hfr: a/b", "flag 'hf-repo' has the server download a model"),
        ("hf-token: abc", "flag 'hf-token' is not taken: it is a secret"),
    ],
)
@pytest.mark.parametrize("under", ["server: {%s}", "variants: {V: {flags: {%s}}}"])
def test_check_refuses_the_flags_that_run_refuses(
    here: Path, capsys: pytest.CaptureFixture[str], flag: str, sentence: str, under: str
) -> None:
    """Without a server, at their line, wherever a scenario gives them."""
    (here / "flags.yaml").write_text(f"{{title: t, steps: [{{snapshot: s}}],\n{under % flag}}}\n")
    assert run_command_line(["check", "flags.yaml"]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"flags.yaml:2: {sentence}"), printed
    assert len(printed.splitlines()) == 1
