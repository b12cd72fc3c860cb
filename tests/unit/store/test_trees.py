"""Baselines as they were at a git revision."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from benchsuite.errors import UsageError
from benchsuite.store.baselines import load_baselines
from benchsuite.store.records import read_record
from benchsuite.store.trees import FolderTree, baselines_at

GOLDEN = Path(__file__).parents[2] / "golden" / "pass"

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def git(folder: Path, *args: str) -> None:
    """Run git with a user of its own."""
    who = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    subprocess.run(["git", "-C", str(folder), *who, *args], check=True, capture_output=True)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository whose first commit holds baselines in a folder with a space in its name."""
    root = tmp_path / "repo"
    shutil.copytree(GOLDEN / "baselines", root / "my tests" / "baselines")
    git(tmp_path, "init", "-q", str(root))
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    git(root, "tag", "v1")
    return root


def test_a_revision_reads_like_the_folder_it_was(repo: Path) -> None:
    """Also where the folder is gone since."""
    folder = repo / "my tests" / "baselines"
    on_disk = FolderTree(folder)
    tree = baselines_at("v1", folder)
    assert tree.paths() == on_disk.paths()
    assert all(tree.read(path) == on_disk.read(path) for path in tree.paths())
    names = on_disk.names("tiny/scenarioB")
    assert tree.names("tiny/scenarioB") == names
    shutil.rmtree(repo / "my tests")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "gone")
    tree = baselines_at("HEAD~1", folder)
    record = read_record(GOLDEN / "record.json")
    found = load_baselines([tree], "tiny", "scenarioB", record.fingerprint)
    assert {scope.state for scope in found.scopes.values()} == {"matching"}
    assert tree.where("x") == "git:HEAD~1:my tests/baselines/x"
    assert not baselines_at("HEAD", folder).exists()


@pytest.mark.parametrize("revision", ["nope", "", "-n", "--help", "v1:my tests"])
def test_an_unknown_revision_is_refused(repo: Path, revision: str) -> None:
    """And none is taken for an option."""
    with pytest.raises(UsageError, match="revision"):
        baselines_at(revision, repo / "my tests" / "baselines")


def test_a_folder_in_no_repository_is_refused(tmp_path: Path) -> None:
    """With git's own reason."""
    with pytest.raises(UsageError, match="is in no git repository"):
        baselines_at("HEAD", tmp_path / "baselines")


def test_a_shallow_clone_says_how_to_get_the_history(repo: Path, tmp_path: Path) -> None:
    """As CI checks out."""
    git(repo, "commit", "--allow-empty", "-qm", "second")
    git(tmp_path, "clone", "-q", "--depth", "1", repo.as_uri(), "shallow")
    with pytest.raises(UsageError, match="shallow") as caught:
        baselines_at("HEAD~1", tmp_path / "shallow" / "my tests" / "baselines")
    assert "--unshallow" in (caught.value.hint or "")


def test_without_git_it_says_so(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, no traceback."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="needs git"):
        baselines_at("v1", repo / "my tests" / "baselines")


def test_links_are_not_followed(repo: Path) -> None:
    """A revision is data from others."""
    folder = repo / "my tests" / "baselines"
    (folder / "link").symlink_to("/etc/passwd")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "link")
    assert baselines_at("HEAD", folder).read("link") is None


@pytest.mark.parametrize(
    ("revision", "hint"),
    [
        ("origin/main", "git fetch --depth=1 origin main:refs/remotes/origin/main"),
        ("main", "git fetch --depth=1 origin main:refs/remotes/origin/main; then write git:origin"),
        ("HEAD~1", "git fetch --unshallow"),
        ("0123456789abcdef", "git fetch --unshallow"),
    ],
)
def test_a_branch_that_was_not_fetched_is_named_with_the_command_that_does(
    repo: Path, tmp_path: Path, revision: str, hint: str
) -> None:
    """As in CI, where a pull request's checkout has one commit; the command works as it is."""
    git(repo, "branch", "-M", "main")
    git(repo, "checkout", "-qb", "pr")
    git(repo, "commit", "--allow-empty", "-qm", "second")
    git(tmp_path, "clone", "-q", "--depth", "1", repo.as_uri(), "shallow")
    folder = tmp_path / "shallow" / "my tests" / "baselines"
    with pytest.raises(UsageError, match="this clone is shallow") as caught:
        baselines_at(revision, folder)
    said = caught.value.hint or ""
    assert hint in said
    command = re.search(r"git (fetch [^;()]*)", said)
    assert command is not None
    git(tmp_path / "shallow", *command[1].split())
    if revision.endswith("main"):
        assert baselines_at("origin/main", folder).paths()


def test_a_branch_of_the_remote_alone_is_named_so(repo: Path, tmp_path: Path) -> None:
    """A whole clone has no `main` of its own where it checked out another branch."""
    git(repo, "branch", "-M", "main")
    git(repo, "checkout", "-qb", "pr")
    git(tmp_path, "clone", "-q", repo.as_uri(), "whole")
    folder = tmp_path / "whole" / "my tests" / "baselines"
    with pytest.raises(UsageError, match=r"does not know the revision 'main'$") as caught:
        baselines_at("main", folder)
    assert "git:origin/main" in (caught.value.hint or "")
    with pytest.raises(UsageError) as caught:
        baselines_at("origin/new", folder)
    assert caught.value.hint == "fetch it: git fetch origin new:refs/remotes/origin/new"
