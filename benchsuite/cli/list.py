"""`benchsuite list`: the scenarios that can be run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from benchsuite.cli.examples import examples
from benchsuite.errors import ExitCode, ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchsuite.scenario.workspace import Workspace

_WIDTH = 80


@click.command(
    "list",
    short_help="List the scenarios that can be run.",
    epilog=examples("benchsuite list", "benchsuite list --json"),
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def command(as_json: bool) -> int:
    """List the scenarios that can be run, the user's own before the shipped ones; then suites.

    As JSON, scenarios alone.
    """
    from benchsuite.report.layout import safe
    from benchsuite.scenario.workspace import load_workspace

    workspace = load_workspace()
    rows: list[dict[str, Any]] = []
    problems: list[str] = []
    for name, path in workspace.scenario_files().items():
        try:
            scenario = workspace.load(path)
        except ScenarioError as error:
            problems.extend(error.problems)
            continue
        rows.append(
            {
                "name": name,
                "title": scenario.title,
                "tags": list(scenario.tags),
                "variants": list(scenario.variants),
                "path": workspace.display(path),
            }
        )
    rows.sort(key=lambda row: str(row["name"]))
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        for line in (*_table(rows), *_suites(workspace, problems)):
            click.echo(line)
    for problem in problems:
        click.echo(safe(problem), err=True)
    return ExitCode.USAGE if problems else ExitCode.PASS


def _suites(workspace: Workspace, problems: list[str]) -> Iterator[str]:
    """Lines about the suites, for `benchsuite ci`; what is wrong in one goes to `problems`."""
    import datetime as dt
    import textwrap

    from benchsuite.report.layout import safe

    today = dt.datetime.now(dt.UTC).date()
    found = []
    for name, path in sorted(workspace.suite_files().items()):
        try:
            suite = workspace.load_suite(path, today)
        except ScenarioError as error:
            problems.extend(error.problems)
            continue
        words = " ".join(dict.fromkeys(entry.word for entry in suite.entries))
        found.append(tuple(map(safe, (name, words, suite.title, workspace.display(path)))))
    if not found:
        return
    yield ""
    yield "SUITES (benchsuite ci NAME)"
    for name, words, *texts in found:
        line = f"{name}  {words}"
        yield line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..."
        for text in texts:
            yield from textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Lines of at most 80 columns: name, variants, tags; below each its title and file."""
    import textwrap

    from benchsuite.report.layout import safe

    if not rows:
        yield "no scenarios; see 'benchsuite check' for where they are looked up"
        return
    cells = [
        (safe(r["name"]), safe(" ".join(r["variants"])), safe(" ".join(r["tags"]))) for r in rows
    ]
    head = ("NAME", "VARIANTS", "TAGS")
    name_width, variants_width = (
        min(limit, max(len(row[column]) for row in (head, *cells)))
        for column, limit in ((0, 40), (1, 24))
    )
    for row, cell in zip((None, *rows), (head, *cells), strict=True):
        line = f"{cell[0]:{name_width}}  {cell[1]:{variants_width}}  {cell[2]}".rstrip()
        yield line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..."
        if row is not None:
            for text in map(safe, (row["title"], row["path"])):
                yield from textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")
