"""What is launched where a deployment's command starts the server: its flags, its model."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from benchsuite.errors import ConfigError, MachineError, ServerHangError
from benchsuite.model.record import Failure, ModelFacts
from benchsuite.model.shape import UnknownMemory
from benchsuite.pipeline.context import Target
from benchsuite.scenario.templates import placeholders
from benchsuite.server.command import StartedBy, command_binary, read_command_help
from benchsuite.server.gguf_facts import read_model_facts
from benchsuite.server.gguf_shape import read_model_shape
from benchsuite.server.launch import LaunchedServer
from benchsuite.server.tiny_model import tiny_model


def commanded_target(by: StartedBy, environ: Mapping[str, str], limit_s: float) -> Target:
    """What a deployment's command launches.

    Args:
        by: The command.
        environ: What it inherits.
        limit_s: Seconds for its help.

    Raises:
        ConfigError: A program is not there, or the command's help is none.
        ServerError: The command dies or hangs when asked for help.
    """
    binary = command_binary(by.deployment, by.command)
    path = _model(by)
    inside = by.command.model_inside
    table = read_command_help(
        by.command,
        by.deployment,
        inside or (None if path is None else str(path)),
        environ,
        limit_s,
    )
    if path is None:
        why = (
            f"the model file of deployment '{by.deployment.name}' cannot be seen from here; name "
            "it with 'model' where it can"
        )
        return Target(binary, table, ModelFacts(path=inside or ""), UnknownMemory(why), by=by)
    return Target(binary, table, read_model_facts(path), read_model_shape(path), by=by)


def left_behind(server: LaunchedServer) -> Failure | None:
    """A server that runs on after it was stopped: what comes next would suffer from it."""
    if server.survivors:
        return Failure("machine", survival(server.survivors), step="stopping", healthy_before=True)
    if server.behind is None:
        return None
    how = server.behind.how
    if server.behind.left:
        return Failure(
            "machine",
            f"after it was stopped and killed, {server.behind.left}",
            hint=f"see to it that it is gone: {shlex.join(how.kill)}",
            step="stopping",
            healthy_before=True,
        )
    if not server.left_behind():
        return None
    words = f"the server still answers at {server.host}:{server.port} after it was stopped"
    if server.behind.stop_fault:
        words = f"{words}; 'stop' failed: {server.behind.stop_fault}"
    hint = (
        f"say with 'stop' of deployment '{how.deployment}' how to end what '{how.client[0]}' starts"
    )
    return Failure("hang", words, hint=hint, step="stopping", healthy_before=True)


def refuse_left_behind(server: LaunchedServer) -> None:
    """Go no further beside a server that runs on after it was stopped.

    Raises:
        MachineError: Not even a kill ended it.
        ServerHangError: It still answers.
    """
    failure = left_behind(server)
    if failure is not None:
        kind = MachineError if failure.kind == "machine" else ServerHangError
        raise kind(failure.message, hint=failure.hint)


def survival(survivors: tuple[str, ...]) -> str:
    """That processes live on, and which."""
    return f"what was launched was killed, and still runs: {', '.join(survivors)}"


def _model(by: StartedBy) -> Path | None:
    """The model's file on this machine; None where the server has it from elsewhere."""
    deployment, command = by.deployment, by.command
    used = "model" in placeholders(command.argv)
    if deployment.model is not None:
        if not used and command.model_inside is not None:
            raise ConfigError(
                f"deployment '{deployment.name}' says with 'model_inside' how its server sees the "
                "model, but its 'command' has no '{model}'",
                where=deployment.source,
            )
        return Path(deployment.model)
    if used and command.model_inside is None:
        return tiny_model()
    return None
