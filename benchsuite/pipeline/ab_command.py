"""`benchsuite ab` from its options to its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchsuite.errors import ExitCode, UsageError
from benchsuite.model.ab import BASELINE, CANDIDATE, AbRules, Side
from benchsuite.pipeline.ab import AbOptions, prepare_ab, run_ab
from benchsuite.pipeline.command import read_options
from benchsuite.pipeline.options import RunOptions
from benchsuite.report.ab import render_ab, render_ab_json
from benchsuite.report.layout import safe_json, style_for
from benchsuite.report.progress import make_progress
from benchsuite.scenario.workspace import load_workspace
from benchsuite.store.files import write_atomic
from benchsuite.units import parse_quantity

_OWN = ("deployment", "server", "model")
"""Options that each side may have for itself, in place of the common one."""


def ab_command(word: str, given: Mapping[str, Any]) -> int:
    """Compare two sides on the scenario meant by `word`, print what came of it.

    Args:
        word: A stem or path.
        given: The command's other options, by the names of click's parameters.

    Returns:
        The exit code.
    """
    options = read_ab_options(given)
    workspace = load_workspace()
    found = workspace.find([word])
    if len(found) != 1:
        raise UsageError(f"ab takes one scenario, '{word}' means {len(found)}")
    prepared = prepare_ab(workspace, found[0], options, os.environ)
    finished = run_ab(prepared, os.environ, make_progress(os.environ, quiet=given["quiet"]))
    record, json_to = finished.record, given["json_to"]
    if json_to != "-":
        stored = workspace.display(finished.folder)
        style = style_for(sys.stdout, os.environ)
        sys.stdout.write(render_ab(record, stored=stored, style=style))
    if json_to == "-":
        sys.stdout.write(safe_json(render_ab_json(record)))
    elif json_to is not None:
        write_atomic(Path(json_to).absolute(), render_ab_json(record))
    sys.stdout.flush()
    verdict = record.verdict
    return int(ExitCode.MACHINE_FAILED) if verdict is None else verdict.exit_code


def read_ab_options(given: Mapping[str, Any]) -> AbOptions:
    """The options as the command line gave them.

    Raises:
        UsageError: They contradict each other, or the tolerance is no percentage.
    """
    try:
        tolerance = parse_quantity(given["tolerance"], "%")
    except ValueError as error:
        raise UsageError(f"--tolerance {error}; expected a percentage such as 10%") from error
    if not 0 < tolerance < 100:  # no throughput can fall by more, so that nothing would fail
        raise UsageError(f"--tolerance {given['tolerance']}: expected above 0% and below 100%")
    sides = {side: _side_options(given, side) for side in (BASELINE, CANDIDATE)}
    rules = AbRules(latency_percent=tolerance, pairs=given["pairs"], exact=given["exact"])
    return AbOptions(sides[BASELINE], sides[CANDIDATE], rules)


def _side_options(given: Mapping[str, Any], side: Side) -> RunOptions:
    own = dict(given)
    for name in _OWN:
        value = given[f"{side}_{name}"]
        if value is None:
            continue
        if given[name] is not None:
            raise UsageError(
                f"--{name} is for both sides; with --{side}-{name} give the other side its own too"
            )
        own[name] = value
    flags = {_flag(text) for text in given["sets"]}
    for text in given[f"{side}_set"]:
        if _flag(text) in flags:
            raise UsageError(
                f"--set {_flag(text)} is for both sides; with --{side}-set give the other side "
                "its own too"
            )
    own["sets"] = (*given["sets"], *given[f"{side}_set"])
    return read_options(own)


def _flag(text: str) -> str:
    return text.partition("=")[0].strip().lstrip("-").replace("_", "-")
