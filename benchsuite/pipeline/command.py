"""`benchsuite run` from its options to its exit code: the one place where runs are printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchsuite.errors import ExitCode, UsageError
from benchsuite.gate.verdict import worst_code
from benchsuite.model.limits import Limits
from benchsuite.model.record import Failure
from benchsuite.pipeline.options import RunOptions
from benchsuite.pipeline.prepare import Prepared, prepare
from benchsuite.pipeline.run import Finished, run_scenario
from benchsuite.report.json import render_json
from benchsuite.report.layout import safe, safe_json, style_for
from benchsuite.report.plan import render_plan
from benchsuite.report.progress import make_progress
from benchsuite.report.terminal import render_run
from benchsuite.scenario.workspace import Workspace, load_workspace
from benchsuite.store.files import write_atomic


def read_options(given: Mapping[str, Any]) -> RunOptions:
    """The options as the command line gave them.

    Args:
        given: By the names of click's parameters; those that are not options of a run are left.
    """
    fields = {field.name for field in msgspec.structs.fields(RunOptions)}
    chosen = {
        name: tuple(value) if isinstance(value, list | tuple) else value
        for name, value in given.items()
        if name in fields
    }
    return msgspec.convert({**chosen, "limits": given_limits(given)}, RunOptions)


def given_limits(given: Mapping[str, Any]) -> dict[str, float]:
    """The limits that the command line gave, in seconds by the names of `Limits`.

    Args:
        given: By the names of click's parameters.

    Raises:
        UsageError: Two of them contradict each other.
    """
    limits = {
        name: given[f"{name}_limit"]
        for name in Limits.__struct_fields__
        if given.get(f"{name}_limit") is not None
    }
    if given.get("no_wait"):
        if limits.get("lock"):
            raise UsageError("--no-wait and --lock-limit contradict each other; keep one of them")
        limits["lock"] = 0.0
    return limits


def run_command(
    words: Sequence[str],
    given: Mapping[str, Any],
    *,
    json_to: str | None,
    reports: Mapping[str, str] | None = None,
) -> tuple[int, list[Failure]]:
    """Run every scenario meant by `words` and print what came of it.

    Args:
        words: Stems, paths, `tag:NAME`.
        given: The command's other options.
        json_to: Where the records go as JSON: a file, `-` for standard output alone, or None.
        reports: Format -> file of reports of all the runs together.

    Returns:
        The exit code, of several runs the worst, and how launches failed.
    """
    options = read_options(given)
    workspace = load_workspace()
    prepared = [
        prepare(workspace, scenario, options, os.environ) for scenario in workspace.find(words)
    ]
    finished = _run_all(
        prepared, workspace, quiet=given["quiet"], verbose=given["verbose"], json_to=json_to
    )
    _write_reports(finished, workspace, reports or {})
    return worst_code([_code(done) for done in finished]), _failures(finished)


def show_command(word: str, given: Mapping[str, Any]) -> str:
    """What `run` would do with one scenario, in words; nothing is started.

    Args:
        word: A stem or path that means one scenario.
        given: The command's other options.
    """
    options = read_options(given)
    workspace = load_workspace()
    scenarios = workspace.find([word])
    texts = []
    for scenario in scenarios:
        prepared = prepare(workspace, scenario, options, os.environ)
        commands = {
            variant.name: prepared.target.command(variant)
            for variant in prepared.plan.variants
            if prepared.target is not None and variant.not_applicable is None
        }
        behind = [
            None if prepared.target is None else prepared.target.behind(variant)
            for variant in prepared.plan.variants
            if variant.not_applicable is None
        ]
        texts.append(render_plan(prepared.plan, commands, behind[0] if behind else None))
    return "\n".join(texts)


def _run_all(
    prepared: Sequence[Prepared],
    workspace: Workspace,
    *,
    quiet: bool,
    verbose: bool,
    json_to: str | None,
) -> list[Finished]:
    finished: list[Finished] = []
    for one in prepared:
        progress = make_progress(os.environ, quiet=quiet)
        done = run_scenario(one, os.environ, progress)
        finished.append(done)
        if done.warning is not None:
            sys.stderr.write(f"warning: {safe(done.warning)}\n")
        if json_to != "-":
            text = render_run(
                done.record,
                done.baselines,
                stored=workspace.display(done.folder),
                style=style_for(sys.stdout, os.environ),
                verbose=verbose,
            )
            sys.stdout.write(text)
            sys.stdout.flush()
        if done.record.interrupted:
            break
    _write_json(finished, json_to)
    return finished


def _code(done: Finished) -> int:
    verdict = done.record.verdict
    return int(ExitCode.MACHINE_FAILED) if verdict is None else verdict.exit_code


def _failures(finished: Sequence[Finished]) -> list[Failure]:
    return [
        launch.failure
        for done in finished
        for launch in done.record.launches
        if launch.failure is not None
    ]


def _write_reports(
    finished: Sequence[Finished], workspace: Workspace, reports: Mapping[str, str]
) -> None:
    if not reports:
        return
    from benchsuite.pipeline.report import read_report_input, write_report
    from benchsuite.report.formats import format_named

    report = read_report_input([str(done.folder) for done in finished], workspace)
    for name, file in reports.items():
        write_report(format_named(name).render(report), file)


def _write_json(finished: Sequence[Finished], json_to: str | None) -> None:
    if json_to is None:
        return
    data = render_json([done.record for done in finished])
    if json_to == "-":
        sys.stdout.write(safe_json(data))
        sys.stdout.flush()
        return
    write_atomic(Path(json_to).absolute(), data)
