"""How pytest-xdist spreads items: those of one scenario file go to one worker.

Registered only where xdist is active. Other `--dist` modes than `load` are the user's own choice;
there, too, a scenario is run once (`runs`), and the workers that did not run it wait for its
record.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

_SUFFIXES = (".yaml", ".yml")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """For `--dist load`: as it is, but with a scenario file as one piece; None for other modes."""
    if config.getoption("dist") != "load" or not _asks_for_scenarios(config):
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByScenario(LoadScopeScheduling):  # type: ignore[misc]  # xdist is not always installed
        """A scenario file is one piece of work, every other item is one of its own."""

        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    return ByScenario(config, log)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what the workers told each other of runs; they have ended."""
    manager = getattr(config.pluginmanager.getplugin("dsession"), "nodemanager", None)
    if manager is not None:
        shutil.rmtree(folder_of(manager.testrunuid), ignore_errors=True)


def folder_of(uid: str) -> Path:
    """Where the workers of a session tell each other of runs."""
    return Path(tempfile.gettempdir()) / f"benchsuite-pytest-{uid}"


def scope_of(nodeid: str) -> str:
    """What must stay together with an item: its scenario file, or nothing but itself."""
    path, _, inside = nodeid.partition("::")
    return path if inside and path.endswith(_SUFFIXES) else nodeid


def _asks_for_scenarios(config: pytest.Config) -> bool:
    """Whether the command line names scenario files, or folders that hold some at their top.

    Workers collect, so the main process cannot know; a whole tree is not searched.
    """
    from benchsuite.pytest_plugin import PATTERNS
    from benchsuite.pytest_plugin.recognise import is_scenario

    patterns = config.getini(PATTERNS)
    for word in config.args:
        path = config.invocation_params.dir / word.partition("::")[0]
        try:
            files = list(path.iterdir()) if path.is_dir() else [path]
        except OSError:
            continue
        if any(f.suffix in _SUFFIXES and is_scenario(f, config.rootpath, patterns) for f in files):
            return True
    return False
