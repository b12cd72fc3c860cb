"""`benchsuite ci`: run a suite, write its outputs, and exit by what counts in it."""

from __future__ import annotations

from typing import Any

import click

from benchsuite.cli.examples import examples
from benchsuite.cli.options import limit_options


@click.command(
    "ci",
    short_help="Run a suite: many scenarios, one verdict, files for the service that runs it.",
    epilog=examples(
        "benchsuite ci pr",
        "benchsuite ci pr --server ./llama-server",
        "benchsuite ci nightly --failed",
    ),
)
@click.argument("suite", metavar="SUITE")
@click.option("--server", metavar="PATH", help="The llama-server to launch.")
@click.option(
    "--set", "sets", multiple=True, metavar="FLAG=VALUE", help="Set a flag of every server."
)
@click.option("--machine", metavar="NAME", help="Name of a pool of equal machines.")
@click.option(
    "--results", metavar="DIR", help="Folder of the outputs; default .benchsuite/ci/SUITE."
)
@click.option("--out", metavar="DIR", help="Folder of runs; default .benchsuite/runs.")
@click.option(
    "--base",
    metavar="git:REV",
    help="Say in the comment which baselines differ from those at this revision.",
)
@click.option("--failed", is_flag=True, help="Run again only what did not pass last time.")
@click.option(
    "--machine-failed", is_flag=True, help="Run again only what the machine failed (5) last time."
)
@limit_options
@click.option("--quiet", "-q", is_flag=True, help="No progress; results only.")
def command(suite: str, **given: Any) -> int:
    """Run a suite: every scenario it names, then its outputs and one verdict.

    SUITE is the stem of a file in ci/suites (pr) or a path. A run that fails does not keep the
    next from being made. Exit codes as of `run`, over all runs that block: 5 is worth a retry,
    and `--machine-failed` retries just that.
    """
    from benchsuite.pipeline.suite import ci_command

    return ci_command(suite, given)
