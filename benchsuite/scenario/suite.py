"""A suite file to a frozen Suite, or every problem in it at `file:line`.

Knows the form of a suite; which scenarios and deployments there are is the pipeline's to see.
"""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path, PurePosixPath
from typing import Any

from benchsuite.errors import ScenarioError
from benchsuite.model.deployment import TINY
from benchsuite.model.suite import Output, Quarantine, Suite, SuiteEntry
from benchsuite.scenario import nodes
from benchsuite.scenario.build import items
from benchsuite.scenario.containers import ByForm, Key, ListOf, MapOf, Record
from benchsuite.scenario.kinds import FlagSetting, Found, Problems, Quantity, Text, Whole, YesNo
from benchsuite.scenario.known_issues import read_date
from benchsuite.scenario.shape import NAME_EXPECTED, NAME_PATTERN

_NAME = Text(pattern=NAME_PATTERN, expected=NAME_EXPECTED)
_POLICY = Key(
    Text(("block", "advise")),
    "advise: what the gates decide is shown and does not move the exit code; a crash does.",
)
_REQUIRE_ALL = Key(YesNo(), "Count what is not applicable as a failure; true unless given.")
_DEPLOYMENTS = Key(ListOf(_NAME, "deployment", at_least=1), "On which to run; tiny unless given.")
_TRIALS = Key(Whole(1, 1000), "Fresh launches per variant; 1 unless given.")

_ENTRY = Record(
    {
        "scenario": Key(Text(), "A stem, a path, or tag:NAME.", required=True),
        "deployments": _DEPLOYMENTS,
        "variants": Key(ListOf(_NAME, "variant", at_least=1), "Only these."),
        "set": Key(
            MapOf(FlagSetting(), "flag", r"-{0,2}[A-Za-z][A-Za-z0-9_.-]*", "a server flag"),
            "Flags of the server, as --set.",
        ),
        "trials": _TRIALS,
        "seed": Key(Whole(0, 2**31 - 1), "Other texts of the same sizes."),
        "policy": _POLICY,
        "require_all": _REQUIRE_ALL,
        "allow_new": Key(YesNo(), "Let metrics pass that the baseline lacks."),
    },
    doc="Scenarios to run, and how.",
)
_QUARANTINE = Record(
    {
        "scenario": Key(_NAME, "The scenario's name.", required=True),
        "variant": Key(_NAME, "The variant.", required=True),
        "gate": Key(Text(), "The gate's selector as the scenario writes it.", required=True),
        "rule": Key(Text(), "In words, 'equals baseline': where several gates have the selector."),
        "deployment": Key(_NAME, "Only on this deployment."),
        "issue": Key(Text(), "By which name a tracker knows it: bug-31.", required=True),
        "expires": Key(Text(), "A date, '2027-03-01': from then on an error.", required=True),
        "reason": Key(Text(), "One sentence for the reader.", required=True),
    },
    doc="An exact gate that is flaky: it is shown, and does not block until the entry expires.",
)
SUITE = Record(
    {
        "title": Key(Text(), "What the suite decides, in one line.", required=True),
        "scenarios": Key(
            ListOf(ByForm("a scenario, tag:NAME, or a mapping", Text(), _ENTRY), "entry", 1),
            "What to run, in order; of two that mean the same run the first decides.",
            required=True,
        ),
        "deployments": _DEPLOYMENTS,
        "trials": _TRIALS,
        "policy": _POLICY,
        "require_all": _REQUIRE_ALL,
        "budget": Key(
            Quantity("s", "10 min"),
            "After this time no further run is begun; the rest is open.",
        ),
        "quarantine": Key(ListOf(_QUARANTINE, "entry"), "Flaky exact gates that shall not block."),
        "outputs": Key(
            MapOf(Text(), "format", r"[a-z][a-z0-9-]*", "the name of a format"),
            "Format -> file, below the folder of the suite's results.",
        ),
    },
    doc="A benchsuite suite: what is run together, and what of it decides.",
)


def load_suite(path: Path, display: str, *, today: dt.date) -> Suite:
    """Read and check a suite file.

    Args:
        path: The file; its stem is the suite's name.
        display: How problems and reports name the file.
        today: Entries that expire on or before it are problems.

    Raises:
        ScenarioError: The file has problems; all that could be found are named.
    """
    problems = Problems(display)
    root = nodes.read_nodes(path, display)
    if re.fullmatch(NAME_PATTERN, path.stem) is None:
        problems.say(1, f"the file's name '{path.stem}' names the suite: expected {NAME_EXPECTED}")
    found = SUITE.read(root, "the suite", 1, problems)
    suite = Suite(
        name=path.stem,
        path=display,
        title=found.plain("title", ""),
        entries=tuple(
            _entry(item, found, problems)
            for item in items(found.get("scenarios"))
            if item.value is not None
        ),
        quarantine=tuple(
            _quarantine(item, display, today, problems)
            for item in items(found.get("quarantine"))
            if item.value is not None
        ),
        outputs=tuple(_outputs(found.get("outputs"), problems)),
        budget_s=found.plain("budget"),
    )
    if problems:
        raise ScenarioError(problems.sentences())
    return suite


def is_suite(path: Path) -> bool:
    """Whether a file has the form of a suite, wherever it lies; one that cannot be read has not."""
    try:
        root = nodes.read_nodes(path, str(path))
    except ScenarioError:
        return False
    keys = {key.text for key, _ in root.pairs} if isinstance(root, nodes.Mapping) else set()
    return "scenarios" in keys and "steps" not in keys


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of suite files, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "benchsuite suite",
        **SUITE.schema(),
    }


def _entry(item: Found, suite: Found, problems: Problems) -> SuiteEntry:
    own = item if isinstance(item.value, dict) else Found({"scenario": item}, item.line)

    def given(key: str, default: Any) -> Any:
        return own.plain(key, suite.plain(key, default))

    return SuiteEntry(
        word=own.plain("scenario", ""),
        deployments=_texts(own.get("deployments") or suite.get("deployments")) or (TINY,),
        variants=_texts(own.get("variants")),
        sets=tuple(_sets(own.get("set"), problems)),
        trials=given("trials", 1),
        seed=own.plain("seed", 0),
        policy=given("policy", "block"),
        require_all=given("require_all", True),
        allow_new=own.plain("allow_new", False),
        line=item.line,
    )


def _texts(found: Found | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item.value for item in items(found) if item.value is not None))


def _sets(found: Found | None, problems: Problems) -> list[str]:
    """A mapping of flags as the words that `--set` takes."""
    words: list[str] = []
    for name, item in (found.value if found is not None else {}).items():
        if item.value is None:
            continue
        (setting,) = item.value
        if isinstance(setting, tuple):
            problems.say(item.line, f"flag '{name}' of 'set': expected one value or null")
        else:
            words.append(f"{name}={'null' if setting is None else setting}")
    return words


def _quarantine(item: Found, display: str, today: dt.date, problems: Problems) -> Quarantine:
    expires = item.get("expires")
    line = item.line if expires is None else expires.line
    until = read_date(item.plain("expires"), line, problems)
    issue = item.plain("issue", "")
    if until is not None and dt.date.fromisoformat(until) <= today:
        problems.say(
            line,
            f"the quarantine for {issue} expired on {until}; see whether the gate is steady now, "
            "then delete the entry or give it a later date",
        )
    return Quarantine(
        scenario=item.plain("scenario", ""),
        variant=item.plain("variant", ""),
        gate=item.plain("gate", ""),
        issue=issue,
        expires=until or "",
        reason=item.plain("reason", ""),
        rule=item.plain("rule"),
        deployment=item.plain("deployment"),
        place=f"{display}:{item.line}",
    )


def _outputs(found: Found | None, problems: Problems) -> list[Output]:
    outputs: list[Output] = []
    taken: dict[PurePosixPath, str] = {}
    for name, item in (found.value if found is not None else {}).items():
        if item.value is None:
            continue
        path = PurePosixPath(item.value)
        if path.is_absolute() or ".." in path.parts or not path.parts or "\\" in item.value:
            words = f"output '{name}': '{item.value}' leaves the folder of results; expected a name"
            problems.say(item.line, f"{words} such as {name}.xml (--results chooses the folder)")
        elif path in taken or str(path) == RESULT_NAME:
            other = taken.get(path, "the suite's own result")
            problems.say(item.line, f"output '{name}': '{path}' is the file of {other} already")
        else:
            taken[path] = f"'{name}'"
            outputs.append(Output(name, str(path), item.line))
    return outputs


RESULT_NAME = "suite.json"
"""The suite's own result, beside its outputs."""
