"""A suite file may give and name no more than a scenario file; the command line may."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchsuite.cli.main import run_command_line
from benchsuite.errors import FlagError, UsageError
from benchsuite.pipeline.options import RunOptions
from benchsuite.pipeline.prepare import sets_of
from benchsuite.scenario.flags import parse_help
from benchsuite.scenario.workspace import load_workspace

HELP = """
--lora FNAME                            path to LoRA adapter
--tools TOOL1,TOOL2,...                 experimental: whether to enable built-in tools
-c,    --ctx-size N                     size of the prompt context
"""


@pytest.mark.parametrize(
    ("text", "kind"), [("lora=/etc/passwd", UsageError), ("tools=all", FlagError)]
)
def test_a_suites_set_is_held_as_a_scenarios_flags_are(
    tmp_path: Path, text: str, kind: type[UsageError]
) -> None:
    """At its line; the same from the command line is the user's own word."""
    workspace = load_workspace(tmp_path)
    table = parse_help(HELP)
    options = RunOptions(sets=(text, "ctx-size=9"), suite_sets=1, suite_place=("ci/s.yaml", 7))
    with pytest.raises(kind, match=r"^ci/s\.yaml:7: flag "):
        sets_of(workspace, options, table)
    own = RunOptions(sets=("ctx-size=9", text), suite_sets=1, suite_place=("ci/s.yaml", 7))
    name, _, value = text.partition("=")
    assert sets_of(workspace, own, table) == [("ctx-size", "9"), (name, value)]


def test_a_suite_runs_no_scenario_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is run, and the message has the suite's line and what to type."""
    project = tmp_path / "project"
    (project / "ci").mkdir(parents=True)
    (tmp_path / "away.yaml").write_text("title: t\nsteps:\n  - idle: 1 s\n")
    (project / "ci" / "s.yaml").write_text("title: t\nscenarios:\n  - ../away.yaml\n")
    monkeypatch.chdir(project)
    assert run_command_line(["ci", "ci/s.yaml"]) == 2
    said = capsys.readouterr().err
    assert "ci/s.yaml:3: " in said
    assert "away.yaml, outside the project" in said
    assert "allow_outside" in said
