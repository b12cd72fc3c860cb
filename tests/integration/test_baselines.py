"""Baselines over their life: accepted, committed, judged by, moved, and shown as a diff."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.integration.desk import Desk

pytestmark = pytest.mark.server

SMALL = """title: small
server: {parallel: {default: 1}, ctx-size: {default: 1024}}
sessions: {A: {system: {tokens: 50, seed: 1}}}
steps:
  - turn: {session: A, user: {tokens: 8}, max_tokens: 2}
  - turn: {session: A, user: {tokens: 8, seed: 1}, max_tokens: 2}
gates:
  - {metric: 'cached_tokens{session="A",turn="2"}', equals: baseline}
  - {metric: kv_mib, equals: baseline}
  - {metric: 'text{session="A",turn=~".*"}', equals: baseline}
  - {metric: 'anon_mib{at="end"}', regression: {worse_than: 5%, and_by: 16 MiB}}
"""


@pytest.fixture
def small(desk: Desk) -> Desk:
    """A desk with a scenario of its own."""
    (desk.folder / "scenarios").mkdir()
    (desk.folder / "scenarios" / "small.yaml").write_text(SMALL)
    return desk


def _git(desk: Desk, *words: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *identity, *words], cwd=desk.folder, check=True, capture_output=True)


def test_without_a_baseline_a_run_is_inconclusive_until_one_is_accepted(small: Desk) -> None:
    """The command that the run prints is the one that makes the next run pass."""
    done = small.run("run", "small")
    assert done.code == 3, done.text
    run_id = small.last_record()["id"]
    assert f"benchsuite accept {run_id} --reason" in done.text
    assert small.run("accept", run_id, "--reason", "first").code == 0
    done = small.run("run", "small")
    assert done.code == 0, done.text
    assert small.run("diff", "last").code == 0


def test_what_moves_is_named_with_what_differs(small: Desk) -> None:
    """Another KV type changes KV and is named as the difference; both commands say the same."""
    # build 10434 of the test wheel dies on some CPUs when K is quantised
    small.run("run", "small", "--server", "embedded")
    small.run("accept", "last", "--reason", "first")
    done = small.run("run", "small", "--server", "embedded", "--set", "cache-type-k=q8_0")
    assert done.code == 1, done.text
    assert "kv_mib" in done.text
    assert "cache-type-k" in done.text
    diff = small.run("diff", "baselines", "last")
    assert diff.code == 1
    assert "kv_mib" in diff.text
    rows = json.loads(small.run("diff", "baselines", "last", "--json").out)["rows"]
    assert any(row["series"] == "kv_mib" and row["state"] == "changed" for row in rows)


def test_ci_may_not_accept(small: Desk) -> None:
    """Baselines move by a person's hand."""
    small.run("run", "small")
    done = small.run("accept", "last", "--reason", "first", CI="true")
    assert done.code == 2, done.text
    assert not (small.folder / "baselines").exists()


def test_a_failed_run_is_not_accepted(small: Desk) -> None:
    """A server that failed has no numbers to hold others to."""
    small.run("run", "small", "--set", "cache-type-v=q8_0", "--set", "flash-attn=off")
    done = small.run("accept", "last", "--reason", "no")
    assert done.code == 2, done.text
    assert not (small.folder / "baselines").exists()


def test_runs_and_revisions_can_judge_too(small: Desk) -> None:
    """`--against` a run, a revision and another deployment; `diff git:REV` against the tree."""
    small.run("run", "small")
    first = small.last_record()["id"]
    done = small.run("run", "small", "--against", first)
    assert done.code == 0, done.text
    small.run("accept", first, "--reason", "first")
    _git(small, "init", "-q")
    _git(small, "add", "baselines")
    _git(small, "commit", "-qm", "baselines")
    done = small.run("run", "small", "--against", "git:HEAD")
    assert done.code == 0, done.text
    assert small.run("diff", "git:HEAD").code == 0
    moved = small.run("run", "small", "--set", "ctx-size=2048")
    assert moved.code == 1, moved.text
    assert small.run("accept", "last", "--reason", "larger").code == 0
    diff = small.run("diff", "git:HEAD")
    assert diff.code == 1, diff.text
    assert "kv_mib" in diff.text
    model = str(small.tiny_model())
    done = small.run("run", "small", "--model", model, "--against", "tiny")
    assert done.code == 1, done.text
    assert small.run("run", "small", "--against", "git:nothing").code == 2


def test_a_broken_baseline_is_named_before_anything_is_started(small: Desk) -> None:
    """A merge conflict that nobody solved."""
    small.run("run", "small")
    small.run("accept", "last", "--reason", "first")
    (file,) = (small.folder / "baselines").rglob("config.json")
    file.write_text("<<<<<<< HEAD\n" + file.read_text())
    before = len(list((small.folder / ".benchsuite" / "runs").glob("*/server.*.log")))
    done = small.run("run", "small")
    assert done.code == 2, done.text
    assert "config.json:1" in done.text
    after = len(list((small.folder / ".benchsuite" / "runs").glob("*/server.*.log")))
    assert after == before


def test_a_changed_scenario_needs_a_new_baseline(small: Desk) -> None:
    """The digest tells that the numbers belong to other steps; titles and gates may change."""
    small.run("run", "small")
    small.run("accept", "last", "--reason", "first")
    path = small.folder / "scenarios" / "small.yaml"
    path.write_text(SMALL.replace("title: small", "title: other words"))
    assert small.run("run", "small").code == 0
    path.write_text(SMALL.replace("max_tokens: 2", "max_tokens: 3"))
    done = small.run("run", "small")
    assert done.code == 3, done.text
    assert "accept" in done.text


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], 0),
        (["--set", "ctx-size=2048"], 1),
        (["--set", "no-such-flag=1"], 125),
        (["--variant", "nothing"], 128),
        (["--set", "cache-type-v=q8_0", "--set", "flash-attn=off"], 125),
    ],
)
def test_bisect_gets_the_codes_that_git_expects(small: Desk, words: list[str], code: int) -> None:
    """Good, bad, skip where the build cannot be judged, stop where the command is wrong."""
    small.run("run", "small")
    small.run("accept", "last", "--reason", "first")
    assert small.run("run", "small", "--bisect", *words).code == code


def test_records_are_written_where_they_are_asked_for(small: Desk) -> None:
    """`--json FILE` and `--out DIR`."""
    done = small.run("run", "small", "--json", "out.json", "--out", "elsewhere")
    assert done.code == 3
    body = json.loads((small.folder / "out.json").read_text())
    assert body["runs"][0]["scenario"] == "small"
    assert list((small.folder / "elsewhere").glob("*/record.json"))
    assert not (small.folder / ".benchsuite").exists()


def test_trials_are_fresh_launches(small: Desk) -> None:
    """Each has its own log and its own numbers."""
    small.run("run", "small", "--trials", "2")
    record = small.last_record()
    assert [launch["trial"] for launch in record["launches"]] == [1, 2]
    assert {m["trial"] for m in record["measurements"] if m["name"] == "kv_mib"} == {1, 2}
