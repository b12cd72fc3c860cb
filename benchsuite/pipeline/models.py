"""Which model a server will serve, or serves: from a file, by its own flags, or by a router's name.

Where the server finds its model by itself (`-hf`, `--models-dir`), nothing is known before it has
answered; then `/props` names the file, and on this machine it can be read.
"""

from __future__ import annotations

from pathlib import Path

from benchsuite.client.props import Props
from benchsuite.errors import ConfigError, FlagError
from benchsuite.model.deployment import OWN_MODEL_FLAGS, ROUTER_FLAGS, Deployment
from benchsuite.model.record import ModelFacts
from benchsuite.model.shape import ModelShape, UnknownMemory
from benchsuite.scenario.flags import ON, FlagTable
from benchsuite.scenario.words import remedy
from benchsuite.server.gguf_facts import read_model_facts
from benchsuite.server.gguf_shape import read_model_shape
from benchsuite.server.tiny_model import tiny_model

_PRESET = "-default"
"""How the names of switches end that choose a model known to the build (`gpt-oss-20b-default`)."""

_NOT_YET = UnknownMemory("the server chooses its model itself, and has not said which file it is")


def model_of(
    deployment: Deployment, table: FlagTable
) -> tuple[ModelFacts, ModelShape | UnknownMemory]:
    """The model that a launched server is given, as far as it is known before.

    Returns:
        Facts and shape; an empty path where the server finds its model by its own flags.

    Raises:
        ConfigError: The deployment names no model of a router, or a model in two ways; or the
            file is missing or no GGUF.
    """
    own = own_model_flags(deployment, table)
    if own and deployment.model is not None:
        raise ConfigError(
            f"deployment '{deployment.name}' gives both 'model' and flag '{own[0]}'; keep one",
            where=_place(deployment),
        )
    if own:
        if own[0] in ROUTER_FLAGS and deployment.model_name is None:
            raise ConfigError(
                f"deployment '{deployment.name}' starts a router (flag '{own[0]}'), and does not "
                "say which of its models is meant",
                where=_place(deployment),
                hint=f'add model_name = "NAME" under [deployments.{deployment.name}], or give '
                "--model-name NAME",
            )
        value = deployment.model_name or next(
            (v for k, v in deployment.flags.items() if _canonical(table, k) == own[0]), None
        )
        return ModelFacts(
            name=value if isinstance(value, str) and value != ON else own[0]
        ), _NOT_YET
    path = Path(deployment.model) if deployment.model is not None else tiny_model()
    return read_model_facts(path), read_model_shape(path)


def own_model_flags(deployment: Deployment, table: FlagTable) -> list[str]:
    """Canonical names of the flags by which the deployment's server finds its model itself."""
    found = []
    for word, value in deployment.flags.items():
        name = _canonical(table, word)
        if value is None or name is None:
            continue
        if name in OWN_MODEL_FLAGS or (name.endswith(_PRESET) and value in (ON, "true")):
            found.append(name)
    return found


def served_model(
    known: ModelFacts, shape: ModelShape | UnknownMemory, props: Props
) -> tuple[ModelFacts, ModelShape | UnknownMemory]:
    """The model that a launched server has, now that it answers.

    Args:
        known: What was known before it was started.
        shape: Likewise.
        props: Of the server, or of the router's child.
    """
    if known.path:
        return known, shape
    named = ModelFacts(path=props.model_path or "", name=props.model or known.name)
    path = Path(named.path)
    if not named.path or not path.is_file():
        return named, _NOT_YET
    try:
        return read_model_facts(path), read_model_shape(path)
    except ConfigError as error:  # a part or format that we cannot read, and the server can
        return named, UnknownMemory(f"the model's file cannot be read: {error.message}")


def unnamed_router(url: str, names: list[str]) -> ConfigError:
    """A router was reached, and no model was named."""
    listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return ConfigError(
        f"the server at {url} is a router and needs the name of a model; it has {listed or 'none'}",
        hint='give --model-name NAME, or model_name = "NAME" in the deployment',
    )


def unknown_to_router(url: str, name: str, names: list[str]) -> ConfigError:
    """A router has no model of the name."""
    return ConfigError(f"the router at {url} has no model '{name}'{remedy(name, names, 'models')}")


def _canonical(table: FlagTable, word: str) -> str | None:
    try:
        return table.canonical(word)
    except FlagError:
        return None  # told where flags are resolved


def _place(deployment: Deployment) -> str | None:
    return None if deployment.source == "built in" else deployment.source
