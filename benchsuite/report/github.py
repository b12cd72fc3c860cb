"""Runs as GitHub shows them: annotations by workflow commands, and the job summary in Markdown.

GitHub keeps 10 errors and 10 warnings a step, and 1 MiB of summary a step
(docs.github.com, workflow commands). What a command's text may not hold is escaped as
actions/toolkit does: `%`, CR and LF everywhere, `:` and `,` in properties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath

from benchsuite.gate.verdict import worst_code
from benchsuite.model.record import RunRecord
from benchsuite.model.suite import SuiteRun
from benchsuite.report.cases import Case, cases_of, one_line, unmade_case
from benchsuite.report.layout import safe
from benchsuite.report.load_table import load_warnings
from benchsuite.report.markdown import escape, row, table_head
from benchsuite.units import format_number

MOST_ANNOTATIONS = 10
"""Of each level in one step; GitHub drops the rest without a word."""
MAX_SUMMARY_BYTES = 1024 * 1024
_ROOM = MAX_SUMMARY_BYTES - 4096  # bytes for all but the last words
_MOST_FAILURES = 100
_LONGEST_MESSAGE = 1000  # characters

Place = tuple[str, int]
"""A file below the repository's root, with slashes, and a line from 1."""

Locate = Callable[[RunRecord | SuiteRun, Case], Place | None]
"""Where a case is best looked at; None where that is no file of the repository."""


def nowhere(run: RunRecord | SuiteRun, case: Case) -> Place | None:
    """No place at all: annotations without one show at the job."""
    return None


def at_gate(run: RunRecord | SuiteRun, case: Case) -> Place | None:
    """The gate in its scenario, where that was named below the folder of the run."""
    if isinstance(run, SuiteRun) or case.line < 1:
        return None
    path = PurePath(run.scenario_path)
    return None if path.is_absolute() or ".." in path.parts else (path.as_posix(), case.line)


def render_annotations(
    runs: Sequence[RunRecord], others: Sequence[SuiteRun] = (), locate: Locate = nowhere
) -> str:
    """Workflow commands, one a line: an error for each case that failed, a warning for advice.

    Args:
        runs: Judged.
        others: Runs of a suite that have no record.
        locate: Where a case is best looked at.

    Returns:
        At most 10 errors and 10 warnings; the last of a level tells how many were left out.
    """
    errors: list[str] = []
    warnings: list[str] = []
    found = [(case, locate(record, case)) for record in runs for case in cases_of(record)]
    found += [(case, locate(run, case)) for run in others for case in [unmade_case(run)]]
    for case, place in found:
        if case.weight in ("fail", "error"):
            errors.append(_annotation("error", case, place))
        elif case.weight == "quiet" and case.kind.startswith(("advice", "quarantined", "not run")):
            warnings.append(_annotation("warning", case, place))
    lines = [*_limited("error", errors), *_limited("warning", warnings)]
    return "".join(f"{line}\n" for line in lines)


def _limited(level: str, lines: list[str]) -> list[str]:
    if len(lines) <= MOST_ANNOTATIONS:
        return lines
    kept = lines[: MOST_ANNOTATIONS - 1]
    words = f"{len(lines) - len(kept)} more are in the job summary and in the JUnit file"
    return [*kept, f"::{level} title=benchsuite::{words}"]


def _annotation(level: str, case: Case, place: Place | None) -> str:
    # a path that cannot be shown as it is cannot be pointed at either
    shown = place is not None and safe(place[0]) == place[0]
    properties = {"file": place[0], "line": str(place[1])} if place is not None and shown else {}
    properties["title"] = one_line(f"{case.scenario} {case.name}", 200)
    written = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    message = one_line(f"{case.kind}: {case.message}", _LONGEST_MESSAGE)
    return f"::{level} {written}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


# the job summary


def render_summary(runs: Sequence[RunRecord], others: Sequence[SuiteRun] = ()) -> str:
    """The verdict, what failed, then each run's gates folded; less than 1 MiB of Markdown.

    Args:
        runs: Judged.
        others: Runs of a suite that have no record.
    """
    cases = [cases_of(record) for record in runs]
    left_out = [unmade_case(run) for run in others]
    told = [case for found in cases for case in found] + left_out
    parts = [
        f"## benchsuite: {_headline(runs, others)}\n",
        _table(
            ("scenario", "on", "verdict", "gates", "time"),
            [_run_row(*pair) for pair in zip(runs, cases, strict=True)]
            + [_other_row(run) for run in others],
        ),
    ]
    bad = [case for case in told if case.weight in ("fail", "error")]
    if bad:
        rows = [_case_row(case) for case in bad[:_MOST_FAILURES]]
        parts.append("### What failed\n")
        parts.append(_table(("scenario", "what", "how", "why"), rows))
        if len(bad) > _MOST_FAILURES:
            parts.append(f"and {len(bad) - _MOST_FAILURES} more, in the JUnit file\n")
    warned = [
        (record.scenario, one_line(w)) for record in runs for w in load_warnings(record.launches)
    ]
    if warned:
        parts.append("### Warnings of loads\n")
        parts.append(_table(("scenario", "warning"), warned[:_MOST_FAILURES]))
        if len(warned) > _MOST_FAILURES:
            parts.append(f"and {len(warned) - _MOST_FAILURES} more, in the JUnit file\n")
    quiet = [case for case in told if case.kind.startswith(("quarantined", "advice"))]
    if quiet:
        rows = [_case_row(case) for case in quiet[:_MOST_FAILURES]]
        parts.append(_folded(f"{len(quiet)} that do not count", rows))
    return _within(parts, [_details(*pair) for pair in zip(runs, cases, strict=True)])


def _headline(runs: Sequence[RunRecord], others: Sequence[SuiteRun]) -> str:
    codes = []
    for record in runs:
        code = 5 if record.verdict is None else record.verdict.exit_code
        codes.append(0 if record.policy == "advise" and code in (1, 3) else code)
    codes += [run.counted_code for run in others]
    if not codes:
        return "nothing was run"
    good = sum(code == 0 for code in codes)
    word = "passed" if worst_code(codes) == 0 else "did not pass"
    if word == "passed" and all(record.policy == "advise" for record in runs):
        return f"nothing was decided that blocks ({good} of {len(codes)} runs hold, all advise)"
    return f"{word} ({good} of {len(codes)} runs hold)"


def _run_row(record: RunRecord, cases: Sequence[Case]) -> tuple[str, ...]:
    verdict: str = "not judged" if record.verdict is None else record.verdict.outcome
    if record.policy == "advise":
        verdict += " (advises)"
    counts = [
        f"{count} {word}"
        for weight, word in (("fail", "failed"), ("error", "unknown"), ("pass", "passed"))
        if (count := sum(c.weight == weight and c.gate is not None for c in cases))
    ]
    quiet = sum(case.weight == "quiet" and case.gate is not None for case in cases)
    counts += [f"{quiet} not counted"] if quiet else []
    seconds = f"{format_number(record.wall_seconds, 1)} s"
    deployment = record.fingerprint.deployment
    return record.scenario, deployment, verdict, ", ".join(counts), seconds


def _other_row(run: SuiteRun) -> tuple[str, ...]:
    verdict = f"{run.outcome} (advises)" if run.policy == "advise" else run.outcome
    return run.scenario, run.deployment, verdict, run.reason, ""


def _case_row(case: Case) -> tuple[str, ...]:
    return case.scenario, case.name, case.kind, case.message


def _details(record: RunRecord, cases: Sequence[Case]) -> str:
    words = "not judged" if record.verdict is None else record.verdict.outcome
    rows = [(case.name, case.kind or "pass", _observed(case), case.message) for case in cases]
    title = f"{record.scenario} on {record.fingerprint.deployment}: {words} (run {record.id})"
    return _folded(title, rows, ("what", "how", "observed", "why"))


def _observed(case: Case) -> str:
    if case.gate is None:
        return ""
    if case.gate.expected and case.gate.expected != case.gate.observed:
        return f"{case.gate.observed or '-'} (expected {case.gate.expected})"
    return case.gate.observed


def _folded(
    title: str,
    rows: Sequence[tuple[str, ...]],
    head: tuple[str, ...] = ("scenario", "what", "how", "why"),
) -> str:
    return f"<details><summary>{escape(title)}</summary>\n\n{_table(head, rows)}\n</details>\n"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [*table_head(head), *(row([escape(cell) for cell in cells]) for cells in rows)]
    return "\n".join(lines) + "\n"


def _within(parts: Sequence[str], details: Sequence[str]) -> str:
    """Everything that has room, details last; what had none is counted."""
    kept: list[str] = []
    size = left = 0
    for part in (*parts, *details):
        size += len(part.encode()) + 1
        if size > _ROOM:
            size -= len(part.encode()) + 1
            left += 1
        else:
            kept.append(part)
    if left:
        kept.append(f"{left} sections had no room here; the JUnit file has them.\n")
    return "\n".join(kept)
