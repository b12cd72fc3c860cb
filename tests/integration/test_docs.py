"""What the docs tell people to type does what the docs say."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.desk import REPOSITORY, Desk, wrapper
from tests.integration.doc_examples import File, Typed, examples_of, first_missing

pytestmark = pytest.mark.server

PAGES = sorted(
    page
    for page in (REPOSITORY / "docs").rglob("*.md")
    if "```console test\n" in page.read_text(encoding="utf-8")
)


def _shim(path: Path, module: str, *words: str) -> None:
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} {" ".join(words)} "$@"\n')
    path.chmod(0o755)


@pytest.fixture
def shell(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A reader's folder with a llama-server and a fork's, and benchsuite and pytest on PATH."""
    programs = tmp_path_factory.mktemp("bin")
    _shim(programs / "benchsuite", "benchsuite")
    points = importlib.metadata.entry_points(group="pytest11")
    plugin = () if "benchsuite" in points.names else ("-p", "benchsuite.pytest_plugin")
    _shim(programs / "pytest", "pytest", *plugin)
    wrapper(desk.folder / "llama-server", [])
    (desk.folder / "fork").mkdir()
    wrapper(desk.folder / "fork" / "llama-server", [])
    desk.env = {key: value for key, value in desk.env.items() if not key.startswith("PYTEST")}
    desk.env["PATH"] = f"{programs}{os.pathsep}{desk.env['PATH']}"
    desk.env["COLUMNS"] = "80"
    return desk


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY / "docs")))
def test_examples_do_what_the_page_says(page: Path, shell: Desk) -> None:
    """Files are written, commands typed in order, and exit codes and output are those shown."""
    text = page.read_text(encoding="utf-8")
    if "benchsuite model tiny model.gguf" not in text:
        shell.run("model", "tiny", "model.gguf")
    for example in examples_of(text):
        match example:
            case File(path, content):
                file = shell.folder / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content)
            case Typed(command, code, shown):
                done = subprocess.run(
                    ["/bin/sh", "-c", command],
                    cwd=shell.folder,
                    env=shell.env,
                    capture_output=True,
                    text=True,
                    timeout=240,
                )
                printed = f"{done.stdout}\n{done.stderr}"
                assert done.returncode == code, f"$ {command}\n{printed}"
                missing = first_missing(shown, printed)
                assert missing is None, f"$ {command}\nlacks: {missing}\n{printed}"


def test_the_tutorial_is_tested() -> None:
    """The pages that beginners follow have examples that are run."""
    names = {str(page.relative_to(REPOSITORY / "docs")) for page in PAGES}
    assert {"tutorial.md", "how-to/pytest.md", "how-to/fork.md", "how-to/cuda.md"} <= names


def test_what_is_not_printed_is_missed() -> None:
    """Lines must be printed in their order, whatever the width of the table."""
    printed = "default  kv_mib\n     pass\nPASS  x: 1 gate passed\n"
    assert first_missing(["default kv_mib ... pass", "PASS x: ..."], printed) is None
    assert first_missing(["PASS x: ...", "default kv_mib"], printed) == "default kv_mib"
    assert first_missing(["FAIL"], printed) == "FAIL"
