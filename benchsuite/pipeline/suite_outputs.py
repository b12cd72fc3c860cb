"""What a suite hands to the service that runs it: files, annotations, the job summary."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from benchsuite.errors import MachineError
from benchsuite.metrics.select import parse_selector
from benchsuite.model.record import RunRecord
from benchsuite.model.suite import Suite, SuiteRun
from benchsuite.report.cases import Case
from benchsuite.report.diff import Diff
from benchsuite.report.formats import FORMATS, Entry, ReportInput
from benchsuite.report.github import Place, render_annotations, render_summary
from benchsuite.report.no_commands import obeyed
from benchsuite.scenario.workspace import Workspace
from benchsuite.store.baselines import scenario_folder
from benchsuite.store.files import write_atomic


def write_outputs(
    suite: Suite,
    folder: Path,
    records: Sequence[RunRecord],
    others: Sequence[SuiteRun],
    root: Path,
    changes: Diff | None = None,
) -> None:
    """Write every output of a suite.

    Args:
        suite: Its outputs are of known formats.
        folder: They lie below it.
        records: Of the runs so far.
        others: Runs without a record.
        root: Of the repository; reports show paths below it.
        changes: Of the baselines since a revision; None where nobody asked.

    Raises:
        MachineError: The disk refuses.
    """
    entries = tuple(Entry(record) for record in records)
    given = ReportInput(entries, root, suite.name, changes, tuple(others))
    for output in suite.outputs:
        text = FORMATS[output.format].render(given)
        write_atomic(folder / output.path, text.encode())


class GitHub:
    """What is told to GitHub Actions, where that is what runs us; nothing elsewhere.

    Between enter and `tell`, workflow commands are stopped: what a server or a model prints is
    never obeyed.

    Args:
        environ: `GITHUB_ACTIONS`, `GITHUB_STEP_SUMMARY`, `GITHUB_WORKSPACE`.
        stream: Standard output, where commands are read.
    """

    def __init__(self, environ: Mapping[str, str], stream: TextIO) -> None:
        self._on = environ.get("GITHUB_ACTIONS") == "true"
        self._summary = environ.get("GITHUB_STEP_SUMMARY", "")
        self._root = environ.get("GITHUB_WORKSPACE", "")
        self._stream = obeyed(stream)
        self._stop_word = ""

    def __enter__(self) -> Self:
        if self._on:
            self._stop_word = secrets.token_hex(16)
            self._say(f"::stop-commands::{self._stop_word}\n")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._resume()

    def tell(
        self,
        records: Sequence[RunRecord],
        others: Sequence[SuiteRun],
        workspace: Workspace,
        places: Mapping[str, str],
    ) -> None:
        """Annotate what failed, and append to the job summary.

        Args:
            records: Of the runs.
            others: Runs without a record.
            workspace: Knows baselines and the folder that paths are relative to.
            places: Run id -> `file:line` of the suite's entry.

        Raises:
            MachineError: The summary cannot be written.
        """
        if not self._on:
            return
        self._resume()
        root = Path(self._root) if self._root else workspace.config.root
        self._say(render_annotations(records, others, Locator(workspace, root.resolve(), places)))
        if not self._summary:
            return
        try:
            with Path(self._summary).open("a", encoding="utf-8") as file:
                file.write(render_summary(records, others))
        except OSError as error:
            words = f"cannot write the job summary: {error.strerror or error}"
            raise MachineError(words, where=self._summary) from error

    def _resume(self) -> None:
        if self._stop_word:
            self._say(f"::{self._stop_word}::\n")
            self._stop_word = ""

    def _say(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class Locator:
    """Where a case is best looked at: the first of these that is a file of the repository.

    The baseline's value, where one moved; the gate in its scenario; the suite's entry.

    Args:
        workspace: Knows baselines and the folder that paths are relative to.
        root: Of the repository, absolute.
        places: Run id -> `file:line` of the suite's entry.
    """

    def __init__(self, workspace: Workspace, root: Path, places: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._root = root
        self._places = places

    def __call__(self, run: RunRecord | SuiteRun, case: Case) -> Place | None:
        if isinstance(run, SuiteRun):
            return self._entry(run.place)
        return self._of_record(run, case) or self._entry(self._places.get(run.id, ""))

    def _entry(self, place: str) -> Place | None:
        file, _, line = place.rpartition(":")
        if not file:
            return None
        return self._place(self._workspace.cwd / file, int(line) if line.isdecimal() else 1)

    def _of_record(self, record: RunRecord, case: Case) -> Place | None:
        gate = case.gate
        if gate is not None and gate.against == "baseline" and gate.state in _MOVED:
            folder = self._workspace.baselines
            folder /= scenario_folder(record.fingerprint.deployment, record.scenario)
            found = [
                place
                for path in sorted(folder.glob("*.json"))
                if (number := baseline_line(_text(path), gate.variant, gate.metric))
                and (place := self._place(path, number))
            ]
            if len(found) == 1:
                return found[0]
        return self._place(self._workspace.cwd / record.scenario_path, max(case.line, 1))

    def _place(self, path: Path, line: int) -> Place | None:
        try:
            inside = path.resolve().relative_to(self._root)
        except (ValueError, OSError):
            return None
        return inside.as_posix(), line


_MOVED = ("changed", "regressed", "improved")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def baseline_line(text: str, variant: str, selector: str) -> int | None:
    """The line, from 1, of a baseline file on which the values of a gate begin.

    Args:
        text: Of a baseline file as `accept` writes it, keys sorted and one value a line.
        variant: Whose values.
        selector: Of the gate; of several series that it means, the first.

    Returns:
        None where the file has none.
    """
    wanted = parse_selector(selector)
    inside = own = False
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r'  "', line):
            inside, own = line.startswith('  "metrics": {'), False
        elif inside and re.match(r'    "', line):
            own = line.startswith(f"    {json.dumps(variant)}: {{")
        elif own and line.startswith('      "'):
            series, _ = json.JSONDecoder().raw_decode(line.strip())
            found = parse_selector(str(series))
            if wanted.accepts(found.name, {m.label: m.value for m in found.matchers}):
                return number
    return None
