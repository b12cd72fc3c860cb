"""The layers look only leftwards, heavy imports stay where they may be, names on the page exist."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "benchsuite"

ORDER = (
    ("redact", "regular"),
    ("errors", "units"),
    ("patterns",),
    ("model",),
    ("metrics",),
    ("logform", "scenario", "store"),
    ("client",),
    ("server",),
    ("drive",),
    ("collect",),
    ("stats",),
    ("gate",),
    ("report",),
    ("pipeline",),
    ("cli", "pytest_plugin"),
)
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}

ASYNCIO = {"client", "drive", "collect", "server", "pipeline"}
MODULES = sorted(PACKAGE.rglob("*.py"))


def _package(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


TABLES = {"stats", "report"}  # gates use them through stats


def _imports(path: Path) -> list[str]:
    """Every module imported anywhere in the file, also inside functions."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.append(node.module or "")
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_look_leftwards(path: Path) -> None:
    """No package knows of one further right in the order of the architecture page."""
    own = _package(path)
    if own in ("__init__", "__main__"):
        return
    for name in _imports(path):
        parts = name.split(".")
        if parts[0] != "benchsuite" or len(parts) == 1:
            continue
        assert RANK[parts[1]] <= RANK[own], f"{path} imports {name}"
        if parts[1] != own:
            assert RANK[parts[1]] < RANK[own], f"{path} imports its neighbour {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_asyncio_and_tables_stay_in_their_rooms(path: Path) -> None:
    """asyncio only where things wait; pandas and scipy only where figures are made or shown."""
    roots = {name.split(".")[0] for name in _imports(path)}
    if _package(path) not in TABLES:
        assert not roots & {"pandas", "scipy"}
    if _package(path) not in ASYNCIO:
        assert "asyncio" not in roots


def test_help_is_light() -> None:
    """`benchsuite --help` loads neither httpx, pandas, scipy, yaml, msgspec nor rich."""
    script = (
        "import sys\n"
        "from benchsuite.cli.main import run_command_line\n"
        "code = run_command_line(['--help'])\n"
        "heavy = {'httpx', 'pandas', 'scipy', 'yaml', 'msgspec', 'rich', 'numpy', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)), code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.splitlines()[-1] == "[] 0"


def test_names_on_the_architecture_page_exist() -> None:
    """Every name and file that the page puts in code type is in the code."""
    page = (PACKAGE / "ARCHITECTURE.md").read_text()
    text = "\n".join(path.read_text() for path in MODULES)
    for name in re.findall(r"`([A-Za-z_][\w./]*)`", page):
        if name.endswith(".py"):
            assert (PACKAGE / name).is_file(), name
        elif name.endswith(".md"):
            assert (ROOT / name).is_file(), name
        elif name in RANK:
            known = (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()
            assert known, name
        else:
            assert re.search(rf"\b{re.escape(name)}\b", text), name
