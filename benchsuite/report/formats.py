"""Every format of `benchsuite report`; a new one is a module with a function, and a line here."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from msgspec.structs import replace

from benchsuite.errors import UsageError
from benchsuite.report.cases import judged_records
from benchsuite.report.comment import render_comment
from benchsuite.report.csv import render_csv
from benchsuite.report.github import at_gate, render_annotations, render_summary
from benchsuite.report.github_action_benchmark import (
    render_bigger_is_better,
    render_smaller_is_better,
)
from benchsuite.report.gitlab import render_gitlab_metrics
from benchsuite.report.json import render_report_json
from benchsuite.report.junit import render_junit
from benchsuite.report.no_commands import dead
from benchsuite.report.openmetrics import render_openmetrics
from benchsuite.report.pytest_benchmark import render_pytest_benchmark
from benchsuite.report.report_input import Entry as Entry
from benchsuite.report.report_input import Format as Format
from benchsuite.report.report_input import Part as Part
from benchsuite.report.report_input import ReportInput as ReportInput


def _junit(given: ReportInput) -> str:
    return render_junit(judged_records(given), given.unmade)


def _annotations(given: ReportInput) -> str:
    return render_annotations(judged_records(given), given.unmade, at_gate)


def _summary(given: ReportInput) -> str:
    return render_summary(judged_records(given), given.unmade)


def _metrics(given: ReportInput) -> str:
    return render_gitlab_metrics([part.record for part in given.parts if part.side != "baseline"])


def _render_html(given: ReportInput) -> str:
    from benchsuite.report.html.run_page import render_html  # plots take a second to import

    return render_html(given)


_DECLARED = (
    Format(
        "json",
        ".json",
        "everything that was seen; `benchsuite schema report` describes it",
        render_report_json,
    ),
    Format("csv", ".csv", "one row a measurement", render_csv),
    Format("junit", ".xml", "JUnit test cases, for Jenkins, GitLab and GitHub", _junit),
    Format("github", ".github.txt", "annotations, as GitHub's workflow commands", _annotations),
    Format("summary", ".summary.md", "GitHub's job summary: what failed, then all", _summary),
    Format("gitlab-metrics", ".metrics.txt", "GitLab's metrics report: exact values", _metrics),
    Format("html", ".html", "one page with plots, in a file that needs no network", _render_html),
    Format("markdown", ".md", "the body of a pull-request comment", render_comment),
    Format(
        "pytest-benchmark",
        ".pytest-benchmark.json",
        "times, for `pytest-benchmark compare`",
        render_pytest_benchmark,
    ),
    Format(
        "github-action-benchmark-smaller",
        ".smaller.json",
        "what should be small, for its tool customSmallerIsBetter",
        render_smaller_is_better,
    ),
    Format(
        "github-action-benchmark-bigger",
        ".bigger.json",
        "what should be big, for its tool customBiggerIsBetter",
        render_bigger_is_better,
    ),
    Format(
        "openmetrics",
        ".openmetrics.txt",
        "for Prometheus: values, gates and verdict at the time of each run",
        render_openmetrics,
    ),
)

_LIVE = ("github", "html")
"""Commands that are meant, and a page that nobody prints."""


def _harmless(one: Format) -> Format:
    """The format, so that printing its file in GitHub Actions commands nothing."""
    return one if one.name in _LIVE else replace(one, render=lambda given: dead(one.render(given)))


FORMATS: dict[str, Format] = {one.name: _harmless(one) for one in _DECLARED}
"""Name -> format, in the order in which help shows them."""


def format_named(name: str) -> Format:
    """The format of this name.

    Raises:
        UsageError: There is none.
    """
    found = FORMATS.get(name)
    if found is None:
        near = difflib.get_close_matches(name, FORMATS, n=1)
        hint = f"did you mean '{near[0]}'?" if near else None
        raise UsageError(f"no format '{name}'; there are {', '.join(FORMATS)}", hint=hint)
    return found


def format_of_file(file_name: str, formats: Sequence[Format] = tuple(FORMATS.values())) -> Format:
    """The format that the end of a file name tells; of several the one with the longest suffix.

    Raises:
        UsageError: No format has such files.
    """
    fitting = [one for one in formats if file_name.lower().endswith(one.suffix)]
    if not fitting:
        ends = ", ".join(f"{one.suffix} ({one.name})" for one in formats)
        raise UsageError(
            f"the end of '{file_name}' tells no format; there are {ends}",
            hint="or name the format: --format NAME --to FILE",
        )
    return max(fitting, key=lambda one: len(one.suffix))
