"""Words that a shell completes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def complete(folder: Path, *words: str) -> list[str]:
    """What bash is given for the last of `words`, typed in a folder."""
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "_BENCHSUITE_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "benchsuite"], cwd=folder, env=env, capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder with a scenario, a deployment and two runs."""
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "my-own.yaml").write_text("broken: [")  # nobody reads it
    (tmp_path / "benchsuite.toml").write_text('[deployments.live]\nurl = "http://h:1"\n')
    for name in ("20260101T000000Z-a-1", "20260102T000000Z-a-2"):
        (tmp_path / ".benchsuite" / "runs" / name).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("benchsuite", "ac"), ["accept"]),
        (("benchsuite", "run", "my"), ["my-own"]),
        (("benchsuite", "run", "scenarioA", "scenarioB"), ["scenarioB"]),
        (("benchsuite", "show", "scenarioB"), ["scenarioB"]),
        (("benchsuite", "run", "-d", "l"), ["live"]),
        (("benchsuite", "accept", "l"), ["last"]),
        (("benchsuite", "diff", "2"), ["20260102T000000Z-a-2", "20260101T000000Z-a-1"]),
        (("benchsuite", "run", "--tri"), ["--trials"]),
    ],
    ids=" ".join,
)
def test_names_complete(folder: Path, words: tuple[str, ...], found: list[str]) -> None:
    """Commands, the user's and shipped scenarios, deployments, runs and options complete."""
    assert [line.partition(",")[2] for line in complete(folder, *words)] == found


def test_a_path_is_left_to_the_shell(folder: Path) -> None:
    """A word with a slash is a file's."""
    assert complete(folder, "benchsuite", "run", "scenarios/my") == ["file,scenarios/my"]


def test_broken_configuration_completes_nothing(folder: Path) -> None:
    """A keypress is no place for an error."""
    (folder / "benchsuite.toml").write_text("[deployments")
    assert complete(folder, "benchsuite", "run", "my") == []


def test_completing_a_scenario_loads_nothing_heavy(folder: Path) -> None:
    """Neither YAML nor HTTP nor numbers are imported for a name."""
    script = (
        "import sys\n"
        "from benchsuite.cli.completing import complete_scenario\n"
        "print([one.value for one in complete_scenario(None, None, 'my')])\n"
        "heavy = {'httpx', 'pandas', 'scipy', 'yaml', 'rich', 'numpy', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["['my-own']", "[]"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_for_our_variable(shell: str, tmp_path: Path) -> None:
    """What is printed asks benchsuite by the variable that it answers to."""
    done = subprocess.run(
        [sys.executable, "-m", "benchsuite", "completion", shell],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"_BENCHSUITE_COMPLETE={shell}_complete" in done.stdout
