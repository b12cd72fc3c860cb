"""A scenario file to a frozen Scenario, or every problem in it at `file:line`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from benchsuite.errors import ScenarioError
from benchsuite.model.scenario import STORED, Scenario, VariantSpec
from benchsuite.scenario import nodes
from benchsuite.scenario.build import (
    PromptBook,
    build_needs,
    build_sessions,
    build_variants,
    check_slots,
    items,
)
from benchsuite.scenario.gates import Declared, build_gates
from benchsuite.scenario.kinds import Found, Problems
from benchsuite.scenario.known_issues import build_known_issues
from benchsuite.scenario.shape import NAME_EXPECTED, NAME_PATTERN, SCENARIO
from benchsuite.scenario.steps import StepBuilder
from benchsuite.scenario.words import remedy


def load_scenario(path: Path, display: str | None = None) -> Scenario:
    """Read and check a scenario file.

    Args:
        path: The file; its stem is the scenario's name.
        display: How problems and reports name the file; the path itself if None.

    Raises:
        ScenarioError: The file has problems; all that could be found are named.
    """
    shown = str(path) if display is None else display
    root = nodes.read_nodes(path, shown)
    return build_scenario(root, path.stem, shown)


def parse_scenario(text: str, name: str = "scenario", display: str = "scenario.yaml") -> Scenario:
    """As `load_scenario`, from text."""
    return build_scenario(nodes.parse_nodes(text, display), name, display)


def build_scenario(root: nodes.Node, name: str, display: str) -> Scenario:
    """A Scenario from the nodes of its file.

    Raises:
        ScenarioError: As `load_scenario`.
    """
    problems = Problems(display)
    if re.fullmatch(NAME_PATTERN, name) is None:
        problems.say(1, f"the file's name '{name}' names the scenario: expected {NAME_EXPECTED}")
    found = SCENARIO.read(root, "the scenario", 1, problems)
    scenario = _build(found, name, display, problems)
    if problems:
        raise ScenarioError(problems.sentences())
    return scenario


def _build(found: Found, name: str, display: str, problems: Problems) -> Scenario:
    prompts = PromptBook(found.get("prompts"), problems)
    sessions = build_sessions(found.get("sessions"), prompts, problems)
    needs = build_needs(found.get("server"), problems)
    variants = build_variants(found.get("variants"), sessions, problems)
    check_slots(needs, sessions, variants, problems)
    builder = StepBuilder(sessions, prompts, problems)
    steps = builder.build(found.get("steps"))
    reference = _reference(found, variants, builder, problems)
    # a step that could not be read may have made what a gate asks for
    read = items(found.get("steps"))
    if read and all(item.value is not None for item in read):
        declared = Declared(sessions, variants, builder.produced)
        gates = build_gates(found.get("gates"), declared, problems)
    else:
        gates = ()
    issues = build_known_issues(found.get("known_issues"), variants, found.get("gates"), problems)
    if not problems:
        _check_unused(sessions, prompts, builder, problems)
    return Scenario(
        name=name,
        path=display,
        title=found.plain("title", ""),
        description=found.plain("description", ""),
        tags=tuple(item.value for item in items(found.get("tags")) if item.value is not None),
        server=needs,
        sessions=sessions,
        steps=steps,
        variants=variants,
        reference=reference,
        gates=gates,
        known_issues=issues,
    )


def _reference(
    found: Found, variants: dict[str, VariantSpec], builder: StepBuilder, problems: Problems
) -> str:
    """The variant that vectors are compared with; empty where no step takes any."""
    written = found.get("reference")
    name: str = found.plain("reference", next(iter(variants)))
    if STORED in variants and builder.produced.vectors:
        problems.say(
            variants[STORED].line,
            f"a variant named '{STORED}' cannot be told from stored vectors in the label "
            "'against'; choose another name",
        )
    if written is not None and name not in variants:
        hint = remedy(name, variants, "variants")
        problems.say(written.line, f"unknown variant '{name}'{hint}")
    elif written is not None and not builder.produced.vectors:
        problems.say(
            written.line, "'reference' is for logprobs and embedding steps, and there is none"
        )
    name = name if builder.produced.vectors else ""
    builder.produced.reference = name if not name or name in variants else None
    return name


def _check_unused(
    sessions: dict[str, Any], prompts: PromptBook, builder: StepBuilder, problems: Problems
) -> None:
    # only in a file without other problems, where it cannot be their consequence
    for name, session in sessions.items():
        if name not in builder.produced.turns:
            problems.say(session.line, f"session '{name}' is never used by a step; remove it")
    for name, line in prompts.unused():
        problems.say(line, f"prompt '{name}' is never used; remove it")


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of scenario files, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "benchsuite scenario",
        **SCENARIO.schema(),
    }
