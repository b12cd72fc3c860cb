"""`git bisect run` with the script of docs/bisect.md names the commit that broke the server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.desk import REPOSITORY, Desk, wrapper
from tests.integration.server_under_test import needs_embedded

pytestmark = [
    pytest.mark.server,
    needs_embedded,
    pytest.mark.skipif(sys.platform == "win32", reason="the server is a script"),
]

SCENARIO = """title: two sessions that begin alike
server: {parallel: 2, ctx-size: {min: 512, per: slot}}
prompts:
  system: {tokens: 100}
sessions:
  A: {system: system}
  B: {system: system}
steps:
  - turn: {session: A, user: {tokens: 8}, max_tokens: 2}
  - turn: {session: B, user: {tokens: 8, seed: 1}, max_tokens: 2}
gates:
  - {metric: 'cached_tokens{session="B",turn="1"}', equals: baseline}
"""
PLANTED = 8  # the commit, from 1
BROKEN = 5  # half way, where the search begins
COMMITS = 10


class Repository:
    """A repository whose `start.sh` and `server.flags` make the server."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.folder = desk.folder
        self.commits: list[str] = []
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.email", "dev@example.com")
        self.git("config", "user.name", "Dev")

    def git(self, *words: str) -> str:
        """Run git and return what it prints."""
        done = subprocess.run(
            ["git", *words], cwd=self.folder, env=self.desk.env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def commit(self, words: str) -> None:
        """Commit everything."""
        self.git("add", "-A")
        self.git("commit", "-q", "-m", words)
        self.commits.append(self.git("rev-parse", "HEAD"))


@pytest.fixture
def repository(desk: Desk) -> Repository:
    """Ten commits: the fifth does not start, the eighth loses the shared prefix."""
    made = Repository(desk)
    folder = made.folder
    (folder / ".gitignore").write_text(".benchsuite/\n")
    (folder / "scenarios").mkdir()
    (folder / "scenarios" / "prefix.yaml").write_text(SCENARIO)
    (folder / "benchsuite.toml").write_text('[deployments.app]\nserver = "./start.sh"\n')
    start = wrapper(folder / "start.sh", [])
    good = start.read_text()
    for number in range(1, COMMITS + 1):
        flags = ["--threads", "1"]
        if number >= 3:
            flags += ["--batch-size", "256"]
        if number >= PLANTED:
            flags += ["--no-cache-prompt"]
        text = good.replace("extra, kill_at, abort_on = []", f"extra, kill_at, abort_on = {flags}")
        assert text != good
        if number == BROKEN:
            # answers --help, and dies of a fault of its own when it is started
            dying = 'if "--help" not in sys.argv: sys.exit("broken")\n'
            text = text.replace('if "--help"', f'{dying}if "--help"', 1)
        start.write_text(text)
        (folder / "notes.txt").write_text(f"change {number}\n")
        made.commit(f"change {number}")
    return made


def test_git_bisect_run_names_the_planted_commit(repository: Repository) -> None:
    """Among ten commits, over one that does not start, with the script of the documentation."""
    page = (REPOSITORY / "docs" / "bisect.md").read_text()
    (script,) = re.findall(r"```sh\n(#!/bin/sh\n.*?)```", page, re.DOTALL)
    desk, git = repository.desk, repository.git
    first, last = repository.commits[0], repository.commits[-1]
    git("checkout", "-q", first)
    measured = desk.run("run", "prefix", "-d", "app")
    assert measured.code == 3, measured.text  # no baseline yet
    good_run = desk.last_record()["id"]
    judge = desk.folder / ".benchsuite" / "judge.sh"
    judge.write_text(
        script.replace("make -j8 || exit 125\n", "")
        .replace("SCENARIO", "prefix")
        .replace("DEPLOYMENT", "app")
        .replace("RUN", good_run)
        .replace("benchsuite run", f"{sys.executable} -m benchsuite run")
    )
    judge.chmod(0o755)
    git("bisect", "start", last, first)
    told = git("bisect", "run", str(judge))
    assert f"{repository.commits[PLANTED - 1]} is the first bad commit" in told
    assert git("rev-parse", "refs/bisect/bad") == repository.commits[PLANTED - 1]
    log = git("bisect", "log")
    # the one that does not start was met, and passed over
    assert f"git bisect skip {repository.commits[BROKEN - 1]}" in log
    trend = desk.run("trend", 'cached_tokens{session="B",turn="1"}', "-d", "app")
    assert trend.code == 0, trend.text
    assert repository.commits[PLANTED - 1][:7] in trend.text


@pytest.mark.parametrize(
    ("number", "code"), [(1, 0), (PLANTED, 1), (BROKEN, 125)], ids=["good", "bad", "broken"]
)
def test_each_kind_of_commit_has_its_code(repository: Repository, number: int, code: int) -> None:
    """Against the run of the first commit."""
    repository.git("checkout", "-q", repository.commits[0])
    repository.desk.run("run", "prefix", "-d", "app")
    good_run = repository.desk.last_record()["id"]
    repository.git("checkout", "-q", repository.commits[number - 1])
    words = ("run", "prefix", "-d", "app", "--against", good_run, "--bisect")
    assert repository.desk.run(*words).code == code


def test_a_server_that_dies_once_it_was_healthy_is_bad(repository: Repository) -> None:
    """Code 4 otherwise; to git it must be 1."""
    wrapper(Path(repository.folder / "start.sh"), [], kill_at_request=2)
    assert repository.desk.run("run", "prefix", "-d", "app").code == 4
    assert repository.desk.run("run", "prefix", "-d", "app", "--bisect").code == 1
