"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from benchsuite.cli.completing import complete_deployment

_Command = TypeVar("_Command", bound=Callable[..., Any])


def limit_options(function: _Command) -> _Command:
    """The options that say how long waits may take."""
    for option in reversed(_LIMITS):
        function = option(function)
    return function


def lock_options(function: _Command) -> _Command:
    """The options that say how long to wait for other runs."""
    for option in reversed(_LOCKS):
        function = option(function)
    return function


def run_options(function: _Command) -> _Command:
    """The options that say which server, which variants and which flags."""
    for option in reversed(_RUN):
        function = option(function)
    return function


def report_options(*formats: str) -> Callable[[_Command], _Command]:
    """One option for each format, as `report_files` reads them: `--junit FILE`."""

    def add(function: _Command) -> _Command:
        for name in reversed(formats):
            words = f"Write the report as {name}."
            option = click.option(f"--{name}", _of(name), metavar="FILE", help=words)
            function = option(function)
        return function

    return add


def report_files(given: dict[str, Any]) -> dict[str, str]:
    """Format -> file of the options of `report_options`, which are taken out of what was given."""
    names = [name for name in given if name.startswith(_REPORT)]
    files = {name.removeprefix(_REPORT).replace("_", "-"): given.pop(name) for name in names}
    return {name: file for name, file in files.items() if file is not None}


_REPORT = "report_"


def _of(name: str) -> str:
    return _REPORT + name.replace("-", "_")


def _limit(name: str, words: str) -> Callable[[_Command], _Command]:
    seconds = click.FloatRange(0, min_open=True)
    return click.option(f"--{name}-limit", type=seconds, metavar="S", help=words)


_LOCKS = (
    _limit("lock", "Seconds to wait for other runs on this machine."),
    click.option("--no-wait", is_flag=True, help="Do not wait for other runs: exit 5 at once."),
)
"""How long to wait for others."""

_LIMITS = (
    _limit("start", "Seconds to start."),
    _limit("idle", "Seconds that a request may go without a byte."),
    _limit("token", "Seconds from one token of a stream to the next."),
    _limit("request", "Seconds that a whole request may take."),
    _limit("step", "Seconds that a step may take; default none."),
    _limit("stop", "Seconds to stop."),
    _limit("run", "Seconds that a run of one scenario may take; default none."),
    *_LOCKS,
)
"""How long waits may take."""

_RUN = (
    click.option(
        "-d",
        "--deployment",
        metavar="NAME",
        help="A deployment of benchsuite.toml.",
        shell_complete=complete_deployment,
    ),
    click.option("--server", metavar="PATH", help="The llama-server to launch."),
    click.option("--model", metavar="PATH", help="The model (GGUF) to serve."),
    click.option("--url", metavar="URL", help="Attach to a running server instead."),
    click.option(
        "--model-name", metavar="NAME", help="The model meant, by the name that a router gives it."
    ),
    click.option(
        "--api-key-env", metavar="NAME", help="Variable that holds an attached server's key."
    ),
    click.option("--api-key-file", metavar="FILE", help="Or the file whose first line is the key."),
    click.option(
        "--ca", metavar="FILE", help="Certificates (PEM) that an https server is verified by."
    ),
    click.option("--variant", "variants", multiple=True, metavar="V", help="Only this variant."),
    click.option(
        "--set", "sets", multiple=True, metavar="FLAG=VALUE", help="Set a flag of the server."
    ),
    click.option(
        "--duration",
        metavar="TIME",
        help="How long load steps last that end by a duration, not sweeps: 8h, 30 min.",
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Other texts, same sizes."),
    click.option(
        "--against", metavar="X", help="Judge by this deployment's, run's or git:REV's baselines."
    ),
    click.option("--machine", metavar="NAME", help="Name of a pool of equal machines."),
    click.option(
        "--rate",
        "requests_per_second",
        type=click.FloatRange(0),
        metavar="N",
        help="Requests per second towards an attached server at most; 0 lifts the cap.",
    ),
    *_LIMITS,
)
