"""Words that a shell completes.

A keypress waits for them: names of files are enough, and no scenario is read. What goes wrong
completes nothing; the command itself will say it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from benchsuite.scenario.workspace import Workspace

_Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _completer(words: Callable[[Workspace], Iterable[str]], *, paths: bool) -> _Complete:
    """What click asks for the words of one parameter.

    Args:
        words: All that there are, in the order to show.
        paths: Whether the parameter also takes a path, which the shell completes.
    """

    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        del ctx, param
        from benchsuite.errors import BenchsuiteError
        from benchsuite.scenario.workspace import load_workspace

        if paths and ("/" in incomplete or incomplete.startswith((".", "~"))):
            return [CompletionItem(incomplete, type="file")]
        try:
            found = list(words(load_workspace()))
        except (BenchsuiteError, OSError):
            return []
        return [CompletionItem(word) for word in found if word.startswith(incomplete)]

    return complete


def _runs(workspace: Workspace) -> list[str]:
    folder = workspace.runs
    found = (path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else ()
    return ["last", *sorted(found, reverse=True)]


complete_scenario = _completer(lambda workspace: sorted(workspace.scenario_files()), paths=True)
"""Names of scenarios."""

complete_deployment = _completer(lambda workspace: workspace.deployments, paths=False)
"""Names of deployments."""

complete_run = _completer(_runs, paths=True)
"""`last`, and stored runs, the newest first."""
