"""A suite's result as text: a line a run, and its verdict."""

from __future__ import annotations

from benchsuite.gate.verdict import outcome_word
from benchsuite.model.suite import SuiteResult, SuiteRun
from benchsuite.redact import beginning
from benchsuite.report.layout import Style, columns, cut, safe
from benchsuite.units import format_number

_WORD_COLOURS = {"pass": "green", "inconclusive": "yellow", "not run": "yellow"}
_MIN_REASON = 20


def render_suite(result: SuiteResult, style: Style | None = None) -> str:
    """The result as lines; the last says the verdict.

    Args:
        result: With all its runs.
        style: None is plain text of 80 columns.
    """
    look = style or Style()
    rows = [
        (
            safe(_outcome(run)),
            safe(run.scenario),
            safe(run.deployment),
            safe(run.run or ""),
            "kept" if run.carried else f"{format_number(run.wall_seconds, 1)} s",
        )
        for run in result.runs
    ]
    lines = [f"suite {safe(result.suite)}: {safe(result.title)}", ""]
    for run, cells in zip(result.runs, columns(rows, (24, 30, 20, 8, 10)), strict=True):
        line = "  ".join(cells).rstrip()
        lines.append(f"  {look.paint(line, _WORD_COLOURS.get(run.outcome, 'red'))}")
        if run.reason:
            lines.append(
                cut(f"      {safe(beginning(run.reason, 2000))}", max(look.width, _MIN_REASON))
            )
    lines += ["", _verdict(result, look)]
    return "\n".join(lines) + "\n"


def _outcome(run: SuiteRun) -> str:
    return f"{run.outcome} (advises)" if run.policy == "advise" else run.outcome


def _verdict(result: SuiteResult, look: Style) -> str:
    counts: dict[str, int] = {}
    for run in result.runs:
        counts[_outcome(run)] = counts.get(_outcome(run), 0) + 1
    told = ", ".join(f"{count} {word}" for word, count in counts.items())
    word = outcome_word(result.exit_code)
    seconds = f"{format_number(result.wall_seconds, 1)} s"
    colour = _WORD_COLOURS.get(word, "red")
    shown = look.paint(word.upper(), colour)
    return f"{shown}  suite {safe(result.suite)}: {told} ({seconds}, exit {result.exit_code})"
