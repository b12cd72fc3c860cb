"""A scenario file as pytest sees it: a node for the file, one per variant, an item per gate.

The run belongs to the file: its setup, which pytest does before the first item, drives the scenario
once, and each item then tells what the run found of it. An item `run` tells what no gate tells.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchsuite.errors import BenchsuiteError, ScenarioError
from benchsuite.gate.judge import subject_of
from benchsuite.gate.verdict import failures_of
from benchsuite.gate.words import rule_words
from benchsuite.model.record import RunRecord
from benchsuite.model.scenario import GateSpec, Scenario
from benchsuite.model.verdict import GateResult
from benchsuite.pytest_plugin.tell import told_failures, told_gate
from benchsuite.scenario.workspace import Workspace, load_workspace

if TYPE_CHECKING:
    from benchsuite.pytest_plugin.runs import Ran

_Key = tuple[int, str, str, str]
"""What a gate's result is found by: line, selector, rule, variant."""


class GateFailed(Exception):  # noqa: N818  # an outcome that pytest reports, not a fault of ours
    """A gate that does not pass; its text is all that is shown."""


class RunFailed(pytest.fail.Exception):  # type: ignore[name-defined,misc]
    """A scenario that could not be run, or whose server failed.

    One of pytest's own, since of a failed setup pytest shows the frames of any other.
    """

    def __init__(self, words: str) -> None:
        super().__init__(words, pytrace=False)


class ScenarioFile(pytest.File):
    """One scenario file."""

    scenario: Scenario
    _ran: tuple[RunRecord, Ran] | None = None
    _fault: str | None = None  # why there is no run; told again to each item
    _crash_told: bool = False

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """The item `run`, then a node for each variant that has gates.

        Raises:
            CollectError: The file has problems.
        """
        try:
            workspace = self.workspace()
            self.scenario = workspace.load(self.path)
            keys = list(_keys(self.scenario))
        except BenchsuiteError as error:
            raise self.CollectError(_sentence(error)) from error
        wanted = self.config.getoption("benchsuite_variant") or list(self.scenario.variants)
        yield RunItem.from_parent(self, name="run")
        for variant in self.scenario.variants:
            if variant in wanted and (own := [key for key in keys if key[3] == variant]):
                yield VariantNode.from_parent(self, name=variant, keys=own)

    def workspace(self) -> Workspace:
        """Where the user's folders and deployments are: seen from where pytest was started."""
        return load_workspace(Path(self.config.invocation_params.dir))

    def setup(self) -> None:
        """Run the scenario, once.

        Raises:
            RunFailed: It could not be run; every item is an error then.
        """
        if self._fault is not None:
            raise RunFailed(self._fault)
        if self._ran is not None:
            return  # another order of items came back to this file
        # here, so that collecting stays quick
        from benchsuite.pytest_plugin.benchmark import report_latencies
        from benchsuite.pytest_plugin.runs import options_of, run_once

        try:
            options = options_of(self.config, self._variants())
            self._ran = run_once(
                self.config, self.workspace(), self.scenario, options, _stop_served
            )
        except BenchsuiteError as error:
            self._fault = _sentence(error)
            raise RunFailed(self._fault) from error
        report_latencies(self.config, self.nodeid, self._ran[0])

    @property
    def record(self) -> RunRecord:
        """The record of the run."""
        if self._ran is None:
            raise AssertionError("a record before the run")
        return self._ran[0]

    @property
    def ran(self) -> Ran:
        """Where the run is stored."""
        if self._ran is None:
            raise AssertionError("a folder before the run")
        return self._ran[1]

    def result(self, key: _Key) -> GateResult | None:
        """What the run found of a gate; None where it says nothing.

        Of several on one line that say the same, what weighs most, so that none hides another.
        """
        found = [gate for gate in self.record.gates if _key_of(gate) == key]
        return max(found, key=_weight, default=None)

    def crash_words(self) -> str:
        """How servers failed: in full the first time, since it makes many items errors."""
        if self._crash_told:
            return "the server failed, as told above"
        self._crash_told = True
        return told_failures(self.record, self.ran.shown)

    def _variants(self) -> list[str]:
        """The variants that the selected items need; empty for all of them."""
        chosen = self.config.getoption("benchsuite_variant") or []
        own = [item for item in self.session.items if item.getparent(ScenarioFile) is self]
        if any(isinstance(item, RunItem) for item in own):
            return list(chosen)
        return list(dict.fromkeys(item.key[3] for item in own if isinstance(item, GateItem)))


class VariantNode(pytest.Collector):
    """One variant of a scenario."""

    def __init__(self, keys: list[_Key], **given: Any) -> None:
        super().__init__(**given)
        self.keys = keys

    def collect(self) -> Iterator[pytest.Item]:
        """An item for each gate of the variant."""
        for key in self.keys:
            yield GateItem.from_parent(self, name=f"{key[1]}[{key[2]}]", key=key)


class _Item(pytest.Item):
    """What items of both kinds share: a file, and failures that are told as text."""

    @property
    def file(self) -> ScenarioFile:
        """The scenario's node."""
        found = self.getparent(ScenarioFile)
        if found is None:
            raise AssertionError("an item outside a scenario file")
        return found

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The failure's own text, without the frames of benchsuite."""
        if isinstance(excinfo.value, GateFailed | RunFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)


class GateItem(_Item):
    """One gate in one variant."""

    def __init__(self, key: _Key, **given: Any) -> None:
        super().__init__(**given)
        self.key = key

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        """The gate's line in the scenario file."""
        return self.path, self.key[0] - 1, f"{self.key[3]} {self.name}"

    def setup(self) -> None:
        """An error where the server's failure leaves the gate without an answer.

        Raises:
            RunFailed: As said.
        """
        gate = self.file.result(self.key)
        if gate is None:
            words = f"the run told nothing of this gate\n{self.file.crash_words()}"
            raise RunFailed(words)
        self.user_properties.append(("benchsuite_outcome", gate.outcome))
        self.user_properties.append(("benchsuite_expected", gate.expected))
        self.user_properties.append(("benchsuite_observed", gate.observed))
        self.user_properties.append(("benchsuite_run", self.file.ran.shown))
        if gate.outcome == "error":
            raise RunFailed(f"{gate.reason}\n{self.file.crash_words()}")

    def runtest(self) -> None:
        """Report what the run found.

        Raises:
            GateFailed: The gate blocks and does not pass.
        """
        gate = self.file.result(self.key)
        if gate is None:
            raise AssertionError("a gate without a result after its setup")
        require_all = self.config.getoption("benchsuite_require_all")
        if gate.outcome == "pass":
            return
        if gate.outcome == "not applicable" and not require_all:
            pytest.skip(f"not applicable: {gate.reason}")
        if gate.outcome == "xfail":
            pytest.xfail(gate.reason)  # --runxfail makes this nothing, and the gate fails
        elif gate.level == "advise" and gate.outcome != "not applicable":
            pytest.skip(f"advises only ({gate.outcome}): {gate.reason}")
        raise GateFailed(told_gate(gate, self.file.record, self.file.ran.shown))


class RunItem(_Item):
    """What a run tells beside its gates: failed servers, known issues, whether anything applied."""

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        """The scenario file."""
        return self.path, 0, "run"

    def setup(self) -> None:
        """An error where a server failed.

        Raises:
            RunFailed: As said.
        """
        self.user_properties.append(("benchsuite_run", self.file.ran.shown))
        if failures_of(self.file.record):
            raise RunFailed(self.file.crash_words())

    def runtest(self) -> None:
        """Report what no gate's item reports.

        Raises:
            GateFailed: Something is left that keeps the run from passing.
        """
        record = self.file.record
        verdict = record.verdict
        if verdict is None:
            raise GateFailed(f"the run was not judged; run: {self.file.ran.shown}")
        if verdict.exit_code == 0:
            return
        keys = {
            item.key
            for item in self.session.items
            if isinstance(item, GateItem) and item.file is self.file
        }
        told = [gate for gate in record.gates if _key_of(gate) in keys]
        left = [reason for reason in verdict.reasons if not any(_tells(g, reason) for g in told)]
        if left:
            raise GateFailed("\n".join([*left, f"run: {self.file.ran.shown}"]))


def _tells(gate: GateResult, reason: str) -> bool:
    return reason.startswith(f"variant {gate.variant}: {gate.metric} ({gate.rule}): ")


def _key_of(gate: GateResult) -> _Key:
    return gate.line, gate.metric, gate.rule, gate.variant


def _weight(gate: GateResult) -> int:
    """How much an outcome weighs: first what blocks and does not pass."""
    bad = gate.outcome not in ("pass", "not applicable", "xfail")
    return 2 * (bad and gate.level == "block") + (gate.outcome != "pass")


def _keys(scenario: Scenario) -> Iterator[_Key]:
    """Every gate in every variant that it judges, in the order of the file."""
    seen: set[_Key] = set()
    for spec in scenario.gates:
        subject = subject_of(scenario, spec)
        rule = rule_words(spec, subject.metric.unit)
        for variant in _judged(spec, scenario.variants):
            own = any(
                m.label == "against" and m.operator == "=" and m.value == variant
                for m in subject.selector.matchers
            )
            key = (spec.line, spec.metric, rule, variant)
            if not own and key not in seen:
                seen.add(key)
                yield key


def _judged(spec: GateSpec, variants: Iterable[str]) -> Iterator[str]:
    """The variants that a gate judges, its own reference left out."""
    for variant in variants:
        named = spec.variants is None or variant in spec.variants
        if named and not (spec.same_as is not None and spec.same_as.variant == variant):
            yield variant


def _sentence(error: BenchsuiteError) -> str:
    words = str(error) if isinstance(error, ScenarioError) else f"error: {error}"
    return f"{words}\n  {error.hint}" if error.hint else words


def _stop_served() -> None:
    """Stop the fixture's server, which would take memory and time from the run."""
    import sys

    served = sys.modules.get("benchsuite.pytest_plugin.served")
    if served is not None:
        served.stop()
