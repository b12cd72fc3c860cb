"""pytest plugin: scenario files as tests, and a launched llama-server as a fixture.

pytest loads this in every session of an environment that has benchsuite, so nothing but pytest and
the standard library is imported here; the rest comes when a scenario file is collected or the
fixture is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from benchsuite.pytest_plugin.served import LlamaServer

PATTERNS = "benchsuite_scenarios"
"""The ini option that names scenario files in place of their content."""

_SUFFIXES = (".yaml", ".yml")

_LIMITS = ("start", "idle", "token", "request", "step", "stop", "run", "lock")
"""The limits of `benchsuite run`, by the names of `benchsuite.model.limits.Limits`."""


def _seconds(text: str) -> float:
    """A length of time from what was typed; argparse tells of the ValueError."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return value


_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("deployment", {"metavar": "NAME", "help": "A deployment of benchsuite.toml."}),
    ("server", {"metavar": "PATH", "help": "The llama-server to launch."}),
    ("model", {"metavar": "PATH", "help": "The model (GGUF) to serve."}),
    ("url", {"metavar": "URL", "help": "Attach to a running server instead."}),
    ("api-key-env", {"metavar": "NAME", "help": "Variable that holds an attached server's key."}),
    ("variant", {"metavar": "V", "action": "append", "help": "Only this variant; repeatable."}),
    ("set", {"metavar": "FLAG=VALUE", "action": "append", "help": "Set a flag of the server."}),
    ("trials", {"metavar": "N", "type": int, "help": "Fresh launches per variant."}),
    ("seed", {"metavar": "N", "type": int, "help": "Other texts, same sizes."}),
    ("against", {"metavar": "X", "help": "Judge by this deployment's, run's or git:REV's."}),
    ("machine", {"metavar": "NAME", "help": "Name of a pool of equal machines."}),
    ("out", {"metavar": "DIR", "help": "Folder of runs."}),
    ("allow-new", {"action": "store_true", "help": "Let metrics pass that the baseline lacks."}),
    ("require-all", {"action": "store_true", "help": "What is not applicable fails."}),
    *(
        (f"{name}-limit", {"metavar": "S", "type": _seconds, "help": f"The {name} limit, seconds."})
        for name in _LIMITS
    ),
    ("no-wait", {"action": "store_true", "help": "Do not wait for other runs."}),
)
"""The options of `benchsuite run` that choose server, variants, baselines and limits."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options `--benchsuite-...`, which mean what those of `benchsuite run` mean."""
    group = parser.getgroup("benchsuite", "scenarios and servers of benchsuite")
    for name, words in _OPTIONS:
        group.addoption(
            f"--benchsuite-{name}", dest=f"benchsuite_{name.replace('-', '_')}", **words
        )
    parser.addini(
        PATTERNS,
        "files that are scenarios, as patterns below the root (scenarios/*.yaml); "
        "by default those YAML files that look like one",
        type="args",
        default=[],
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and have xdist send the items of a file to one worker."""
    config.addinivalue_line(
        "markers",
        "llama_server(flags=None, fresh=False): the server of the fixture llama_server: flags of "
        "llama-server by their long names, and whether it is started for this test alone",
    )
    if config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        from benchsuite.pytest_plugin import distributed

        config.pluginmanager.register(distributed, "benchsuite-distributed")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A scenario file; every other YAML file is left to others."""
    if file_path.suffix not in _SUFFIXES:
        return None
    from benchsuite.pytest_plugin.recognise import is_scenario

    if not is_scenario(file_path, parent.config.rootpath, parent.config.getini(PATTERNS)):
        return None
    from benchsuite.pytest_plugin.collect import ScenarioFile

    made: pytest.Collector = ScenarioFile.from_parent(parent, path=file_path)
    return made


@pytest.fixture
def llama_server(request: pytest.FixtureRequest) -> Iterator[LlamaServer]:
    """A healthy llama-server: `.url`, `.api_key`, `.client` (httpx), `.log`.

    Tests that ask for the same flags share one, started at the first of them; the mark
    `llama_server(flags={"parallel": 2}, fresh=True)` chooses flags, and a server of its own.
    A server that died during the test makes it an error.
    """
    from benchsuite.pytest_plugin.served import serve

    yield from serve(request)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop what the fixture started."""
    del config
    served = sys.modules.get("benchsuite.pytest_plugin.served")
    if served is not None:
        served.stop()
