"""The command group: which commands exist, and how every error leaves the program.

Commands are imported only when they are called, so that `benchsuite --help` stays light.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import traceback
from typing import Any

import click

from benchsuite import __version__
from benchsuite.errors import BenchsuiteError, ExitCode

_COMMANDS = {
    "run": "Drive scenarios against a server and judge what was measured.",
    "ab": "Compare two servers in one run, launch by launch.",
    "ci": "Run a suite of scenarios: one verdict, and files for the service that runs it.",
    "init": "Write a first configuration and scenario for one's own server.",
    "list": "List the scenarios that can be run.",
    "show": "Show a scenario's plan in words, and the exact server command.",
    "check": "Check scenario and suite files without running them.",
    "schema": "Print the JSON Schema of scenario files, suites or reports.",
    "accept": "Make a run's measurements the baseline.",
    "diff": "Compare two runs, baseline folders or git revisions.",
    "report": "Write stored runs as JSON, CSV, a pull-request comment and other formats.",
    "trend": "Show the history of a metric over all stored runs, and where it changed.",
    "clean": "Remove stored runs by age, number or size.",
    "inspect": "Show what a saved log, a running server or a model file tells.",
    "model": "Make a tiny model.",
    "completion": "Print what a shell needs to complete benchsuite's words.",
    "doctor": "Say whether this machine is fit to measure.",
}
"""Command -> one line of help; each lives in `benchsuite.cli.<command>` as `command`."""


COMPLETE_VARIABLE = "_BENCHSUITE_COMPLETE"
"""By which a shell asks for words, as what `benchsuite completion` prints has it."""


class _LazyGroup(click.Group):
    """A group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"benchsuite.cli.{cmd_name}")
        found: click.Command = module.command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and name not in _COMMANDS and not name.startswith("-"):
            import difflib

            near = difflib.get_close_matches(name, _COMMANDS, n=1)
            remedy = f"did you mean '{near[0]}'?" if near else "see 'benchsuite --help'"
            raise click.UsageError(f"no such command '{name}'; {remedy}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 pass, 1 a gate failed, 2 usage, 3 inconclusive, 4 the server failed, "
    "5 the machine failed, 130 interrupted.",
)
@click.version_option(__version__, prog_name="benchsuite")
def group() -> None:
    """Benchmark and CI-gate suite for llama.cpp llama-server deployments.

    Try `benchsuite run scenarioB`.
    """


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def report_error(error: BenchsuiteError) -> None:
    """Print an error as its sentence, and below it what to do next."""
    _say(f"error: {error}" if "\n" not in str(error) else str(error))
    if error.hint:
        _say(f"  {error.hint}")


def main(argv: list[str] | None = None) -> Any:
    """Run the command line and leave with the exit code that DESIGN gives the outcome."""
    code = run_command_line(argv)
    # what is left is the system's to take back; walking every object first costs 50 ms
    gc.freeze()
    sys.exit(code)


def run_command_line(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code; prints, never raises."""
    bisecting = _is_bisecting(sys.argv[1:] if argv is None else argv)
    try:
        code = group.main(
            argv,
            prog_name="benchsuite",
            standalone_mode=False,
            complete_var=COMPLETE_VARIABLE,
        )
    except click.exceptions.Exit as leave:
        code = leave.exit_code
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted")
        code = ExitCode.INTERRUPTED
    except click.ClickException as error:
        error.show()
        code = _told(ExitCode.USAGE, bisecting=bisecting)
    except BenchsuiteError as error:
        report_error(error)
        code = error.exit_code
    except BrokenPipeError:
        # the reader of our output went away; nothing more can be said to it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _told(ExitCode.MACHINE_FAILED, bisecting=bisecting)
    except Exception as error:  # noqa: BLE001  # the one edge where anything left becomes exit 5
        if os.environ.get("BENCHSUITE_TRACEBACK"):
            traceback.print_exc()
        _say(
            f"error: benchsuite itself failed: {type(error).__name__}: {error}\n"
            "  run again with BENCHSUITE_TRACEBACK=1 set and report what it prints"
        )
        code = _told(ExitCode.MACHINE_FAILED, bisecting=bisecting)
    return int(code or 0)


def _is_bisecting(words: list[str]) -> bool:
    """Whether this is a `run --bisect`, also where the rest cannot be parsed."""
    return words[:1] == ["run"] and "--bisect" in words


def _told(code: int, *, bisecting: bool) -> int:
    """The code as `git bisect run` must read it: to git a plain 2 or 5 is a bad commit."""
    if not bisecting:
        return code
    from benchsuite.gate.verdict import bisect_code

    return bisect_code(code)
