"""`pytest` over scenario files and with the fixture, as a user's own session."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.integration.desk import Desk, Done, wrapper

pytestmark = pytest.mark.server

ONE_TURN = """\
title: one turn
server: {parallel: 1, ctx-size: 2048}
sessions:
  A: {}
steps:
  - turn: {session: A, user: {tokens: 30, seed: 1}, max_tokens: 4}
variants:
  B: {}
  U: {flags: {kv-unified: true}}
"""
HOLDS = ONE_TURN + 'gates:\n  - {metric: \'output_tokens{session="A",turn="1"}\', equals: 4}\n'
MIXED = (
    ONE_TURN
    + """\
gates:
  - {metric: 'output_tokens{session="A",turn="1"}', equals: 4}
  - {metric: n_ctx_slot, equals: 999, variants: [B]}
  - {metric: kv_mib, equals: baseline, variants: [B]}
  - {metric: kv_mib, max: 1, level: advise, variants: [U]}
  - {metric: kv_mib, equals: 1, when: {recurrent: true}, variants: [U]}
  - {metric: n_ctx_slot, equals: 998, variants: [U]}
known_issues:
  - {variant: U, issue: bug-1, expect: fail, gate: n_ctx_slot, reason: known}
"""
)


class Session:
    """pytest as a user's shell runs it, in a desk's folder."""

    def __init__(self, desk: Desk) -> None:
        self.folder = desk.folder
        self.env = {k: v for k, v in desk.env.items() if not k.startswith(("PYTEST", "COV_"))}
        (self.folder / "pytest.ini").write_text("[pytest]\n")
        (self.folder / "scenarios").mkdir()

    def scenario(self, name: str, text: str) -> None:
        """Write one of the user's scenarios."""
        (self.folder / "scenarios" / f"{name}.yaml").write_text(text)

    def run(self, *words: str) -> Done:
        """Run `pytest WORDS` to its end."""
        points = importlib.metadata.entry_points(group="pytest11")
        # where it is not installed, as an installation would load it
        there = "benchsuite" in points.names or "benchsuite.pytest_plugin" in words
        plugin = [] if there else ["-p", "benchsuite.pytest_plugin"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *plugin, "-p", "no:cacheprovider", *words],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=180,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def runs(self) -> list[Path]:
        """The stored runs."""
        folder = self.folder / ".benchsuite" / "runs"
        return sorted(p for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []


@pytest.fixture
def session(desk: Desk) -> Session:
    """A user's session."""
    return Session(desk)


def outcomes(report: Path) -> dict[str, str]:
    """Name of each item in a junit report, and how it came out."""
    found = {}
    for case in ET.parse(report).getroot().iter("testcase"):
        kinds = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        variant = case.get("classname", "").rpartition(".")[2]
        found[f"{variant} {case.get('name')}"] = kinds[0] if kinds else "passed"
    return found


def test_a_gate_is_an_item_that_comes_out_as_the_run_found_it(session: Session) -> None:
    """Pass, fail, inconclusive, advice, not applicable and known issue each have their outcome."""
    session.scenario("mixed", MIXED)
    done = session.run("scenarios", "--junitxml=report.xml", "-rsx")
    assert outcomes(session.folder / "report.xml") == {
        "yaml run": "passed",
        'B output_tokens{session="A",turn="1"}[equals 4 tokens]': "passed",
        "B n_ctx_slot[equals 999 tokens]": "failure",
        "B kv_mib[equals baseline]": "failure",  # nothing inconclusive counts as a pass
        'U output_tokens{session="A",turn="1"}[equals 4 tokens]': "passed",
        "U kv_mib[at most 1 MiB]": "skipped",
        "U kv_mib[equals 1 MiB]": "skipped",
        "U n_ctx_slot[equals 998 tokens]": "skipped",
    }
    assert done.code == 1
    assert "scenarios/mixed.yaml:12: fail: n_ctx_slot (equals 999 tokens) in variant B" in done.text
    assert "inconclusive: kv_mib (equals baseline)" in done.text
    assert "advises only (fail)" in done.text
    assert "not applicable: " in done.text
    assert "1 xfailed" in done.text
    assert len(session.runs()) == 1


def test_limits_are_those_of_a_run(session: Session) -> None:
    """The one that strikes is named; one that is no length of time is refused."""
    session.scenario("idles", HOLDS.replace("variants:", "  - idle: 60\nvariants:"))
    done = session.run("scenarios", "--benchsuite-run-limit", "0.5", "--benchsuite-no-wait")
    assert done.code == 1, done.text
    assert "the run limit of 0.5 s struck" in done.text
    assert (
        session.run("scenarios", "--benchsuite-idle-limit", "0").code == pytest.ExitCode.USAGE_ERROR
    )


def test_k_selects_gates_and_runs_only_their_variants(session: Session) -> None:
    """A gate chosen by `-k`, or a variant by its node, drives that variant alone."""
    session.scenario("mixed", MIXED)
    done = session.run("scenarios", "-k", "n_ctx_slot and 998")
    assert done.code == 0, done.text
    assert "1 xfailed" in done.text
    done = session.run("scenarios/mixed.yaml::U")
    assert "1 passed, 2 skipped, 1 xfailed" in done.text
    for run in session.runs():
        record = json.loads((run / "record.json").read_text())
        assert [launch["variant"] for launch in record["launches"]] == ["U"]


def test_nothing_selected_starts_nothing(session: Session) -> None:
    """Where no item of a file is left, its scenario is not run."""
    session.scenario("mixed", MIXED)
    done = session.run("scenarios", "-k", "no_such_gate")
    assert done.code == 5
    assert session.runs() == []


def test_a_dead_server_is_an_error_of_its_scenario(session: Session) -> None:
    """Gates that the server's death leaves open are errors; `-x` stops at the first."""
    session.scenario("holds", HOLDS)
    server = wrapper(session.folder / "dies", [], kill_at_request=1)
    words = ("scenarios", f"--benchsuite-server={server}")
    done = session.run(*words, "--junitxml=report.xml")
    assert done.code == 1
    assert set(outcomes(session.folder / "report.xml").values()) == {"error"}
    assert done.text.count("the server died during") == 2  # once a variant, not once a gate
    stopped = session.run(*words, "-x")
    assert "1 error" in stopped.text
    assert "stopping after 1 failures" in stopped.text


def test_workers_run_a_scenario_once(session: Session) -> None:
    """With `-n 2` each scenario is run once, by whichever worker, in every mode of xdist."""
    pytest.importorskip("xdist")
    session.scenario("one", HOLDS)
    session.scenario("two", HOLDS)
    for mode, runs in (("load", 2), ("worksteal", 4)):
        words = ("scenarios", "-n", "2", "--dist", mode, "--junitxml=report.xml")
        done = session.run(*words)
        assert done.code == 0, done.text
        assert "6 passed" in done.text
        assert len(session.runs()) == runs
        assert set(outcomes(session.folder / "report.xml").values()) == {"passed"}


def test_one_worker_gets_all_items_of_a_file(session: Session) -> None:
    """`-n 2` alone sends no worker to wait for another's run."""
    pytest.importorskip("xdist")
    session.scenario("one", HOLDS)
    session.scenario("two", HOLDS)
    done = session.run("scenarios", "-n", "2", "-v")
    workers = re.findall(r"\[(gw\d)\].*PASSED scenarios/(\w+)\.yaml", done.out)
    assert len(workers) == 6
    assert len(set(workers)) == 2


def test_files_of_others_are_left_alone(session: Session) -> None:
    """YAML that is no scenario is not collected, a scenario with a mistake is an error."""
    (session.folder / "scenarios" / "compose.yaml").write_text("services:\n  web: {image: x}\n")
    (session.folder / "scenarios" / "pipeline.yml").write_text("steps:\n- script: make\n")
    assert session.run("scenarios").code == 5  # nothing was collected
    session.scenario("typo", HOLDS.replace("gates:", "gatez:"))
    done = session.run("scenarios")
    assert done.code == 2
    assert "scenarios/typo.yaml:10: unknown key 'gatez'" in done.text


def test_patterns_decide_alone_where_they_are_given(session: Session) -> None:
    """The ini option names what is a scenario, whatever other files look like."""
    (session.folder / "pytest.ini").write_text("[pytest]\nbenchsuite_scenarios = gates/*.yaml\n")
    session.scenario("holds", HOLDS)
    assert session.run("scenarios", "--collect-only").code == 5
    (session.folder / "gates").mkdir()
    (session.folder / "gates" / "x.yaml").write_text("a: 1\n")
    assert "unknown key 'a'" in session.run("gates").text


def test_times_reach_pytest_benchmark(session: Session) -> None:
    """What a run measured in time is in pytest-benchmark's table and file, in seconds."""
    pytest.importorskip("pytest_benchmark")
    session.scenario("holds", HOLDS)
    done = session.run("scenarios", "--benchsuite-trials=2", "--benchmark-json=times.json")
    assert done.code == 0, done.text
    found = json.loads((session.folder / "times.json").read_text())["benchmarks"]
    by_name = {one["fullname"]: one for one in found}
    times = by_name["scenarios/holds.yaml::B::ttft_ms"]["stats"]
    record = json.loads((session.runs()[0] / "record.json").read_text())
    measured = [
        m["value"] / 1e3
        for m in record["measurements"]
        if m["name"] == "ttft_ms" and m["variant"] == "B" and not m.get("labels")
    ]
    assert times["data"] == pytest.approx(measured)
    assert times["rounds"] == 2


OWN_TESTS = """\
import os, pathlib, signal, time
import pytest

pids = {}

def test_answers(llama_server):
    pids["first"] = llama_server.pid
    reply = llama_server.client.post("/completion", json={"prompt": "the", "n_predict": 2})
    assert reply.status_code == 200
    assert llama_server.log

def test_shares_the_server(llama_server):
    assert llama_server.pid == pids["first"]

@pytest.mark.llama_server(flags={"parallel": 3})
def test_has_its_own_flags(llama_server):
    assert llama_server.client.get("/props").json()["total_slots"] == 3
    pids["last"] = llama_server.pid

@pytest.mark.llama_server(flags={"parallell": 3})
def test_misspelt(llama_server):
    pass

@pytest.mark.llama_server(fresh=True)
def test_dies(llama_server):
    os.kill(llama_server.pid, signal.SIGKILL)
    while llama_server.client.get("/health").status_code:
        time.sleep(0.01)

def test_the_next_has_a_living_one(llama_server):
    assert llama_server.client.get("/health").status_code == 200
    pathlib.Path("last.pid").write_text(str(llama_server.pid))
"""


def test_own_tests_get_a_server(session: Session) -> None:
    """The fixture launches, shares, and replaces servers, and leaves none behind."""
    (session.folder / "test_own.py").write_text(OWN_TESTS)
    done = session.run("test_own.py", "-W", "error", "--junitxml=report.xml")
    found = {name.split()[1]: how for name, how in outcomes(session.folder / "report.xml").items()}
    failed = {name for name, how in found.items() if how != "passed"}
    assert failed == {"test_misspelt", "test_dies"}, done.text
    assert "has no flag 'parallell'; did you mean 'parallel'?" in done.text
    assert "the server died during the test: killed by signal 9" in done.text
    pid = int((session.folder / "last.pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_sessions_without_scenarios_pay_nothing(session: Session) -> None:
    """The plugin loads nothing of benchsuite but itself where nobody asks for it."""
    (session.folder / "test_own.py").write_text(
        "import sys\n\ndef test_light():\n"
        "    ours = {m for m in sys.modules if m.startswith('benchsuite')}\n"
        "    ours -= {'benchsuite.pytest_plugin.recognise', 'benchsuite.regular'}\n"
        "    assert ours == {'benchsuite', 'benchsuite.pytest_plugin'}\n"
        "    assert not {'yaml', 'msgspec', 'httpx', 'scipy', 'pandas'} & set(sys.modules)\n"
    )
    (session.folder / "docker.yml").write_text("services: {}\n")
    session.env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # what others load is theirs
    done = session.run("-p", "benchsuite.pytest_plugin", ".")
    assert done.code == 0, done.text


def test_gates_that_read_alike_hide_none_of_each_other(session: Session) -> None:
    """Of two on one line the one that blocks and fails is told."""
    gates = "gates: [{metric: kv_mib, max: 0.001, level: advise}, {metric: kv_mib, max: 0.001}]\n"
    session.scenario("alike", ONE_TURN + gates)
    done = session.run("scenarios", "--benchsuite-variant", "B")
    assert done.code == 1, done.text
    assert "kv_mib[at most 0.001 MiB]" in done.out


def test_a_run_that_cannot_start_is_told_without_our_source(session: Session) -> None:
    """The error as the command line has it, and no frame of benchsuite."""
    text = HOLDS.replace("ctx-size: 2048", "ctx-size: 2048, no-such-flag: 1")
    session.scenario("flag", text)
    done = session.run("scenarios", "--junitxml=report.xml")
    assert done.code == 1, done.text
    assert "no-such-flag" in done.out
    for shown in (done.out, (session.folder / "report.xml").read_text()):
        assert "raise " not in shown
        assert "collect.py" not in shown
