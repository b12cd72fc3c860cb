"""One run per scenario file and session, whichever process of pytest-xdist asks first.

The process that runs holds a lock meanwhile; the others wait for it, and read the stored record.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchsuite.model.limits import Limits
from benchsuite.model.record import RunRecord
from benchsuite.model.scenario import Scenario
from benchsuite.pipeline.command import read_options
from benchsuite.pipeline.options import RunOptions
from benchsuite.pipeline.prepare import prepare
from benchsuite.pipeline.run import run_scenario
from benchsuite.pytest_plugin.distributed import folder_of
from benchsuite.report.progress import QuietProgress
from benchsuite.scenario.workspace import Workspace
from benchsuite.store.files import write_atomic
from benchsuite.store.locks import locked
from benchsuite.store.records import read_record

_WAIT_S = 6 * 3600.0  # for another worker's run, which has limits of its own


class Ran(msgspec.Struct, frozen=True):
    """A stored run, as one process tells the others."""

    folder: str
    shown: str  # the folder as the user would open it
    warning: str | None = None


def options_of(config: pytest.Config, variants: Iterable[str] = ()) -> RunOptions:
    """The options of a run as given to pytest.

    Args:
        config: Of the session.
        variants: The variants whose gates are asked for; those compared with come by themselves.
    """
    given: dict[str, Any] = {}
    for name in (
        *("deployment", "server", "model", "url", "api_key_env", "trials", "seed"),
        *("against", "machine", "out", "allow_new", "require_all", "no_wait"),
        *(f"{name}_limit" for name in Limits.__struct_fields__),
    ):
        value = config.getoption(f"benchsuite_{name}")
        if value is not None:
            given[name] = value
    given["sets"] = config.getoption("benchsuite_set") or []
    given["variants"] = sorted(variants)
    return read_options(given)


def run_once(
    config: pytest.Config,
    workspace: Workspace,
    scenario: Scenario,
    options: RunOptions,
    before: Callable[[], None],
) -> tuple[RunRecord, Ran]:
    """The record of a scenario's only run in this session.

    Args:
        config: Of the session.
        workspace: Where things are.
        scenario: Checked.
        options: Of the run; other options are another run.
        before: Called just before servers are started here.

    Raises:
        BenchsuiteError: As of `prepare` and `run_scenario`.
        KeyboardInterrupt: The run was interrupted; what was decided is stored.
    """
    shared = _shared_folder(config)
    if shared is None:
        return _run(workspace, scenario, options, before)
    key = hashlib.sha256(msgspec.json.encode((scenario.path, options))).hexdigest()[:16]
    told = shared / f"{key}.json"
    with locked(shared / key, wait_s=_WAIT_S):
        if told.exists():
            ran = msgspec.json.decode(told.read_bytes(), type=Ran)
            return read_record(Path(ran.folder)), ran
        record, ran = _run(workspace, scenario, options, before)
        write_atomic(told, msgspec.json.encode(ran))
    return record, ran


def _run(
    workspace: Workspace, scenario: Scenario, options: RunOptions, before: Callable[[], None]
) -> tuple[RunRecord, Ran]:
    prepared = prepare(workspace, scenario, options, os.environ)
    before()
    done = run_scenario(prepared, os.environ, QuietProgress())
    if done.record.interrupted:
        raise KeyboardInterrupt
    return done.record, Ran(str(done.folder), workspace.display(done.folder), done.warning)


def _shared_folder(config: pytest.Config) -> Path | None:
    """Where the workers of one session tell each other of runs; None without workers."""
    told = getattr(config, "workerinput", None)
    if told is None:
        return None
    folder = folder_of(told["testrunuid"])
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
