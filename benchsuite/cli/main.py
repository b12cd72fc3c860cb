"""The command group: which commands exist, and how every error leaves the program.

Commands are imported only when they are called, so that `benchsuite --help` stays light.
"""

from __future__ import annotations

import _thread
import codecs
import contextlib
import errno
import gc
import importlib
import io
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from typing import Any

import click

from benchsuite import __version__
from benchsuite.cli.early import ENDING, leave
from benchsuite.errors import BenchsuiteError, ExitCode, MachineError
from benchsuite.redact import learn_environment
from benchsuite.report.no_commands import without_commands
from benchsuite.report.printed import hiding_output

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


_LOST_S = 0.01  # until the code that cannot be interrupted is left, some microseconds

_MEMORY_HINT = "free some, or raise the limit that holds here (ulimit -v, the container's)"


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
    from benchsuite.report.layout import safe_lines

    with contextlib.suppress(OSError):  # a terminal that was closed
        print(safe_lines(text), file=sys.stderr, flush=True)


def report_error(error: BenchsuiteError) -> None:
    """Print an error as its sentence, and below it what to do next."""
    _say(f"error: {error}" if "\n" not in str(error) else str(error))
    if error.hint:
        _say(f"  {error.hint}")


def main(argv: list[str] | None = None) -> Any:
    """Run the command line and leave with the exit code that DESIGN gives the outcome."""
    try:
        _open_streams()
        warnings.showwarning = _warn  # type: ignore[assignment]  # takes what it is given
        sys.unraisablehook = _unraisable
        for name in ENDING:  # all as Ctrl-C: what is held is let go, and what is known kept
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) in (signal.SIG_DFL, leave):
                signal.signal(number, signal.default_int_handler)  # not under nohup
        code = run_command_line(argv)
    except KeyboardInterrupt:  # another one, while the first was told of
        code = int(ExitCode.INTERRUPTED)
    for name in ENDING:  # all is done, and the code stands
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    # CPython notes an interrupt that leaves code given as text, as `dataclass` and `namedtuple` run
    # it, and would end itself by SIGINT however it was answered; more such code takes that back
    exec("")
    # what is left is the system's to take back; walking every object first costs 50 ms
    gc.freeze()
    sys.exit(code)


def _warn(message: Warning | str, *place: object) -> None:
    """Print a warning as a sentence, without the line of code that gave it."""
    _say(f"warning: {message}")


def _unraisable(lost: sys.UnraisableHookArgs) -> None:
    """Interrupt again where an interrupt struck code that cannot pass it on, as in an import."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        _thread.start_new_thread(_interrupt_again, ())  # here it would be lost again
    else:
        sys.__unraisablehook__(lost)


def _interrupt_again() -> None:
    time.sleep(_LOST_S)
    if hasattr(signal, "pthread_kill"):
        main_thread = threading.main_thread().ident
        if main_thread is not None:
            signal.pthread_kill(main_thread, signal.SIGINT)  # a wait in it ends, too
    else:
        _thread.interrupt_main()


def _open_streams() -> None:
    """Give standard streams that are closed to nothing, and let each print any letter.

    Otherwise the next file that is opened would be the standard stream of every server.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # JSON with backslashes of ours would be none; in the C locale UTF-8 is what is meant
            ascii_only = codecs.lookup(stream.encoding).name == "ascii"
            encoding = "utf-8" if ascii_only else stream.encoding
            stream.reconfigure(encoding=encoding, errors="backslashreplace")


def run_command_line(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code; prints, never raises, tells no secret."""
    learn_environment(os.environ)
    with hiding_output(), without_commands(os.environ):
        return _run(argv)


def _run(argv: list[str] | None) -> int:
    bisecting = _is_bisecting(sys.argv[1:] if argv is None else argv)
    stdout = sys.stdout
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
        code = _unread(bisecting=bisecting)
    except SystemExit as leave:
        # click turns a broken pipe into a 1, which would be a failed gate, and wraps the stream
        unread = sys.stdout is not stdout or isinstance(leave.__context__, BrokenPipeError)
        code = _unread(bisecting=bisecting) if unread else _left(leave, bisecting=bisecting)
    except MemoryError:
        report_error(MachineError("no memory is left for benchsuite", hint=_MEMORY_HINT))
        code = _told(ExitCode.MACHINE_FAILED, bisecting=bisecting)
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):  # else a terminal that was closed
            if os.environ.get("BENCHSUITE_TRACEBACK"):
                traceback.print_exc()
            report_error(_machine_error(error))
        code = _unread(bisecting=bisecting)
    except Exception as error:  # noqa: BLE001  # the one edge where anything left becomes exit 5
        code = _failed(error, bisecting=bisecting)
    return int(code or 0)


def _left(leave: SystemExit, *, bisecting: bool) -> int:
    """The code where something called for an exit: what it asks for, perhaps 0, is no verdict."""
    if COMPLETE_VARIABLE in os.environ:
        raise leave  # how click ends a completion
    return _failed(leave, bisecting=bisecting)


def _failed(error: BaseException, *, bisecting: bool) -> int:
    """Tell of an exception that nobody expected."""
    if os.environ.get("BENCHSUITE_TRACEBACK"):
        traceback.print_exc()
    _say(
        f"error: benchsuite itself failed: {type(error).__name__}: {error}\n"
        "  run again with BENCHSUITE_TRACEBACK=1 set and report what it prints"
    )
    return _told(ExitCode.MACHINE_FAILED, bisecting=bisecting)


def _machine_error(error: OSError) -> MachineError:
    """What the system refused; without a file it was our output."""
    where = str(error.filename) if error.filename is not None else "standard output"
    return MachineError(
        f"the system refused: {error.strerror or error}",
        where=where,
        hint="free space or files there, or write elsewhere; BENCHSUITE_TRACEBACK=1 tells more",
    )


def _unread(*, bisecting: bool) -> int:
    """The code once the reader of our output went away; nothing more can be said to it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return _told(ExitCode.MACHINE_FAILED, bisecting=bisecting)


def _is_bisecting(words: list[str]) -> bool:
    """Whether this is a `run --bisect`, also where the rest cannot be parsed."""
    return words[:1] == ["run"] and "--bisect" in words


def _told(code: int, *, bisecting: bool) -> int:
    """The code as `git bisect run` must read it: to git a plain 2 or 5 is a bad commit."""
    if not bisecting:
        return code
    from benchsuite.gate.verdict import bisect_code

    return bisect_code(code)
