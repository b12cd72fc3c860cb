"""A server that a deployment's command starts: its argument lists filled in, asked, launched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from benchsuite.errors import ConfigError, MachineError, ServerHangError, ServerStartError
from benchsuite.model.deployment import Command, Deployment
from benchsuite.scenario.flags import FlagTable, parse_help
from benchsuite.scenario.templates import KEY_VARIABLE, fill, fill_text, placeholders
from benchsuite.server.asking import ask
from benchsuite.server.behind import Behind, ServerBehind
from benchsuite.server.bounded import run_bounded
from benchsuite.server.ending import NO_REASON, describe_end, last_words, read_end
from benchsuite.server.environment import server_environment
from benchsuite.server.guard import Guard
from benchsuite.server.launch import LaunchedServer, Place, start_process
from benchsuite.server.locate import HELP_MARKS, ServerBinary
from benchsuite.server.ports import check_port, free_port

_LOOPBACK = "127.0.0.1"
_HELP = "--help"
_REMOVAL_LIMIT_S = 20.0  # of a container that only answered
_NO_ENGINE = re.compile(
    r"cannot connect to the docker daemon|cannot connect to podman|unable to connect to podman",
    re.IGNORECASE,
)


class StartedBy(msgspec.Struct, frozen=True):
    """A deployment's command, and the deployment."""

    command: Command
    deployment: Deployment


class Filled(msgspec.Struct, frozen=True):
    """A command's argument lists for one launch."""

    argv: tuple[str, ...]
    behind: Behind


def command_binary(deployment: Deployment, command: Command) -> ServerBinary:
    """What records say of such a server.

    Raises:
        ConfigError: A program that the deployment names is not there.
    """
    for key, words in (
        ("command", command.argv),
        ("help", command.help),
        ("stop", command.stop),
        ("kill", command.kill),
        ("log", command.log),
        ("engine", command.engine),
    ):
        if words and shutil.which(words[0]) is None:
            raise ConfigError(
                f"'{key}' of deployment '{deployment.name}' starts a program that is not there: "
                f"{words[0]}",
                where=deployment.source,
                hint="install it, or name it with its path",
            )
    shown = " ".join(command.argv)
    return ServerBinary(command.argv, "command", shown, f"deployment '{deployment.name}'")


def new_name() -> str:
    """A name for a container, unit or job that no other launch has."""
    return f"benchsuite-{os.urandom(6).hex()}"


def fill_command(
    command: Command,
    deployment: str,
    flags: Sequence[str],
    *,
    model: str | None,
    name: str,
    port: str,
) -> Filled:
    """A command's argument lists, with everything filled in.

    Args:
        command: Of the deployment.
        deployment: Its name.
        flags: The server's, ready as arguments.
        model: The model's path as the server sees it.
        name: What `{name}` becomes.
        port: What `{port}` becomes.
    """
    texts = _texts(command, model=model, name=name, port=port)

    def words(template: tuple[str, ...]) -> tuple[str, ...]:
        return fill(template, texts, flags)

    container = None if command.container is None else fill_text(command.container, texts)
    stop, kill = words(command.stop), words(command.kill)
    if container is not None:
        # signals rather than `stop`, which waits and then kills by a limit of its own
        stop = stop or (*command.engine, "kill", "--signal", "TERM", container)
        kill = kill or (*command.engine, "rm", "--force", "--volumes", container)
    argv = words(command.argv)
    escaped = {word: re.escape(text) for word, text in texts.items()}
    behind = Behind(
        client=argv,
        name=name,
        deployment=deployment,
        stop=stop,
        kill=kill or stop,
        log=words(command.log),
        engine=command.engine,
        container=container,
        pidfile=None if command.pidfile is None else fill_text(command.pidfile, texts),
        process=None if command.process is None else fill_text(command.process, escaped),
        elsewhere=command.elsewhere,
    )
    return Filled(argv, behind)


def launch_command(
    command: Command,
    deployment: Deployment,
    flags: Sequence[str],
    *,
    model: str | None,
    log_path: Path,
    guard: Guard,
    port: int | None = None,
    append: bool = False,
) -> LaunchedServer:
    """Start a deployment's command and return at once; its server is not healthy yet.

    Args:
        command: Of the deployment.
        deployment: For its name and the environment of the client.
        flags: The server's, ready as arguments.
        model: The model's path as the server sees it; None where it brings its own.
        log_path: Gets the server's log.
        guard: Told of client and server at once.
        port: A port of the user's choice; None picks one that is free here.
        append: As of `launch`.

    Raises:
        MachineError: The port is in use, no port is free, or the log cannot be written.
        ServerStartError: The command could not be executed after all.
    """
    if port is None:
        chosen = free_port(_LOOPBACK)  # of another host nobody can ask: a lost race is run again
    else:
        chosen = check_port(command.host, port) if not command.elsewhere else port
    filled = fill_command(
        command, deployment.name, flags, model=model, name=new_name(), port=str(chosen)
    )
    client_log = None
    if command.log:
        client_log = log_path.with_name(f"client.{log_path.name.removeprefix('server.')}")
    return start_process(
        filled.argv,
        place=Place(command.host, chosen, port is None),
        log_path=log_path,
        env=deployment.env,
        guard=guard,
        append=append,
        behind=ServerBehind(filled.behind, log_path, guard),
        client_log_path=client_log,
    )


def read_command_help(
    command: Command,
    deployment: Deployment,
    model: str | None,
    environ: Mapping[str, str],
    limit_s: float,
) -> FlagTable:
    """The flags of the server that a command starts, from its own `--help`, asked once.

    Args:
        command: Of the deployment.
        deployment: For its name, place and environment.
        model: What `{model}` becomes.
        environ: What the command inherits.
        limit_s: Seconds to answer; a first use may have to fetch an image.

    Raises:
        ConfigError: What it prints is no llama-server's help.
        MachineError: The engine does not run.
        ServerStartError: It died.
        ServerHangError: It did not answer.
    """
    key = (command, model, tuple(sorted(deployment.env.items())))
    if key not in _helps:
        _helps[key] = _ask(command, deployment, model, _HELP, environ, limit_s)
    asked, code, text = _helps[key]
    missing = [mark for mark in HELP_MARKS if mark not in text]
    if not missing:
        return parse_help(text, f"the server of deployment '{deployment.name}'")
    told = describe_end(
        None if code < 0 else code, -code if code < 0 else None, read_end(text.splitlines()[-40:])
    )
    last = last_words(text.splitlines())
    if told.endswith(NO_REASON) and last is not None:
        told = f"{told.removesuffix(NO_REASON)}: {last}"
    words = f"the help of deployment '{deployment.name}' could not be read: {told}"
    hint = f"it was asked with: {' '.join(asked)}"
    if code < 0 or 129 <= code <= 159:
        raise ServerStartError(words, where=deployment.source, hint=hint)
    if _NO_ENGINE.search(text):
        raise MachineError(words, where=deployment.source, hint=f"is the engine running? {hint}")
    if code == 0:
        words = (
            f"what deployment '{deployment.name}' prints for its help is not a llama-server's: it "
            f"lists no {missing[0]}"
        )
    raise ConfigError(
        words, where=deployment.source, hint=f"{hint}\nsay with 'help' how to ask for it"
    )


_helps: dict[
    tuple[Command, str | None, tuple[tuple[str, str], ...]], tuple[tuple[str, ...], int, str]
] = {}


def list_command_devices(
    command: Command,
    deployment: Deployment,
    model: str | None,
    environ: Mapping[str, str],
    limit_s: float,
) -> tuple[str, ...] | None:
    """The devices that the command's server can use besides the CPU; None where it cannot tell."""
    if command.help and _HELP not in command.help:
        return None
    _, code, text = _ask(command, deployment, model, "--list-devices", environ, limit_s)
    _, mark, rows = text.partition("Available devices:")
    if code != 0 or not mark:
        return None
    return tuple(row[1] for row in re.finditer(r"^\s+([A-Za-z]\w*):", rows, re.MULTILINE))


def _ask(
    command: Command,
    deployment: Deployment,
    model: str | None,
    question: str,
    environ: Mapping[str, str],
    limit_s: float,
) -> tuple[tuple[str, ...], int, str]:
    """Run the command with a question to its end: what was run, its code, both outputs."""
    name = new_name()
    texts = _texts(command, model=model, name=name, port=str(free_port(_LOOPBACK)))
    if command.help:
        template = tuple(question if word == _HELP else word for word in command.help)
    else:
        template = command.argv
    asked = fill(template, texts, [question])
    removal = _removal(command, name, texts, template)
    if not removal:
        return asked, *_run(asked, deployment, question, environ, limit_s)
    with Guard() as guard:  # a container that only answers must not stay either
        guard.add_command(removal)
        try:
            return asked, *_run(asked, deployment, question, environ, limit_s)
        finally:
            with suppress(OSError, subprocess.TimeoutExpired):
                if run_bounded(removal, _REMOVAL_LIMIT_S).returncode == 0:
                    guard.drop_command(removal)  # else the guard tries again as it leaves


def _run(
    asked: Sequence[str],
    deployment: Deployment,
    question: str,
    environ: Mapping[str, str],
    limit_s: float,
) -> tuple[int, str]:
    try:
        environment = server_environment(environ, deployment.env, {KEY_VARIABLE: "none"})
        return ask(asked, environment, limit_s)
    except subprocess.TimeoutExpired as error:
        raise ServerHangError(
            f"deployment '{deployment.name}' did not answer {question} within {limit_s:g} s",
            where=deployment.source,
            hint=f"it was asked with: {' '.join(asked)}\nallow more with --start-limit",
        ) from error
    except OSError as error:
        raise ConfigError(
            f"{asked[0]} could not be started: {error.strerror}", where=deployment.source
        ) from error


def _removal(
    command: Command, name: str, texts: Mapping[str, str], template: Sequence[str]
) -> tuple[str, ...]:
    """What removes the container that only answered a question; empty where it has no name."""
    if command.container is None or "name" not in placeholders(template):
        return ()
    if command.kill:
        return fill(command.kill, texts, ())
    return (*command.engine, "rm", "--force", "--volumes", name)


def _texts(command: Command, *, model: str | None, name: str, port: str) -> dict[str, str]:
    texts = {"host": command.host, "port": port, "key_env": KEY_VARIABLE, "name": name}
    return texts if model is None else {**texts, "model": model}
