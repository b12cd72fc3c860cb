"""A suite's runs: what is refused before any, what goes on after a failure, what is run again."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchsuite.cli.main import run_command_line
from benchsuite.errors import MachineError, ServerError
from benchsuite.model.suite import SuiteRun
from benchsuite.pipeline import suite as suites
from benchsuite.pipeline import suite_plan
from benchsuite.pipeline.run import Finished
from benchsuite.pipeline.suite import suite_code
from benchsuite.pipeline.suite_outputs import GitHub, Locator, baseline_line
from benchsuite.report.cases import cases_of
from benchsuite.scenario.workspace import load_workspace
from benchsuite.store.baselines import Baselines
from tests.unit.report.suite_records import crashed, failed, gate, record

SCENARIO = "title: t\ntags: [x]\nsteps:\n- complete: {id: one, prompt: {text: hello}}\n"
GATES = "gates:\n- {metric: kv_mib, max: 4}\n- {metric: kv_cells, equals: baseline}\n"
OUTPUTS = "outputs: {junit: j.xml, summary: s.md, gitlab-metrics: m.txt}\n"


class Stage:
    """A folder with scenarios a, b and c and suite `pr`, whose runs are made up.

    Args:
        folder: The working directory.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ran: list[str] = []
        self.ends: dict[str, Any] = {}  # scenario -> record, or what is raised; else a pass
        for name in "abc":
            self.write(f"scenarios/{name}.yaml", SCENARIO + GATES)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def suite(self, rest: str) -> None:
        self.write("ci/suites/pr.yaml", f"title: t\n{rest}")

    def prepare(self, workspace: Any, scenario: Any, options: Any, environ: Any) -> Any:
        end = self.ends.get(f"prepare {scenario.name}")
        if end is not None:
            raise end
        return scenario, options

    def run(self, prepared: Any, environ: Mapping[str, str], progress: Any) -> Finished:
        scenario, options = prepared
        self.ran.append(scenario.name)
        end = self.ends.get(scenario.name, record(gate()))
        if isinstance(end, BaseException):
            raise end
        made = msgspec.structs.replace(
            end, scenario=scenario.name, id=f"{scenario.name}{len(self.ran)}", policy=options.policy
        )
        folder = self.folder / "runs" / made.id
        folder.mkdir(parents=True)
        (folder / "record.json").write_bytes(msgspec.json.encode(made))
        return Finished(made, folder, Baselines("tiny", scenario.name, {}))

    def result(self) -> dict[str, Any]:
        text = (self.folder / ".benchsuite/ci/pr/suite.json").read_text()
        found: dict[str, Any] = json.loads(text)
        return found

    def outcomes(self) -> list[str]:
        return [f"{run['scenario']} {run['outcome']}" for run in self.result()["runs"]]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    made = Stage(tmp_path)
    monkeypatch.setattr(suite_plan, "prepare", made.prepare)
    monkeypatch.setattr(suites, "run_scenario", made.run)
    monkeypatch.setattr(suites, "render_run", lambda *_, **__: "")
    return made


def test_the_suite_goes_on_after_a_failure(stage: Stage) -> None:
    """Every run is made, every output written, and the worst of them is the exit code."""
    stage.suite("scenarios: [a, b, c]\n" + OUTPUTS)
    stage.ends = {"a": crashed(), "b": record(failed())}
    assert run_command_line(["ci", "pr", "-q"]) == 4
    assert stage.ran == ["a", "b", "c"]
    assert stage.outcomes() == ["a server failed", "b fail", "c pass"]
    written = {path.name for path in (stage.folder / ".benchsuite/ci/pr").iterdir()}
    assert written == {"suite.json", "j.xml", "s.md", "m.txt"}


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (MachineError("no room"), 5),
        (ServerError("died"), 4),
        (RuntimeError("our own bug"), 5),
        (record(failed()), 1),
        (record(failed(outcome="inconclusive")), 3),
        (record(gate()), 0),
    ],
)
def test_the_exit_code_is_that_of_the_worst_run(stage: Stage, end: Any, code: int) -> None:
    """What a run raises counts as its exit code, and shows in the JUnit file."""
    stage.suite("scenarios: [a, b]\n" + OUTPUTS)
    stage.ends = {"a": end}
    assert run_command_line(["ci", "pr", "-q"]) == code
    assert stage.ran == ["a", "b"]
    text = (stage.folder / ".benchsuite/ci/pr/j.xml").read_text()
    assert ("<error" in text or "<failure" in text) is (code != 0)


def test_a_server_that_cannot_be_asked_does_not_stop_the_others(stage: Stage) -> None:
    """A fault before the run is one of the run alone."""
    stage.suite("scenarios: [a, b]\n")
    stage.ends = {"prepare a": ServerError("--help hung")}
    assert run_command_line(["ci", "pr", "-q"]) == 4
    assert stage.outcomes() == ["a server failed", "b pass"]


def test_advice_never_moves_the_exit_code_but_a_crash_does(stage: Stage) -> None:
    """A policy is about what gates decide."""
    stage.suite("scenarios: [a, {scenario: b, policy: advise}]\n" + OUTPUTS)
    stage.ends = {"b": record(failed())}
    assert run_command_line(["ci", "pr", "-q"]) == 0
    stage.ends = {"b": crashed()}
    assert run_command_line(["ci", "pr", "-q"]) == 4


def test_a_suite_that_only_advises_decides_nothing(stage: Stage) -> None:
    """That is exit 3, as for a run of advising gates."""
    stage.suite("policy: advise\nscenarios: [a]\n")
    assert run_command_line(["ci", "pr", "-q"]) == 3


def test_what_the_budget_leaves_no_time_for_is_open(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not run, not passed, and told with what to do."""
    stage.suite("budget: 5 min\nscenarios: [a, b, c]\n" + OUTPUTS)
    now = [0.0]

    def slow(prepared: Any, environ: Any, progress: Any) -> Finished:
        now[0] += 200.0
        return stage.run(prepared, environ, progress)

    monkeypatch.setattr(suites, "run_scenario", slow)
    monkeypatch.setattr("benchsuite.pipeline.suite.time.monotonic", lambda: now[0])
    assert run_command_line(["ci", "pr", "-q"]) == 3
    assert stage.outcomes() == ["a pass", "b pass", "c not run"]
    text = (stage.folder / ".benchsuite/ci/pr/j.xml").read_text()
    assert "message=\"not run: the suite's budget of 300 s was spent after 400 s" in text


def test_an_interrupted_suite_keeps_what_it_has(stage: Stage) -> None:
    """The rest is not run, and the exit code is 130."""
    stage.suite("scenarios: [a, b, c]\n")
    stage.ends = {"b": record(gate(), interrupted=True)}
    assert run_command_line(["ci", "pr", "-q"]) == 130
    assert stage.outcomes() == ["a pass", "b interrupted", "c not run"]


def test_a_suite_that_is_killed_leaves_no_file_that_says_pass(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it runs, what is ahead is open in every output, also in place of an older suite's."""
    outputs = "outputs: {junit: j.xml, summary: s.md, markdown: c.md}\n"
    stage.suite("scenarios: [a, {scenario: b, policy: advise}]\n" + outputs)
    assert run_command_line(["ci", "pr", "-q"]) == 0
    seen: list[tuple[str, str, str]] = []

    def look(prepared: Any, environ: Any, progress: Any) -> Finished:
        folder = stage.folder / ".benchsuite/ci/pr"
        junit, summary, comment = ((folder / n).read_text() for n in ("j.xml", "s.md", "c.md"))
        seen.append((junit, summary, comment))
        assert stage.result()["exit_code"] == 130
        return stage.run(prepared, environ, progress)

    monkeypatch.setattr(suites, "run_scenario", look)
    assert run_command_line(["ci", "pr", "-q"]) == 0
    assert len(seen) == 2
    for junit, summary, comment in seen:
        assert '<error type="not run"' in junit
        assert "benchsuite: did not pass" in summary
        assert "benchsuite: PASS" not in comment
    assert stage.outcomes() == ["a pass", "b pass"]


def test_only_what_failed_is_run_again(stage: Stage) -> None:
    """The rest is kept, and counts."""
    stage.suite("scenarios: [a, b, c]\n" + OUTPUTS)
    stage.ends = {"b": record(failed())}
    assert run_command_line(["ci", "pr", "-q"]) == 1
    stage.ends, stage.ran = {}, []
    assert run_command_line(["ci", "pr", "-q", "--failed"]) == 0
    assert stage.ran == ["b"]
    assert stage.outcomes() == ["a pass", "b pass", "c pass"]
    assert [run["carried"] for run in stage.result()["runs"]] == [True, False, True]
    assert (stage.folder / ".benchsuite/ci/pr/j.xml").read_text().count("<testsuite ") == 3
    assert run_command_line(["ci", "pr", "-q", "--failed"]) == 2


def test_a_retry_of_the_machines_failures_keeps_those_of_gates(stage: Stage) -> None:
    """A flaky gate does not become green by a blind retry."""
    stage.suite("scenarios: [a, b, c]\n")
    stage.ends = {"a": MachineError("no room"), "b": record(failed())}
    assert run_command_line(["ci", "pr", "-q"]) == 5
    stage.ends, stage.ran = {}, []
    assert run_command_line(["ci", "pr", "-q", "--machine-failed"]) == 1
    assert stage.ran == ["a"]


def test_what_never_ran_is_run_by_a_retry(stage: Stage) -> None:
    """A first call that left no result at all is made up for; --failed says what to do."""
    stage.suite("scenarios: [a]\n")
    assert run_command_line(["ci", "pr", "-q", "--failed"]) == 2
    assert run_command_line(["ci", "pr", "-q", "--machine-failed"]) == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda stage: ["--server", "other"],
        lambda stage: ["--set", "threads=1"],
        lambda stage: stage.write(
            ".benchsuite/ci/pr/suite.json", json.dumps({**stage.result(), "commit": "c0ffee"})
        ),
        lambda stage: stage.write(".benchsuite/ci/pr/suite.json", "{}"),
    ],
)
def test_a_last_result_of_something_else_is_not_built_on(
    stage: Stage, change: Callable[[Stage], list[str] | None], capsys: pytest.CaptureFixture[str]
) -> None:
    """What passed on another server, flags or commit says nothing of now."""
    stage.suite("scenarios: [a, b]\n")
    stage.ends = {"a": record(failed())}
    assert run_command_line(["ci", "pr", "-q"]) == 1
    stage.ran = []
    assert run_command_line(["ci", "pr", "-q", "--failed", *(change(stage) or [])]) == 2
    assert "run" in capsys.readouterr().err
    assert stage.ran == []


def test_of_two_entries_for_one_run_the_first_decides(stage: Stage) -> None:
    """So that a tag can follow the exceptions from it."""
    stage.suite("scenarios: [{scenario: b, policy: advise}, 'tag:x']\n")
    stage.ends = {"b": record(failed())}
    assert run_command_line(["ci", "pr", "-q"]) == 0
    assert stage.ran == ["b", "a", "c"]


def test_everything_that_is_wrong_is_said_and_nothing_runs(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each problem at its line, with the word that would have been right."""
    held = "issue: i, expires: '2099-01-01', reason: r"
    stage.suite(
        "scenarios:\n- a\n- bb\n- {scenario: b, deployments: [tinny]}\n- tag:y\n"
        "outputs: {junt: j.xml}\n"
        f"quarantine:\n- {{scenario: a, variant: default, gate: kv_mib, {held}}}\n"
    )
    assert run_command_line(["ci", "pr"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert [line.split(";")[0] for line in told[:4]] == [
        "ci/suites/pr.yaml:4: no scenario 'bb'",
        "ci/suites/pr.yaml:5: no deployment 'tinny'",
        "ci/suites/pr.yaml:6: no scenario has the tag 'y'",
        "ci/suites/pr.yaml:7: unknown format 'junt'",
    ]
    assert "did you mean 'junit'?" in told[3]
    stage.suite(
        f"scenarios: [a]\nquarantine:\n- {{scenario: b, variant: default, gate: kv_mib, {held}}}\n"
        f"- {{scenario: a, variant: B, gate: kv_mib, {held}}}\n"
    )
    assert run_command_line(["check", "pr"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "ci/suites/pr.yaml:4: the suite does not run 'b'; delete the entry",
        "ci/suites/pr.yaml:5: a has no variant 'B'; variants are: default",
    ]
    assert run_command_line(["ci", "prr"]) == 2
    assert "no suite 'prr'; did you mean 'pr'?" in capsys.readouterr().err
    assert stage.ran == []


def test_check_and_list_show_suites(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """By name, by path, and where all are checked."""
    stage.suite("scenarios: [a, {scenario: b, policy: advise}]\noutputs: {junit: j.xml}\n")
    fine = "ci/suites/pr.yaml: fine (2 runs, 1 of them blocking, 1 output)"
    for words in (["check", "pr"], ["check", "ci/suites/pr.yaml"], ["check"]):
        assert run_command_line(words) == 0
        assert fine in capsys.readouterr().out.splitlines()
    assert run_command_line(["list"]) == 0
    assert "\nSUITES (benchsuite ci NAME)\n" in capsys.readouterr().out


def test_the_code_of_no_run_is_no_pass() -> None:
    """An empty suite, were there one, decides nothing."""
    assert suite_code([]) == 3


# GitHub


def test_what_a_run_prints_is_never_a_command(stage: Stage, tmp_path: Path) -> None:
    """Commands are stopped by a word that cannot be guessed until we speak ourselves."""
    stream = io.StringIO()
    summary = tmp_path / "summary.md"
    environ = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    with GitHub(environ, stream) as github:
        stream.write("::error::forged\n")
        github.tell([record(failed())], [], load_workspace(), {})
    lines = stream.getvalue().splitlines()
    stop = re.fullmatch("::stop-commands::([0-9a-f]{32})", lines[0])
    assert stop is not None
    assert lines[1:3] == ["::error::forged", f"::{stop[1]}::"]
    assert [line.split(" ")[0] for line in lines[3:]] == ["::error"]
    assert summary.read_text().startswith("## benchsuite: did not pass")
    again = io.StringIO()
    with pytest.raises(KeyError), GitHub(environ, again):
        raise KeyError
    assert (
        again.getvalue().splitlines()[1].removesuffix("::").removeprefix("::")
        in (again.getvalue().splitlines()[0])
    )


def test_elsewhere_nothing_is_said(stage: Stage) -> None:
    """Outside GitHub Actions standard output holds results only."""
    stream = io.StringIO()
    with GitHub({}, stream) as github:
        github.tell([record(failed())], [], load_workspace(), {})
    assert stream.getvalue() == ""


BASELINE = """{
  "info": {
    "flags": {
      "B": {
        "kv_mib": "no"
      }
    }
  },
  "metrics": {
    "B": {
      "cached_tokens{session=\\"A\\",turn=\\"2\\"}": [
        1217
      ],
      "kv_mib": [
        {
          "value": 16.0
        }
      ],
      "kv_mib{device=\\"CPU\\"}": [
        16.0
      ]
    },
    "U": {
      "kv_mib": [
        16.0
      ]
    }
  }
}
"""


@pytest.mark.parametrize(
    ("variant", "selector", "line"),
    [
        ("B", "kv_mib", 14),
        ("B", 'kv_mib{device=~".*"}', 19),
        ("B", 'cached_tokens{session=~"A|B",turn="2"}', 11),
        ("U", "kv_mib", 24),
        ("U", 'kv_mib{device="CPU"}', None),
        ("X", "kv_mib", None),
    ],
)
def test_the_line_of_a_baseline_is_found(variant: str, selector: str, line: int | None) -> None:
    """Of the variant's own values, never of what stands elsewhere in the file."""
    assert baseline_line(BASELINE, variant, selector) == line
    assert baseline_line("not JSON", variant, selector) is None


def test_a_case_is_looked_at_where_it_can_be_changed(stage: Stage) -> None:
    """The baseline's value, else the gate, else the suite's entry; nothing outside."""
    made = record(
        failed(metric="kv_mib"), failed(state="missing", metric="kv_mib", line=7), scenario="a",
        scenario_path="scenarios/a.yaml",
    )  # fmt: skip
    cases = [case for case in cases_of(made) if case.gate is not None]
    locate = Locator(load_workspace(), stage.folder.resolve(), {made.id: "ci/suites/pr.yaml:3"})
    assert locate(made, cases[0]) == ("scenarios/a.yaml", 12)
    stage.write("baselines/tiny/a/config.json", BASELINE)
    assert locate(made, cases[0]) == ("baselines/tiny/a/config.json", 14)
    assert locate(made, cases[1]) == ("scenarios/a.yaml", 7)
    shipped = msgspec.structs.replace(made, scenario="b", scenario_path="/usr/lib/b.yaml")
    assert locate(shipped, cases[0]) == ("ci/suites/pr.yaml", 3)
    run = SuiteRun("a", "tiny", (), (), 1, 0, "block", "ci/suites/pr.yaml:5", 5, "not run")
    assert locate(run, cases[0]) == ("ci/suites/pr.yaml", 5)
    elsewhere = Locator(load_workspace(), Path("/usr"), {})
    assert elsewhere(made, cases[0]) is None
